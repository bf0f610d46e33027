// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Queue pairs: creation, states, destruction */

#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

#include "qp.h"

#define ODP_QPN_FIRST	16	/* 0 and 1 are the management QPs */
#define ODP_QPN_MASK	0xffffff

static void qpc_free(struct kref *ref)
{
	struct odp_qpc *qp = container_of(ref, struct odp_qpc, ref);

	if (qp->sq)
		odp_ring_put(qp->sq);
	if (qp->rq)
		odp_ring_put(qp->rq);
	if (qp->srq)
		odp_srqc_put(qp->srq);
	odp_cqc_put(qp->scq);
	odp_cqc_put(qp->rcq);
	kfree(qp->rx);
	kfree(qp->ud_buf);
	kfree_rcu(qp, rcu);
}

void odp_qpc_put(struct odp_qpc *qp)
{
	kref_put(&qp->ref, qpc_free);
}

/**
 * odp_qp_find - the QP of a number
 * @dev: the device
 * @qpn: any value
 *
 * Return: the QP, to be released with odp_users_put(&qp->users) within a
 * bounded time; or NULL.
 */
struct odp_qpc *odp_qp_find(struct odp_dev *dev, u32 qpn)
{
	struct odp_qpc *qp;

	rcu_read_lock();
	qp = xa_load(&dev->qps, qpn);
	if (qp && !odp_users_get(&qp->users))
		qp = NULL;
	rcu_read_unlock();
	return qp;
}

/**
 * odp_qp_event - tell the owner of a QP
 * @qp: the QP; nothing happens once it is destroyed
 * @event: IB_EVENT_QP_* and the like
 */
void odp_qp_event(struct odp_qpc *qp, enum ib_event_type event)
{
	struct ib_event ev = { .event = event };

	spin_lock(&qp->lock);
	if (qp->ibqp && qp->ibqp->event_handler) {
		ev.device = qp->ibqp->device;
		ev.element.qp = qp->ibqp;
		qp->ibqp->event_handler(&ev, qp->ibqp->qp_context);
	}
	spin_unlock(&qp->lock);
}

static void set_state(struct odp_qpc *qp, enum ib_qp_state state)
{
	lockdep_assert_held(&qp->lock);
	qp->state = state;
	if (state == IB_QPS_ERR || state == IB_QPS_RESET) {
		/* whoever it waited for is no longer listened to */
		qp->wait = ODP_WAIT_NONE;
		qp->wait_gen++;
	}
}

/**
 * odp_qp_fail - move a QP into an error state
 * @qp: the caller's own or its peer
 * @state: IB_QPS_ERR or IB_QPS_SQE
 * @event: told to the owner unless 0
 *
 * Its work requests are flushed from a worker.
 */
void odp_qp_fail(struct odp_qpc *qp, enum ib_qp_state state,
		 enum ib_event_type event)
{
	bool changed = false;

	spin_lock(&qp->lock);
	if (qp->state != IB_QPS_ERR && qp->state != IB_QPS_RESET) {
		set_state(qp, state);
		changed = true;
	}
	spin_unlock(&qp->lock);
	if (changed && event)
		odp_qp_event(qp, event);
	/* the work item holds no reference: destroy cancels it */
	queue_work(odp_wq, &qp->work);
}

static int check_cap(struct ib_qp_cap *cap)
{
	if (cap->max_send_wr > ODP_MAX_WR || cap->max_recv_wr > ODP_MAX_WR ||
	    cap->max_send_sge > ODP_MAX_SGE ||
	    cap->max_recv_sge > ODP_MAX_SGE ||
	    cap->max_inline_data > ODP_MAX_INLINE)
		return -EINVAL;
	return 0;
}

/* Give what the slots hold anyway, and say so */
static void round_cap(struct odp_qpc *qp, struct ib_qp_cap *cap)
{
	u32 slot = odp_wqe_send_slot(cap->max_send_sge, cap->max_inline_data);
	u32 room = slot - sizeof(struct rxe_send_wqe);

	cap->max_send_sge = min_t(u32, ODP_MAX_SGE,
				  room / sizeof(struct rxe_sge));
	cap->max_inline_data = min_t(u32, ODP_MAX_INLINE, room);
	if (qp->sq)
		cap->max_send_wr = qp->sq->mask;
	if (qp->rq)
		cap->max_recv_wr = qp->rq->mask;
	qp->limits.max_sge = cap->max_send_sge;
	qp->limits.max_inline = cap->max_inline_data;
	qp->limits.transport = qp->type == IB_QPT_UD ? ODP_UD :
			       qp->type == IB_QPT_UC ? ODP_UC : ODP_RC;
	qp->cap = *cap;
}

