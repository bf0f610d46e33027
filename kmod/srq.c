// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Shared receive queues */

#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/uverbs_ioctl.h>

#include "qp.h"

static void srqc_free(struct kref *ref)
{
	struct odp_srqc *srq = container_of(ref, struct odp_srqc, ref);

	if (srq->ring)
		odp_ring_put(srq->ring);
	kfree(srq);
}

void odp_srqc_put(struct odp_srqc *srq)
{
	kref_put(&srq->ref, srqc_free);
}

/**
 * odp_srq_peek - decode the work request at the head
 * @srq: the SRQ, locked by the caller
 * @wqe: result
 * @err: result when there was one
 *
 * Return: false when the queue is empty.
 */
bool odp_srq_peek(struct odp_srqc *srq, struct odp_recv_wqe *wqe,
		  enum odp_wqe_error *err)
{
	lockdep_assert_held(&srq->lock);
	if (!odp_ring_posted(srq->ring))
		return false;
	*err = odp_wqe_fetch_recv(odp_ring_head(srq->ring), srq->max_sge, wqe);
	return true;
}

/**
 * odp_srq_pop - take the work request at the head away
 * @srq: the SRQ, locked by the caller
 *
 * Tells the owner when that was one too many, once for each time it asked.
 */
void odp_srq_pop(struct odp_srqc *srq)
{
	struct ib_event ev = { .event = IB_EVENT_SRQ_LIMIT_REACHED };

	lockdep_assert_held(&srq->lock);
	odp_ring_pop(srq->ring);
	if (!srq->limit || odp_ring_posted(srq->ring) >= srq->limit)
		return;
	srq->limit = 0;
	if (srq->ibsrq && srq->ibsrq->event_handler) {
		ev.device = srq->ibsrq->device;
		ev.element.srq = srq->ibsrq;
		srq->ibsrq->event_handler(&ev, srq->ibsrq->srq_context);
	}
}

int odp_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		   struct ib_udata *udata)
{
	struct odp_ucontext *ctx =
		rdma_udata_to_drv_context(udata, struct odp_ucontext, ibuc);
	struct odp_srq *srq = to_odp_srq(ibsrq);
	struct rxe_create_srq_resp resp = {};
	struct ib_srq_attr *attr = &init->attr;
	struct odp_srqc *core;
	int err;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	if (!attr->max_wr || attr->max_wr >= ODP_MAX_WR ||
	    attr->max_sge > ODP_MAX_SGE || attr->srq_limit > attr->max_wr)
		return -EINVAL;

	core = kzalloc_obj(*core, GFP_KERNEL_ACCOUNT);
	if (!core)
		return -ENOMEM;
	kref_init(&core->ref);
	spin_lock_init(&core->lock);
	core->ibsrq = ibsrq;
	core->max_sge = max(attr->max_sge, 1U);
	core->limit = attr->srq_limit;
	core->ring = odp_ring_create(attr->max_wr,
				     odp_wqe_recv_slot(core->max_sge));
	if (IS_ERR(core->ring)) {
		err = PTR_ERR(core->ring);
		core->ring = NULL;
		goto err_core;
	}
	srq->entry = odp_ring_publish(core->ring, &ctx->ibuc, &resp.mi);
	if (IS_ERR(srq->entry)) {
		err = PTR_ERR(srq->entry);
		goto err_core;
	}
	/* nothing is looked up by it: XRC, which would, doesn't exist here */
	resp.srq_num = ibsrq->res.id;
	err = odp_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_entry;
	attr->max_wr = core->ring->mask;
	attr->max_sge = core->max_sge;
	mutex_init(&srq->change);
	srq->core = core;
	return 0;

err_entry:
	odp_ring_unpublish(srq->entry);
err_core:
	odp_srqc_put(core);
	return err;
}

/*
 * Most is copied without the lock, as entries stay where they are; receivers
 * may take some away meanwhile.
 */
static int replace_ring(struct odp_srqc *srq, struct odp_ring *ring)
{
	struct odp_ring *old = srq->ring;
	u32 start, count;

	spin_lock(&srq->lock);
	start = old->index;
	count = odp_ring_posted(old);
	spin_unlock(&srq->lock);
	if (count > ring->mask)
		return -EINVAL;
	odp_ring_copy(ring, 0, old, start, count);

	spin_lock(&srq->lock);
	ring->index = (old->index - start) & old->mask;
	ring->buf->consumer_index = ring->index;
	ring->buf->producer_index = count;
	srq->ring = ring;
	spin_unlock(&srq->lock);
	return 0;
}

/* librxe posts nothing meanwhile, and maps the new ring then */
static int srq_resize(struct odp_srq *srq, u32 max_wr, struct ib_udata *udata)
{
	struct odp_ucontext *ctx =
		rdma_udata_to_drv_context(udata, struct odp_ucontext, ibuc);
	struct odp_srqc *core = srq->core;
	struct rxe_modify_srq_cmd cmd;
	struct odp_mmap_entry *entry;
	struct odp_ring *ring, *old;
	struct mminfo mi = {};
	int err;

	if (udata->inlen < sizeof(cmd))
		return -EINVAL;
	err = ib_copy_from_udata(&cmd, udata, sizeof(cmd));
	if (err)
		return err;
	ring = odp_ring_create(max_wr, odp_wqe_recv_slot(core->max_sge));
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	entry = odp_ring_publish(ring, &ctx->ibuc, &mi);
	if (IS_ERR(entry)) {
		err = PTR_ERR(entry);
		goto out;
	}
	/* before the change, so that it needn't be taken back */
	if (copy_to_user(u64_to_user_ptr(cmd.mmap_info_addr), &mi,
			 sizeof(mi))) {
		err = -EFAULT;
		goto err_entry;
	}
	old = core->ring;
	err = replace_ring(core, ring);
	if (err)
		goto err_entry;
	odp_ring_unpublish(srq->entry);
	srq->entry = entry;
	ring = old;
	goto out;

err_entry:
	odp_ring_unpublish(entry);
out:
	odp_ring_put(ring);
	return err;
}

int odp_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		   enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct odp_srq *srq = to_odp_srq(ibsrq);
	struct odp_srqc *core = srq->core;
	u32 max_wr, limit;
	int err = 0;

	mutex_lock(&srq->change);
	max_wr = mask & IB_SRQ_MAX_WR ? attr->max_wr : core->ring->mask;
	limit = mask & IB_SRQ_LIMIT ? attr->srq_limit : core->limit;
	if (!max_wr || max_wr >= ODP_MAX_WR || limit > max_wr)
		err = -EINVAL;
	else if (mask & IB_SRQ_MAX_WR)
		err = srq_resize(srq, max_wr, udata);
	if (!err && (mask & IB_SRQ_LIMIT)) {
		spin_lock(&core->lock);
		core->limit = limit;
		spin_unlock(&core->lock);
	}
	mutex_unlock(&srq->change);
	return err;
}

int odp_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct odp_srqc *core = to_odp_srq(ibsrq)->core;

	spin_lock(&core->lock);
	attr->max_wr = core->ring->mask;
	attr->max_sge = core->max_sge;
	attr->srq_limit = core->limit;
	spin_unlock(&core->lock);
	return 0;
}

int odp_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct odp_srq *srq = to_odp_srq(ibsrq);

	spin_lock(&srq->core->lock);
	srq->core->ibsrq = NULL;
	spin_unlock(&srq->core->lock);
	odp_ring_unpublish(srq->entry);
	odp_srqc_put(srq->core);
	return 0;
}
