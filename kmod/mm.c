// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The shadow page table of an address space: filled by page faults of the
 * device, emptied by the MMU notifier.
 *
 * An entry is valid from the moment it is installed under the leaf's write
 * lock until the notifier takes it out under the same lock.  Readers copy
 * under the read lock, so an invalidation waits for a copy that is under way
 * (bounded) and never for a fault.
 *
 * A fault looks a page up (which may sleep) and then installs it unless an
 * invalidation came between: one that has ended moved leaf->seq, one that is
 * still active shows in inv_start..inv_end.  Either way the fault is repeated.
 */

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mem.h"

/* Pages looked up in one go: bounds the time mmap_lock is held */
#define FAULT_BATCH	64

static u64 leaf_index(u64 va)
{
	return va >> ODP_LEAF_SHIFT;
}

static unsigned int page_index(u64 va)
{
	return (va >> PAGE_SHIFT) & (ODP_LEAF_PAGES - 1);
}

/**
 * odp_mm_leaf - the leaf that translates an address
 * @m: the address space
 * @va: any address in it
 *
 * Return: the leaf, valid as long as @m, or NULL when nothing near @va was
 * ever faulted in.
 */
struct odp_leaf *odp_mm_leaf(struct odp_mm *m, u64 va)
{
	return xa_load(&m->leaves, leaf_index(va));
}

static void leaf_free(struct odp_leaf *leaf)
{
	free_page((unsigned long)leaf->entry);
	kmem_cache_free(odp_leaf_cache, leaf);
}

static struct odp_leaf *leaf_get(struct odp_mm *m, u64 va, gfp_t gfp)
{
	struct odp_leaf *leaf, *old;

	leaf = odp_mm_leaf(m, va);
	if (leaf)
		return leaf;
	leaf = kmem_cache_zalloc(odp_leaf_cache, gfp);
	if (!leaf)
		return NULL;
	rwlock_init(&leaf->lock);
	leaf->entry = (unsigned long *)get_zeroed_page(gfp);
	if (!leaf->entry) {
		leaf_free(leaf);
		return NULL;
	}
	old = xa_cmpxchg(&m->leaves, leaf_index(va), NULL, leaf, gfp);
	if (old) {
		leaf_free(leaf);
		return xa_is_err(old) ? NULL : old;
	}
	return leaf;
}

/* --------------------------------------------------------- invalidation */

/* Pages of a leaf that an invalidation took out, for the MRs' counters */
static void count_invalidated(struct odp_mm *m, u64 leaf_va,
			      const unsigned long *gone)
{
	struct odp_mr *mr;

	spin_lock(&m->mr_lock);
	list_for_each_entry(mr, &m->mrs, mm_node) {
		unsigned int first = 0, last = ODP_LEAF_PAGES, i, n = 0;
		u64 end = mr->start + mr->length;

		if (!odp_range_overlaps(mr->start, end, leaf_va,
					leaf_va + ODP_LEAF_SIZE))
			continue;
		if (mr->start > leaf_va)
			first = page_index(mr->start);
		if (end < leaf_va + ODP_LEAF_SIZE)
			last = page_index(end - 1) + 1;
		for (i = find_next_bit(gone, last, first); i < last;
		     i = find_next_bit(gone, last, i + 1))
			n++;
		atomic64_add(n, &mr->invalidations);
		atomic64_inc(&mr->invalidations_handled);
		odp_count(mr->dev, ODP_CNT_INVALIDATIONS, n);
	}
	spin_unlock(&m->mr_lock);
}

static void leaf_invalidate(struct odp_mm *m, struct odp_leaf *leaf,
			    u64 leaf_va, u64 start, u64 end)
{
	unsigned int i, first = 0, last = ODP_LEAF_PAGES - 1;
	DECLARE_BITMAP(gone, ODP_LEAF_PAGES);
	bool any = false;

	if (start > leaf_va)
		first = page_index(start);
	if (end < leaf_va + ODP_LEAF_SIZE)
		last = page_index(end - 1);

	write_lock(&leaf->lock);
	leaf->seq++;
	if (leaf->present) {
		bitmap_zero(gone, ODP_LEAF_PAGES);
		for (i = first; i <= last; i++) {
			if (!leaf->entry[i])
				continue;
			leaf->entry[i] = 0;
			leaf->present--;
			__set_bit(i, gone);
			any = true;
		}
	}
	write_unlock(&leaf->lock);
	if (any)
		count_invalidated(m, leaf_va, gone);
}

static void mm_invalidate(struct odp_mm *m, u64 start, u64 end)
{
	struct odp_leaf *leaf;
	unsigned long index;

	xa_for_each_range(&m->leaves, index, leaf, leaf_index(start),
			  leaf_index(end - 1))
		leaf_invalidate(m, leaf, (u64)index << ODP_LEAF_SHIFT, start,
				end);
}

