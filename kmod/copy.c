// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Moving bytes between two places, each kernel memory, pinned pages or pages
 * found in a shadow table.  Nothing here sleeps or faults; a translation that
 * is missing is reported and the caller sees to it.
 */

#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/unaligned.h>

#include "mem.h"

/* Bytes moved under a leaf lock, that is, the longest an invalidation waits */
#define COPY_CHUNK	(64 * 1024)

static struct odp_leaf *place_leaf(struct odp_place *p)
{
	return odp_mm_leaf(p->mr->mm, p->va);
}

static bool place_is_odp(struct odp_place *p)
{
	return p->mr && p->mr->mm;
}

/* Address of the byte at @off from the place, and how many follow in its page */
static u8 *place_ptr(struct odp_place *p, struct odp_leaf *leaf, size_t off,
		     bool write, size_t *avail)
{
	struct page *page;
	unsigned long entry;
	u64 va = p->va + off;

	if (!p->mr) {
		*avail = SIZE_MAX;
		return p->kbuf + off;
	}
	*avail = PAGE_SIZE - offset_in_page(va);
	if (!p->mr->mm) {
		page = p->mr->pages[va >> PAGE_SHIFT];
	} else {
		entry = leaf->entry[(va >> PAGE_SHIFT) & (ODP_LEAF_PAGES - 1)];
		if (!entry || (write && !(entry & ODP_ENTRY_WRITE)))
			return NULL;
		page = (struct page *)(entry & ~ODP_ENTRY_WRITE);
	}
	return (u8 *)page_address(page) + offset_in_page(va);
}

/*
 * Readers spin for the first lock only: with the second one merely tried, two
 * copies in opposite directions can't deadlock behind queued writers.
 */
static void lock_leaves(struct odp_leaf *a, struct odp_leaf *b)
{
	if (!a || a == b) {
		a = b;
		b = NULL;
	}
	while (a) {
		read_lock(&a->lock);
		if (!b || read_trylock(&b->lock))
			return;
		read_unlock(&a->lock);
		cpu_relax();
		/* wait for the one that was taken */
		swap(a, b);
	}
}

static void unlock_leaves(struct odp_leaf *a, struct odp_leaf *b)
{
	if (a)
		read_unlock(&a->lock);
	if (b && b != a)
		read_unlock(&b->lock);
}

/*
 * Programs poll the last bytes of a message, so these are stored last.  A
 * string instruction alone gives no order among its own stores (Intel SDM
 * vol. 3, 10.2.4).
 */
static void copy_bytes(u8 *dst, const u8 *src, size_t len)
{
	switch (len) {
	case 1:
		WRITE_ONCE(*dst, READ_ONCE(*src));
		return;
	case 2:
		put_unaligned(get_unaligned((u16 *)src), (u16 *)dst);
		return;
	case 4:
		put_unaligned(get_unaligned((u32 *)src), (u32 *)dst);
		return;
	case 8:
		put_unaligned(get_unaligned((u64 *)src), (u64 *)dst);
		return;
	}
	if (len < 8) {
		memcpy(dst, src, len);
		return;
	}
	memcpy(dst, src, len - 8);
	/* pairs with the poller's read of the last byte */
	smp_wmb();
	put_unaligned(get_unaligned((u64 *)(src + len - 8)),
		      (u64 *)(dst + len - 8));
}

/**
 * odp_copy - move bytes, as far as translations and the chunk limit allow
 * @dst: where to; its MR has been checked for the range
 * @src: where from; likewise
 * @len: bytes wanted
 * @copied: result; may be less than @len, and is 0 if nothing could be moved
 *
 * Return: ODP_COPY_OK, or which side's first byte has no translation.
 */
enum odp_copy_result odp_copy(struct odp_place *dst, struct odp_place *src,
			      size_t len, size_t *copied)
{
	struct odp_leaf *dleaf = NULL, *sleaf = NULL;
	enum odp_copy_result res = ODP_COPY_OK;
	size_t off = 0;

	*copied = 0;
	len = min_t(size_t, len, COPY_CHUNK);
	if (place_is_odp(dst)) {
		dleaf = place_leaf(dst);
		if (!dleaf)
			return ODP_COPY_MISS_DST;
		len = min_t(u64, len, ODP_LEAF_SIZE -
				      (dst->va & (ODP_LEAF_SIZE - 1)));
	}
	if (place_is_odp(src)) {
		sleaf = place_leaf(src);
		if (!sleaf)
			return ODP_COPY_MISS_SRC;
		len = min_t(u64, len, ODP_LEAF_SIZE -
				      (src->va & (ODP_LEAF_SIZE - 1)));
	}

	lock_leaves(dleaf, sleaf);
	while (off < len) {
		size_t davail, savail, n;
		u8 *d = place_ptr(dst, dleaf, off, true, &davail);
		u8 *s = place_ptr(src, sleaf, off, false, &savail);

		if (!d || !s) {
			if (!off)
				res = d ? ODP_COPY_MISS_SRC : ODP_COPY_MISS_DST;
			break;
		}
		n = min3(len - off, davail, savail);
		copy_bytes(d, s, n);
		off += n;
	}
	unlock_leaves(dleaf, sleaf);
	*copied = off;
	return res;
}

/**
 * odp_atomic - an atomic operation on a word in host byte order
 * @at: the word, 8-byte aligned, checked for its MR
 * @cmpswap: compare and swap; else fetch and add
 * @compare_add: what to compare with, or to add
 * @swap: what to store if equal
 * @old: result, the value before
 *
 * The CPU's own atomics are used, hence IB_ATOMIC_GLOB.
 * Return: ODP_COPY_OK or ODP_COPY_MISS_DST.
 */
enum odp_copy_result odp_atomic(struct odp_place *at, bool cmpswap,
				u64 compare_add, u64 swap, u64 *old)
{
	struct odp_leaf *leaf = NULL;
	atomic64_t *word;
	size_t avail;

	if (place_is_odp(at)) {
		leaf = place_leaf(at);
		if (!leaf)
			return ODP_COPY_MISS_DST;
	}
	lock_leaves(leaf, NULL);
	word = (atomic64_t *)place_ptr(at, leaf, 0, true, &avail);
	if (word && cmpswap)
		*old = atomic64_cmpxchg(word, compare_add, swap);
	else if (word)
		*old = atomic64_fetch_add(compare_add, word);
	unlock_leaves(leaf, NULL);
	return word ? ODP_COPY_OK : ODP_COPY_MISS_DST;
}