static int make_rings(struct odp_qpc *qp, struct ib_qp_cap *cap)
{
	struct odp_ring *ring;

	ring = odp_ring_create(max(cap->max_send_wr, 1U),
			       odp_wqe_send_slot(cap->max_send_sge,
						 cap->max_inline_data));
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	qp->sq = ring;
	if (qp->srq)
		return 0;
	ring = odp_ring_create(max(cap->max_recv_wr, 1U),
			       odp_wqe_recv_slot(cap->max_recv_sge));
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	qp->rq = ring;
	return 0;
}

static int publish(struct odp_qp *qp, struct ib_udata *udata)
{
	struct odp_ucontext *ctx =
		rdma_udata_to_drv_context(udata, struct odp_ucontext, ibuc);
	struct odp_qpc *qpc = qp->core;
	struct rxe_create_qp_resp resp = {};
	struct odp_mmap_entry *entry;
	int err;

	if (qpc->rq) {
		entry = odp_ring_publish(qpc->rq, &ctx->ibuc, &resp.rq_mi);
		if (IS_ERR(entry))
			return PTR_ERR(entry);
		qp->rq_entry = entry;
	}
	entry = odp_ring_publish(qpc->sq, &ctx->ibuc, &resp.sq_mi);
	if (IS_ERR(entry))
		return PTR_ERR(entry);
	qp->sq_entry = entry;
	err = odp_respond(udata, &resp, sizeof(resp));
	if (err)
		return err;
	return xa_alloc_cyclic(&qpc->dev->qps, &qpc->qpn, qpc,
			       XA_LIMIT(ODP_QPN_FIRST, ODP_QPN_MASK - 1),
			       &qpc->dev->next_qpn, GFP_KERNEL_ACCOUNT);
}

int odp_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		  struct ib_udata *udata)
{
	struct odp_qp *qp = to_odp_qp(ibqp);
	struct odp_qpc *qpc;
	int err;

	if (!udata || udata->outlen < sizeof(struct rxe_create_qp_resp))
		return -EINVAL;
	if (init->qp_type != IB_QPT_RC && init->qp_type != IB_QPT_UC &&
	    init->qp_type != IB_QPT_UD)
		return -EOPNOTSUPP;
	if (init->create_flags)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (init->srq) {
		/* its receive work requests are posted elsewhere */
		init->cap.max_recv_wr = 0;
		init->cap.max_recv_sge = 0;
	}
	err = check_cap(&init->cap);
	if (err)
		return err;

	qpc = kmem_cache_zalloc(odp_qpc_cache, GFP_KERNEL);
	if (!qpc)
		return -ENOMEM;
	kref_init(&qpc->ref);
	odp_users_init(&qpc->users);
	qpc->dev = to_odp_dev(ibqp->device);
	qpc->ibqp = ibqp;
	qpc->pd = ibqp->pd;
	qpc->type = init->qp_type;
	qpc->sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qpc->scq = to_odp_cq(init->send_cq)->core;
	kref_get(&qpc->scq->ref);
	qpc->rcq = to_odp_cq(init->recv_cq)->core;
	kref_get(&qpc->rcq->ref);
	spin_lock_init(&qpc->lock);
	spin_lock_init(&qpc->rq_lock);
	mutex_init(&qpc->drain);
	INIT_WORK(&qpc->work, odp_qp_work);
	INIT_DELAYED_WORK(&qpc->timer, odp_qp_timer);
	qpc->state = IB_QPS_RESET;
	qp->core = qpc;

	err = -ENOMEM;
	if (qpc->type == IB_QPT_UD) {
		qpc->ud_buf = kmalloc(ODP_GRH_LEN + ODP_UD_MTU,
				      GFP_KERNEL_ACCOUNT);
		if (!qpc->ud_buf)
			goto err;
	}
	if (init->srq) {
		qpc->srq = to_odp_srq(init->srq)->core;
		kref_get(&qpc->srq->ref);
		qpc->rx = kzalloc_obj(*qpc->rx, GFP_KERNEL_ACCOUNT);
		if (!qpc->rx)
			goto err;
	}
	err = make_rings(qpc, &init->cap);
	if (err)
		goto err;
	round_cap(qpc, &init->cap);
	err = publish(qp, udata);
	if (err < 0)
		goto err;
	ibqp->qp_num = qpc->qpn;
	return 0;
err:
	odp_ring_unpublish(qp->rq_entry);
	odp_ring_unpublish(qp->sq_entry);
	odp_qpc_put(qpc);
	return err;
}

static int check_attr(struct odp_qpc *qp, struct ib_qp_attr *attr, int mask)
{
	if ((mask & IB_QP_PORT) && attr->port_num != 1)
		return -EINVAL;
	if ((mask & IB_QP_PKEY_INDEX) && attr->pkey_index)
		return -EINVAL;
	if (mask & (IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE))
		return -EOPNOTSUPP;
	if ((mask & IB_QP_CAP) || (mask & IB_QP_RATE_LIMIT))
		return -EOPNOTSUPP;
	if ((mask & IB_QP_PATH_MTU) &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return -EINVAL;
	if ((mask & IB_QP_TIMEOUT) && attr->timeout > 31)
		return -EINVAL;
	if ((mask & IB_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return -EINVAL;
	if ((mask & IB_QP_RETRY_CNT) && attr->retry_cnt > 7)
		return -EINVAL;
	if ((mask & IB_QP_RNR_RETRY) && attr->rnr_retry > 7)
		return -EINVAL;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) &&
	    attr->max_rd_atomic > ODP_MAX_RD_ATOMIC)
		return -EINVAL;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic > ODP_MAX_RD_ATOMIC)
		return -EINVAL;
	return 0;
}

