// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Completion queues */

#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "odp.h"

/* librxe reads its slots as a union with struct ib_wc: 64 bytes */
#define ODP_CQE_SLOT	64

static void cqc_free(struct kref *ref)
{
	struct odp_cqc *cqc = container_of(ref, struct odp_cqc, ref);

	odp_ring_put(cqc->ring);
	kfree(cqc);
}

void odp_cqc_put(struct odp_cqc *cqc)
{
	kref_put(&cqc->ref, cqc_free);
}

static void cq_overflow(struct odp_cqc *cqc)
{
	struct ib_event ev = {
		.device = cqc->ibcq->device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = cqc->ibcq,
	};

	lockdep_assert_held(&cqc->lock);
	if (cqc->overflowed)
		return;
	cqc->overflowed = true;
	if (cqc->ibcq->event_handler)
		cqc->ibcq->event_handler(&ev, cqc->ibcq->cq_context);
}

/**
 * odp_cqc_add - append a completion
 * @cqc: the CQ; nothing happens once it is destroyed or has overflowed
 * @wc: copied
 * @solicited: wakes those who asked for solicited completions only
 *
 * Any process context; takes the CQ's lock.
 * Return: false when the CQ has overflowed, which is fatal for the QP.
 */
bool odp_cqc_add(struct odp_cqc *cqc, const struct ib_uverbs_wc *wc,
		 bool solicited)
{
	struct odp_ring *ring;
	u32 next, taken;
	bool ok = true;

	spin_lock(&cqc->lock);
	if (!cqc->ibcq)
		goto out;
	ring = cqc->ring;
	next = (ring->index + 1) & ring->mask;
	/* pairs with the user's store-release: the slot has been read before */
	taken = smp_load_acquire(&ring->buf->consumer_index) & ring->mask;
	if (cqc->overflowed || taken == next) {
		cq_overflow(cqc);
		ok = false;
		goto out;
	}
	memcpy(odp_ring_slot(ring, ring->index), wc, sizeof(*wc));
	ring->index = next;
	/* pairs with the user's load-acquire: the slot is written before */
	smp_store_release(&ring->buf->producer_index, next);

	if (cqc->notify == IB_CQ_NEXT_COMP ||
	    (cqc->notify == IB_CQ_SOLICITED && solicited)) {
		cqc->notify = 0;
		cqc->ibcq->comp_handler(cqc->ibcq, cqc->ibcq->cq_context);
	}
out:
	spin_unlock(&cqc->lock);
	return ok;
}

int odp_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = &attrs->driver_udata;
	struct odp_ucontext *ctx =
		rdma_udata_to_drv_context(udata, struct odp_ucontext, ibuc);
	struct odp_cq *cq = to_odp_cq(ibcq);
	struct rxe_create_cq_resp resp = {};
	struct odp_cqc *cqc;
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe >= ODP_MAX_CQE ||
	    attr->comp_vector >= ibcq->device->num_comp_vectors)
		return -EINVAL;
	if (udata->outlen < sizeof(resp))
		return -EINVAL;

	cqc = kzalloc_obj(*cqc, GFP_KERNEL_ACCOUNT);
	if (!cqc)
		return -ENOMEM;
	kref_init(&cqc->ref);
	spin_lock_init(&cqc->lock);
	cqc->ring = odp_ring_create(attr->cqe, ODP_CQE_SLOT);
	if (IS_ERR(cqc->ring)) {
		err = PTR_ERR(cqc->ring);
		kfree(cqc);
		return err;
	}
	cqc->ibcq = ibcq;

	cq->entry = odp_ring_publish(cqc->ring, &ctx->ibuc, &resp.mi);
	if (IS_ERR(cq->entry)) {
		err = PTR_ERR(cq->entry);
		goto err_cqc;
	}
	err = odp_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_entry;
	mutex_init(&cq->resize);
	cq->core = cqc;
	ibcq->cqe = cqc->ring->mask;
	return 0;

err_entry:
	odp_ring_unpublish(cq->entry);
