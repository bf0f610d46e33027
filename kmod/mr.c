// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Memory regions and keys */

#include <linux/hugetlb_inline.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/uverbs_ioctl.h>

#include "mem.h"

#define ODP_MR_ACCESS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |	\
		       IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |	\
		       IB_ACCESS_MW_BIND | IB_ACCESS_FLUSH_GLOBAL |		\
		       IB_ZERO_BASED | IB_ACCESS_HUGETLB |			\
		       IB_ACCESS_ON_DEMAND | IB_ACCESS_OPTIONAL)

/**
 * odp_mr_get - the MR behind a key, whoever it belongs to
 * @dev: the device
 * @key: lkey or rkey, as the user wrote it
 *
 * Return: the MR, to be released with odp_users_put(&mr->users) within a
 * bounded time; or NULL.
 */
struct odp_mr *odp_mr_get(struct odp_dev *dev, u32 key)
{
	struct odp_mr *mr;

	rcu_read_lock();
	mr = xa_load(&dev->keys, key >> 8);
	if (xa_pointer_tag(mr) != ODP_KEY_MR ||
	    (mr && !(mr->key == key && odp_users_get(&mr->users))))
		mr = NULL;
	rcu_read_unlock();
	return mr;
}

/**
 * odp_mr_find - the MR behind a key, if it may be used so
 * @dev: the device
 * @pd: protection domain of the QP that uses it
 * @key: lkey or rkey, as the user wrote it
 * @access: IB_ACCESS_* bits that are all needed; 0 for a local read
 *
 * Return: as odp_mr_get().
 */
struct odp_mr *odp_mr_find(struct odp_dev *dev, struct ib_pd *pd, u32 key,
			   int access)
{
	struct odp_mr *mr = odp_mr_get(dev, key);

	if (!mr || (mr->pd == pd && (mr->access & access) == access))
		return mr;
	odp_users_put(&mr->users);
	return NULL;
}

/**
 * odp_mr_va - translate and check a range of an MR
 * @mr: the MR
 * @addr: what the work request says: an address at or above the MR's iova
 * @len: bytes
 * @va: result: virtual address (ODP) or offset into the pages (pinned)
 *
 * Return: 0, or -EINVAL when the range is not inside the MR.
 */
int odp_mr_va(struct odp_mr *mr, u64 addr, u64 len, u64 *va)
{
	if (!odp_range_inside(mr->iova, mr->length, addr, len))
		return -EINVAL;
	*va = addr - mr->iova + mr->start;
	return 0;
}

/**
 * odp_key_alloc - a key that says nothing about other keys
 * @dev: the device
 * @entry: what the key stands for, tagged with what it is; found at
 *         @key >> 8 as soon as this returns
 * @key: result: the index and the low eight bits are both random
 */
int odp_key_alloc(struct odp_dev *dev, void *entry, u32 *key)
{
	unsigned int tries;
	int err = -EBUSY;

	for (tries = 0; err == -EBUSY && tries < 64; tries++) {
		/* 0 and ~0 read like "no key" in many programs */
		do {
			*key = get_random_u32();
		} while (!(*key >> 8) || *key >> 8 == 0xffffff);
		err = xa_insert(&dev->keys, *key >> 8, entry,
				GFP_KERNEL_ACCOUNT);
	}
	return err == -EBUSY ? -ENOSPC : err;
}

static int mr_init_pinned(struct odp_mr *mr)
{
	struct sg_page_iter it;
	unsigned int i = 0;

	if (!mr->length)
		return 0;
	mr->umem = odp_umem_get(&mr->dev->ibdev, mr->start, mr->length,
				mr->access);
	if (IS_ERR(mr->umem))
		return PTR_ERR(mr->umem);
	mr->num_pages = ib_umem_num_pages(mr->umem);
	mr->pages = kvcalloc(mr->num_pages, sizeof(*mr->pages),
			     GFP_KERNEL_ACCOUNT);
	if (!mr->pages) {
		ib_umem_release(mr->umem);
		return -ENOMEM;
	}
	for_each_sgtable_page(&mr->umem->sgt_append.sgt, &it, 0) {
		if (WARN_ON_ONCE(i == mr->num_pages))
			break;
		mr->pages[i++] = sg_page_iter_page(&it);
	}
	/* from here on "va" counts from the first page */
	mr->start = ib_umem_offset(mr->umem);
	odp_count(mr->dev, ODP_CNT_PINNED_PAGES, mr->num_pages);
	return 0;
}