static void store_attr(struct odp_qpc *qp, struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *to = &qp->attr;

	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = attr->en_sqd_async_notify;
	if (mask & IB_QP_ACCESS_FLAGS)
		to->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_PKEY_INDEX)
		to->pkey_index = attr->pkey_index;
	if (mask & IB_QP_PORT)
		to->port_num = attr->port_num;
	if (mask & IB_QP_QKEY)
		to->qkey = attr->qkey;
	if (mask & IB_QP_AV)
		rdma_replace_ah_attr(&to->ah_attr, &attr->ah_attr);
	if (mask & IB_QP_PATH_MTU)
		to->path_mtu = attr->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		to->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		to->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		to->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_RQ_PSN)
		to->rq_psn = attr->rq_psn & ODP_QPN_MASK;
	if (mask & IB_QP_SQ_PSN)
		to->sq_psn = attr->sq_psn & ODP_QPN_MASK;
	if (mask & IB_QP_DEST_QPN)
		to->dest_qp_num = attr->dest_qp_num & ODP_QPN_MASK;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = attr->min_rnr_timer;
}

static void destroy_av(struct odp_qpc *qp)
{
	rdma_destroy_ah_attr(&qp->attr.ah_attr);
	memset(&qp->attr.ah_attr, 0, sizeof(qp->attr.ah_attr));
}

/* Forget all work requests; no completions, as the verbs ask for RESET */
static void reset_rings(struct odp_qpc *qp)
{
	lockdep_assert_held(&qp->drain);
	qp->op.valid = false;
	while (odp_ring_posted(qp->sq))
		odp_ring_pop(qp->sq);
	odp_recv_reset(qp);
}

int odp_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_udata *udata)
{
	struct odp_qpc *qp = to_odp_qp(ibqp)->core;
	enum ib_qp_state cur, next;
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	err = check_attr(qp, attr, mask);
	if (err)
		return err;

	/* the owner of the send queue is out while the state changes */
	mutex_lock(&qp->drain);
	spin_lock(&qp->lock);
	cur = (mask & IB_QP_CUR_STATE) ? attr->cur_qp_state : qp->state;
	next = (mask & IB_QP_STATE) ? attr->qp_state : cur;
	if (cur != qp->state ||
	    !ib_modify_qp_is_ok(cur, next, ibqp->qp_type, mask)) {
		spin_unlock(&qp->lock);
		mutex_unlock(&qp->drain);
		return -EINVAL;
	}
	if (next == IB_QPS_RESET) {
		destroy_av(qp);
		qp->comm_est = false;
	}
	store_attr(qp, attr, mask);
	set_state(qp, next);
	spin_unlock(&qp->lock);
	if (next == IB_QPS_RESET && cur != IB_QPS_RESET)
		reset_rings(qp);
	mutex_unlock(&qp->drain);

	odp_qp_kick(qp);
	/* a sender that found us not ready needs no timeout to notice */
	if (cur != next && (next == IB_QPS_RTR || next == IB_QPS_RTS))
		odp_peer_wake(qp);
	return 0;
}

int odp_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init)
{
	struct odp_qpc *qp = to_odp_qp(ibqp)->core;

	spin_lock(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->state == IB_QPS_SQD && READ_ONCE(qp->op.valid);
	spin_unlock(&qp->lock);
	attr->cap = qp->cap;

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->qp_type = ibqp->qp_type;
	init->sq_sig_type = qp->sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	return 0;
}

int odp_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct odp_qp *qp = to_odp_qp(ibqp);
	struct odp_qpc *qpc = qp->core;

	xa_erase(&qpc->dev->qps, qpc->qpn);
	spin_lock(&qpc->rq_lock);
	spin_lock(&qpc->lock);
	set_state(qpc, IB_QPS_RESET);
	qpc->ibqp = NULL;
	spin_unlock(&qpc->lock);
	spin_unlock(&qpc->rq_lock);

	/* peers that are copying right now; then nobody queues our work */
	odp_users_drain(&qpc->users);
	disable_delayed_work_sync(&qpc->timer);
	disable_work_sync(&qpc->work);
	/* a fault worker may still own the send queue, for a bounded time */
	mutex_lock(&qpc->drain);
	mutex_unlock(&qpc->drain);
	destroy_av(qpc);
	odp_ring_unpublish(qp->sq_entry);
	odp_ring_unpublish(qp->rq_entry);
	odp_qpc_put(qpc);
	return 0;
}