/* Only spins, so that a non-blockable invalidation (OOM reaper) can succeed */
static int mn_start(struct mmu_notifier *mn,
		    const struct mmu_notifier_range *range)
{
	struct odp_mm *m = container_of(mn, struct odp_mm, mn);

	spin_lock(&m->inv_lock);
	if (!m->inv_active++) {
		m->inv_start = range->start;
		m->inv_end = range->end;
	} else {
		m->inv_start = min(m->inv_start, range->start);
		m->inv_end = max(m->inv_end, range->end);
	}
	spin_unlock(&m->inv_lock);
	mm_invalidate(m, range->start, range->end);
	return 0;
}

static void mn_end(struct mmu_notifier *mn,
		   const struct mmu_notifier_range *range)
{
	struct odp_mm *m = container_of(mn, struct odp_mm, mn);
	struct odp_leaf *leaf;
	unsigned long index;

	/*
	 * A fault that began after our start may hold a page from before the
	 * change; it must see seq move once the range is no longer active.
	 */
	xa_for_each_range(&m->leaves, index, leaf, leaf_index(range->start),
			  leaf_index(range->end - 1)) {
		write_lock(&leaf->lock);
		leaf->seq++;
		write_unlock(&leaf->lock);
	}
	spin_lock(&m->inv_lock);
	m->inv_active--;
	spin_unlock(&m->inv_lock);
}

static void mn_release(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct odp_mm *m = container_of(mn, struct odp_mm, mn);

	spin_lock(&m->inv_lock);
	m->dead = true;
	spin_unlock(&m->inv_lock);
	mm_invalidate(m, 0, m->size);
}

/* ------------------------------------------------------------- lifetime */

static void mm_free_work(struct work_struct *work)
{
	struct odp_mm *m = container_of(work, struct odp_mm, free_work);
	struct odp_leaf *leaf;
	unsigned long index;

	if (m->wq)
		destroy_workqueue(m->wq);
	xa_for_each(&m->leaves, index, leaf)
		leaf_free(leaf);
	xa_destroy(&m->leaves);
	mmdrop(m->mm);
	kmem_cache_free(odp_mm_cache, m);
}

static void mm_release(struct kref *ref)
{
	struct odp_mm *m = container_of(ref, struct odp_mm, ref);

	/* the last reference may be a fault's, in the workqueue to destroy */
	queue_work(odp_wq, &m->free_work);
}

void odp_mm_put(struct odp_mm *m)
{
	kref_put(&m->ref, mm_release);
}

static struct mmu_notifier *mn_alloc(struct mm_struct *mm)
{
	struct odp_mm *m = kmem_cache_zalloc(odp_mm_cache, GFP_KERNEL);

	if (!m)
		return ERR_PTR(-ENOMEM);
	kref_init(&m->ref);
	/* a queued fault outlives the notifier, which has its own reference */
	mmgrab(mm);
	m->mm = mm;
	xa_init_flags(&m->leaves, XA_FLAGS_ACCOUNT);
	m->size = mm->task_size;
	spin_lock_init(&m->inv_lock);
	spin_lock_init(&m->mr_lock);
	INIT_LIST_HEAD(&m->mrs);
	mutex_init(&m->wq_lock);
	INIT_WORK(&m->free_work, mm_free_work);
	return &m->mn;
}

static void mn_free(struct mmu_notifier *mn)
{
	odp_mm_put(container_of(mn, struct odp_mm, mn));
}

static const struct mmu_notifier_ops mn_ops = {
	.release = mn_release,
	.invalidate_range_start = mn_start,
	.invalidate_range_end = mn_end,
	.alloc_notifier = mn_alloc,
	.free_notifier = mn_free,
};

/**
 * odp_mm_get_current - the shadow table of the calling process
 *
 * Return: the table; to be given back by odp_mm_put_notifier().  Or an ERR_PTR.
 */
struct odp_mm *odp_mm_get_current(void)
{
	struct mmu_notifier *mn = mmu_notifier_get(&mn_ops, current->mm);
	struct odp_mm *m;

	if (IS_ERR(mn))
		return ERR_CAST(mn);
	m = container_of(mn, struct odp_mm, mn);

	/* not in mn_alloc(): that one runs under mmap_lock */
	mutex_lock(&m->wq_lock);
	if (!m->wq)
		m->wq = alloc_workqueue("odp_fault", WQ_UNBOUND, 4);
	mutex_unlock(&m->wq_lock);
	if (!m->wq) {
		mmu_notifier_put(mn);
		return ERR_PTR(-ENOMEM);
	}
	return m;
}