err_cqc:
	odp_cqc_put(cqc);
	return err;
}

/*
 * Completions that arrive while most of them are copied without the lock are
 * copied in a few more rounds; the last one is short.
 */
static int replace_ring(struct odp_cqc *cqc, struct odp_ring *ring)
{
	unsigned int rounds = 8;
	struct odp_ring *old;
	u32 from, copied = 0;
	int err = 0;

	spin_lock(&cqc->lock);
	old = cqc->ring;
	from = READ_ONCE(old->buf->consumer_index) & old->mask;
	for (;;) {
		u32 total = (old->index - from) & old->mask;
		u32 todo = total - copied;

		if (total > ring->mask)
			err = -EINVAL;
		if (err || todo <= 64 || !rounds--) {
			if (!err)
				odp_ring_copy(ring, copied, old, from + copied,
					      todo);
			copied = total;
			break;
		}
		spin_unlock(&cqc->lock);
		odp_ring_copy(ring, copied, old, from + copied, todo);
		copied = total;
		cond_resched();
		spin_lock(&cqc->lock);
	}
	if (!err) {
		ring->index = copied;
		ring->buf->producer_index = copied;
		cqc->ring = ring;
	}
	spin_unlock(&cqc->lock);
	return err;
}

/* librxe polls nothing meanwhile, and maps the new ring then */
static int cq_resize(struct odp_cq *cq, unsigned int cqe,
		     struct ib_udata *udata)
{
	struct odp_ucontext *ctx =
		rdma_udata_to_drv_context(udata, struct odp_ucontext, ibuc);
	struct rxe_resize_cq_resp resp = {};
	struct odp_ring *ring, *old;
	struct odp_mmap_entry *entry;
	int err;

	ring = odp_ring_create(cqe, ODP_CQE_SLOT);
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	entry = odp_ring_publish(ring, &ctx->ibuc, &resp.mi);
	if (IS_ERR(entry)) {
		err = PTR_ERR(entry);
		goto out;
	}
	/* before the change, so that it needn't be taken back */
	err = odp_respond(udata, &resp, sizeof(resp));
	if (!err) {
		old = cq->core->ring;
		err = replace_ring(cq->core, ring);
	}
	if (err) {
		odp_ring_unpublish(entry);
		goto out;
	}
	odp_ring_unpublish(cq->entry);
	cq->entry = entry;
	cq->ibcq.cqe = ring->mask;
	ring = old;
out:
	odp_ring_put(ring);
	return err;
}

int odp_resize_cq(struct ib_cq *ibcq, ODP_RESIZE_CQE cqe,
		  struct ib_udata *udata)
{
	struct odp_cq *cq = to_odp_cq(ibcq);
	int err;

	if (cqe < 1 || cqe >= ODP_MAX_CQE ||
	    udata->outlen < sizeof(struct rxe_resize_cq_resp))
		return -EINVAL;
	mutex_lock(&cq->resize);
	err = cq_resize(cq, cqe, udata);
	mutex_unlock(&cq->resize);
	return err;
}

int odp_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct odp_cq *cq = to_odp_cq(ibcq);

	spin_lock(&cq->core->lock);
	cq->core->ibcq = NULL;
	spin_unlock(&cq->core->lock);
	odp_ring_unpublish(cq->entry);
	odp_cqc_put(cq->core);
	return 0;
}

int odp_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct odp_cqc *cqc = to_odp_cq(ibcq)->core;
	struct odp_ring *ring;
	int missed = 0;

	spin_lock(&cqc->lock);
	ring = cqc->ring;
	/* a request for any completion is not weakened by a later one */
	if (cqc->notify != IB_CQ_NEXT_COMP)
		cqc->notify = flags & IB_CQ_SOLICITED_MASK;
	if ((flags & IB_CQ_REPORT_MISSED_EVENTS) &&
	    (READ_ONCE(ring->buf->consumer_index) & ring->mask) != ring->index)
		missed = 1;
	spin_unlock(&cqc->lock);
	return missed;
}