/* Is all of this range of the caller's in hugetlbfs? */
static bool range_is_huge(u64 start, u64 len)
{
	struct mm_struct *mm = current->mm;
	u64 end = start + len;
	u64 at = start;

	if (mmap_read_lock_killable(mm))
		return false;
	while (at < end) {
		struct vm_area_struct *vma = vma_lookup(mm, at);

		if (!vma || !is_vm_hugetlb_page(vma))
			break;
		at = vma->vm_end;
	}
	mmap_read_unlock(mm);
	return at >= end;
}

static int mr_init_odp(struct odp_mr *mr)
{
	struct odp_mm *m = odp_mm_get_current();

	if (IS_ERR(m))
		return PTR_ERR(m);
	if (mr->implicit)
		mr->length = m->size;
	if (!odp_range_inside(0, m->size, mr->start, mr->length)) {
		odp_mm_put_notifier(m);
		return -EFAULT;
	}
	if ((mr->access & IB_ACCESS_HUGETLB) &&
	    !range_is_huge(mr->start, mr->length)) {
		odp_mm_put_notifier(m);
		return -EINVAL;
	}
	mr->mm = m;
	spin_lock(&m->mr_lock);
	list_add(&mr->mm_node, &m->mrs);
	spin_unlock(&m->mr_lock);
	return 0;
}

static void mr_free(struct odp_mr *mr)
{
	if (mr->mm) {
		spin_lock(&mr->mm->mr_lock);
		list_del(&mr->mm_node);
		spin_unlock(&mr->mm->mr_lock);
		odp_mm_put_notifier(mr->mm);
	}
	if (mr->umem) {
		odp_count(mr->dev, ODP_CNT_PINNED_PAGES, -(s64)mr->num_pages);
		ib_umem_release(mr->umem);
		kvfree(mr->pages);
	}
	kfree_rcu(mr, rcu);
}

struct ib_mr *odp_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
			      u64 iova, int access, ODP_REG_MR_ARGS)
{
	struct odp_mr *mr;
	int err;

	if (odp_reg_mr_unsupported())
		return ERR_PTR(-EOPNOTSUPP);
	if (access & ~ODP_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);

	mr = kmem_cache_zalloc(odp_mr_cache, GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	odp_users_init(&mr->users);
	mr->dev = to_odp_dev(pd->device);
	mr->pd = pd;
	mr->access = access;
	mr->start = start;
	mr->length = length;
	/* ibv_reg_mr(3): bytes are counted from the MR's first one */
	mr->iova = access & IB_ZERO_BASED ? 0 : iova;
	/* mlx5 has it so, and ibv_reg_mr(3) asks for NULL and SIZE_MAX */
	mr->implicit = (access & IB_ACCESS_ON_DEMAND) && !start && !iova &&
		       length == U64_MAX;

	/* ibv_reg_mr(3): huge pages are promised for explicit ODP only */
	if ((access & IB_ACCESS_HUGETLB) &&
	    (mr->implicit || !(access & IB_ACCESS_ON_DEMAND))) {
		err = -EINVAL;
		goto err_free;
	}
	if (!mr->implicit &&
	    (start + length < start || iova + length < iova)) {
		err = -EINVAL;
		goto err_free;
	}
	if (access & IB_ACCESS_ON_DEMAND)
		err = mr_init_odp(mr);
	else
		err = mr_init_pinned(mr);
	if (err)
		goto err_free;
	err = odp_key_alloc(mr->dev, mr, &mr->key);
	if (err) {
		mr_free(mr);
		return ERR_PTR(err);
	}
	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = mr->key;
	return &mr->ibmr;

err_free:
	kmem_cache_free(odp_mr_cache, mr);
	return ERR_PTR(err);
}

int odp_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct odp_mr *mr = to_odp_mr(ibmr);

	/* ibv_dereg_mr(3): not while a memory window is bound to it */
	if (atomic_cmpxchg(&mr->windows, 0, -1))
		return -EBUSY;
	xa_erase(&mr->dev->keys, mr->key >> 8);
	/* copies are bounded; a fault holds the odp_mm and not the MR */
	odp_users_drain(&mr->users);
	mr_free(mr);
	return 0;
}