/**
 * odp_mm_put_notifier - an MR no longer needs the table
 * @m: from odp_mm_get_current()
 *
 * With the last MR the notifier stops.  Faults still under way keep @m itself
 * and install into a table that no MR can reach any more.
 */
void odp_mm_put_notifier(struct odp_mm *m)
{
	mmu_notifier_put(&m->mn);
}

/**
 * odp_mm_module_exit - wait until the last table is gone
 */
void odp_mm_module_exit(void)
{
	mmu_notifier_synchronize();
	flush_workqueue(odp_wq);
}

/* ---------------------------------------------------------------- faults */

static bool must_retry(struct odp_mm *m, struct odp_leaf *leaf, u32 seq,
		       u64 start, u64 end)
{
	bool retry;

	lockdep_assert_held_write(&leaf->lock);
	spin_lock(&m->inv_lock);
	retry = leaf->seq != seq ||
		(m->inv_active &&
		 odp_range_overlaps(m->inv_start, m->inv_end, start, end));
	spin_unlock(&m->inv_lock);
	return retry;
}

/* Look up and install up to FAULT_BATCH pages of one leaf */
static long fault_batch(struct odp_mm *m, struct mm_struct *mm, u64 va,
			unsigned int want, bool write, bool nowait)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | (nowait ? __GFP_NORETRY : 0);
	unsigned int gup = write ? FOLL_WRITE : 0;
	unsigned int base = page_index(va), i;
	struct page *pages[FAULT_BATCH];
	struct odp_leaf *leaf;
	int locked = 1;
	bool retry;
	long n;
	u32 seq;

	leaf = leaf_get(m, va, gfp);
	if (!leaf)
		return -ENOMEM;
	read_lock(&leaf->lock);
	seq = leaf->seq;
	read_unlock(&leaf->lock);

	if (nowait) {
		if (!mmap_read_trylock(mm))
			return -EAGAIN;
		n = get_user_pages_remote(mm, va, want, gup | FOLL_NOFAULT,
					  pages, NULL);
	} else {
		mmap_read_lock(mm);
		n = get_user_pages_remote(mm, va, want, gup, pages, &locked);
	}
	if (locked)
		mmap_read_unlock(mm);
	if (n <= 0)
		return n ?: -EFAULT;

	write_lock(&leaf->lock);
	retry = READ_ONCE(m->dead) ||
		must_retry(m, leaf, seq, va, va + n * PAGE_SIZE);
	for (i = 0; i < n && !retry; i++) {
		unsigned long *entry = &leaf->entry[base + i];
		unsigned long page = (unsigned long)pages[i];

		if (!*entry)
			leaf->present++;
		/* a read fault takes no write permission away */
		if (write || *entry != (page | ODP_ENTRY_WRITE))
			*entry = page | (write ? ODP_ENTRY_WRITE : 0);
	}
	write_unlock(&leaf->lock);

	for (i = 0; i < n; i++)
		put_page(pages[i]);
	if (retry)
		return READ_ONCE(m->dead) ? -ESRCH : -EAGAIN;
	return n;
}

/**
 * odp_mm_fault - make pages of an address space reachable
 * @m: the address space; of any process
 * @va: first byte needed
 * @len: bytes; what lies beyond the leaf of @va or a batch is left out
 * @write: they are going to be written
 * @nowait: neither sleep for mmap_lock nor page anything in
 *
 * Return: pages installed (at least the one of @va), -EFAULT when @va can't be
 * accessed that way, -EAGAIN when an invalidation interfered or @nowait was
 * not enough to tell, -ESRCH when its process has ended, -ENOMEM.
 */
int odp_mm_fault(struct odp_mm *m, u64 va, u64 len, bool write, bool nowait)
{
	struct mem_cgroup *memcg, *old;
	struct mm_struct *mm = m->mm;
	u64 first = va & PAGE_MASK;
	unsigned int want;
	u64 end;
	long n;

	if (!len || !odp_range_inside(0, m->size, va, len))
		return -EFAULT;
	end = min(ALIGN(va + len, PAGE_SIZE),
		  (va & ~(u64)(ODP_LEAF_SIZE - 1)) + ODP_LEAF_SIZE);
	want = min_t(u64, (end - first) >> PAGE_SHIFT, FAULT_BATCH);

	if (!mmget_not_zero(mm))
		return -ESRCH;
	/* the table is the owner's memory, whoever runs this */
	memcg = get_mem_cgroup_from_mm(mm);
	old = set_active_memcg(memcg);
	n = fault_batch(m, mm, first, want, write, nowait);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	mmput_async(mm);

	if (nowait && n == -EFAULT)
		return -EAGAIN;
	return n;
}
