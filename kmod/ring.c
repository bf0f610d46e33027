// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Rings shared with user space.
 *
 * The layout is librxe's (struct rxe_queue_buf).  The user can write all of it
 * at any time, so geometry and our own index live in struct odp_ring, and the
 * copies in the shared page are only ever written.
 */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "odp.h"

/**
 * odp_ring_create - a zeroed ring
 * @min_slots: entries that must fit
 * @slot_bytes: a power of two
 *
 * Its pages are charged to the caller's memory cgroup.
 * Return: a ring with one reference, or an ERR_PTR.
 */
struct odp_ring *odp_ring_create(u32 min_slots, u32 slot_bytes)
{
	/* one slot stays empty, to tell full from empty */
	u32 slots = roundup_pow_of_two(min_slots + 1);
	size_t bytes = sizeof(struct rxe_queue_buf) + (size_t)slots * slot_bytes;
	struct odp_ring *ring;
	unsigned int i;

	ring = kzalloc_obj(*ring, GFP_KERNEL_ACCOUNT);
	if (!ring)
		return ERR_PTR(-ENOMEM);
	kref_init(&ring->ref);
	ring->log2_slot = ilog2(slot_bytes);
	ring->mask = slots - 1;
	ring->num_pages = PFN_UP(bytes);
	ring->pages = kvcalloc(ring->num_pages, sizeof(*ring->pages),
			       GFP_KERNEL_ACCOUNT);
	if (!ring->pages)
		goto err;
	for (i = 0; i < ring->num_pages; i++) {
		ring->pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!ring->pages[i])
			goto err;
	}
	ring->buf = vmap(ring->pages, ring->num_pages, VM_MAP, PAGE_KERNEL);
	if (!ring->buf)
		goto err;
	ring->buf->log2_elem_size = ring->log2_slot;
	ring->buf->index_mask = ring->mask;
	return ring;
err:
	odp_ring_put(ring);
	return ERR_PTR(-ENOMEM);
}

static void ring_free(struct kref *ref)
{
	struct odp_ring *ring = container_of(ref, struct odp_ring, ref);
	unsigned int i;

	vunmap(ring->buf);
	/* a mapping that is still there keeps its pages by itself */
	for (i = 0; ring->pages && i < ring->num_pages && ring->pages[i]; i++)
		put_page(ring->pages[i]);
	kvfree(ring->pages);
	kfree(ring);
}

void odp_ring_put(struct odp_ring *ring)
{
	kref_put(&ring->ref, ring_free);
}

/**
 * odp_ring_copy - copy entries to another ring, for resizing
 * @to: not in use yet, with slots at least as large
 * @at: index of the first one there
 * @from: whose entries nobody takes away or rewrites meanwhile; a user who
 *        does gets what he deserves
 * @first: index of the first one
 * @count: how many
 */
void odp_ring_copy(struct odp_ring *to, u32 at, struct odp_ring *from,
		   u32 first, u32 count)
{
	size_t bytes = 1UL << from->log2_slot;

	while (count--)
		memcpy(odp_ring_slot(to, at++), odp_ring_slot(from, first++),
		       bytes);
}

/**
 * odp_ring_publish - make a ring mappable and say where
 * @ring: gets one more reference, held by the entry
 * @ctx: the only context that can map it
 * @mi: result, for the verb's response
 */
struct odp_mmap_entry *odp_ring_publish(struct odp_ring *ring,
					struct ib_ucontext *ctx,
					struct mminfo *mi)
{
	size_t bytes = (size_t)ring->num_pages << PAGE_SHIFT;
	struct odp_mmap_entry *entry;
	int err;

	entry = kzalloc_obj(*entry, GFP_KERNEL_ACCOUNT);
	if (!entry)
		return ERR_PTR(-ENOMEM);
	entry->ring = ring;
	kref_get(&ring->ref);
	err = rdma_user_mmap_entry_insert(ctx, &entry->rdma, bytes);
	if (err) {
		odp_ring_put(ring);
		kfree(entry);
		return ERR_PTR(err);
	}
	mi->offset = rdma_user_mmap_get_offset(&entry->rdma);
	mi->size = bytes;
	return entry;
}

/**
 * odp_ring_unpublish - the ring can no longer be mapped
 * @entry: may be NULL; frees itself with its last user
 */
void odp_ring_unpublish(struct odp_mmap_entry *entry)
{
	if (entry)
		rdma_user_mmap_entry_remove(&entry->rdma);
}

void odp_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct odp_mmap_entry *entry =
		container_of(rdma, struct odp_mmap_entry, rdma);

	odp_ring_put(entry->ring);
	kfree(entry);
}

int odp_mmap(struct ib_ucontext *ctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma;
	struct odp_mmap_entry *entry;
	int err;

	if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	/* checks the offset, the exact size and the owning context */
	rdma = rdma_user_mmap_entry_get(ctx, vma);
	if (!rdma)
		return -EINVAL;
	entry = container_of(rdma, struct odp_mmap_entry, rdma);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	vm_flags_clear(vma, VM_MAYEXEC);
	err = vm_map_pages_zero(vma, entry->ring->pages,
				entry->ring->num_pages);
	rdma_user_mmap_entry_put(rdma);
	return err;
}
