// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The receive side of a QP.
 *
 * In a queue of its own a work request stays at the head until its message is
 * complete, so that flushing the QP completes it exactly once.  One from an
 * SRQ is taken out at the beginning, since others want the next one, and is
 * kept in the QP until then.
 */

#include "qp.h"

/**
 * odp_can_receive - do messages arrive in this state?
 * @state: of the receiver
 */
bool odp_can_receive(enum ib_qp_state state)
{
	return state == IB_QPS_RTR || state == IB_QPS_RTS ||
	       state == IB_QPS_SQD || state == IB_QPS_SQE;
}

static void copy_wqe(struct odp_recv_wqe *to, const struct odp_recv_wqe *from)
{
	to->wr_id = from->wr_id;
	to->sgl.length = from->sgl.length;
	to->sgl.num_sge = from->sgl.num_sge;
	to->sgl.is_inline = false;
	memcpy(to->sgl.sge, from->sgl.sge,
	       from->sgl.num_sge * sizeof(from->sgl.sge[0]));
}

static bool take_shared(struct odp_qpc *qp)
{
	struct odp_srqc *srq = qp->srq;

	if (qp->rx_taken)
		return true;
	spin_lock(&srq->lock);
	qp->rx_taken = odp_srq_peek(srq, qp->rx, &qp->rx_err);
	if (qp->rx_taken)
		odp_srq_pop(srq);
	spin_unlock(&srq->lock);
	return qp->rx_taken;
}

/**
 * odp_recv_take - the receive work request that a message goes to
 * @peer: the receiver, connected
 * @op: the sender's operation; @op->rwqe is filled
 * @err: result when there was one
 *
 * Return: false when there is none (or @peer is not receiving any more).
 */
bool odp_recv_take(struct odp_qpc *peer, struct odp_op *op,
		   enum odp_wqe_error *err)
{
	bool there = false;

	spin_lock(&peer->rq_lock);
	if (!odp_can_receive(READ_ONCE(peer->state))) {
		/* modify_qp wakes those who wait for that */
	} else if (peer->srq) {
		there = take_shared(peer);
		if (there) {
			copy_wqe(&op->rwqe, peer->rx);
			*err = peer->rx_err;
		}
	} else if (odp_ring_posted(peer->rq)) {
		*err = odp_wqe_fetch_recv(odp_ring_head(peer->rq),
					  peer->cap.max_recv_sge, &op->rwqe);
		op->rq_index = peer->rq->index;
		there = true;
	}
	op->rq_epoch = peer->epoch;
	if (!there)
		peer->sender_waits = true;
	spin_unlock(&peer->rq_lock);
	return there;
}

/**
 * odp_recv_complete - complete what odp_recv_take() gave
 * @peer: the receiver
 * @op: the sender's operation; its receive work request is used up
 * @wc: the completion; wr_id and qp_num are filled in here
 *
 * Return: false when it is no longer there: the receiver was flushed, reset or
 * destroyed meanwhile.
 */
bool odp_recv_complete(struct odp_qpc *peer, struct odp_op *op,
		       struct ib_uverbs_wc *wc)
{
	bool ok, room = true;

	spin_lock(&peer->rq_lock);
	ok = odp_can_receive(READ_ONCE(peer->state)) &&
	     peer->epoch == op->rq_epoch;
	if (ok)
		ok = peer->srq ? peer->rx_taken :
				 peer->rq->index == op->rq_index;
	if (ok) {
		wc->wr_id = op->rwqe.wr_id;
		wc->qp_num = peer->qpn;
		if (peer->srq)
			peer->rx_taken = false;
		else
			odp_ring_pop(peer->rq);
		room = odp_cqc_add(peer->rcq, wc,
				   op->wqe.send_flags & IB_SEND_SOLICITED ||
					   wc->status != IB_WC_SUCCESS);
	}
	spin_unlock(&peer->rq_lock);
	op->has_rwqe = false;
	if (!room)
		odp_qp_fail(peer, IB_QPS_ERR, IB_EVENT_QP_FATAL);
	return ok;
}

/* Returns false when there was none */
static bool flush_one(struct odp_qpc *qp)
{
	struct ib_uverbs_wc wc = {
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
		.qp_num = qp->qpn,
	};
	struct rxe_recv_wqe *slot;

	if (qp->srq) {
		if (!qp->rx_taken)
			return false;
		qp->rx_taken = false;
		wc.wr_id = qp->rx->wr_id;
	} else {
		if (!odp_ring_posted(qp->rq))
			return false;
		slot = odp_ring_head(qp->rq);
		wc.wr_id = READ_ONCE(slot->wr_id);
		odp_ring_pop(qp->rq);
	}
	odp_cqc_add(qp->rcq, &wc, true);
	return true;
}

/**
 * odp_recv_flush - complete receive work requests of a QP in error
 * @qp: the QP
 * @max: how many at most
 *
 * Return: true when there may be more.
 */
bool odp_recv_flush(struct odp_qpc *qp, unsigned int max)
{
	bool more = true, last = false;

	while (more && max--) {
		spin_lock(&qp->rq_lock);
		more = qp->state == IB_QPS_ERR && flush_one(qp);
		if (!more && qp->srq && qp->state == IB_QPS_ERR) {
			last = !qp->last_wqe;
			qp->last_wqe = true;
		}
		spin_unlock(&qp->rq_lock);
	}
	/* IBA 1.4, 10.3.1: whoever destroys a QP of an SRQ waits for this */
	if (last)
		odp_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
	return more;
}

/**
 * odp_recv_reset - forget all that was posted or taken
 * @qp: the QP, in RESET
 */
void odp_recv_reset(struct odp_qpc *qp)
{
	spin_lock(&qp->rq_lock);
	qp->epoch++;
	qp->sender_waits = false;
	qp->rx_taken = false;
	qp->last_wqe = false;
	while (qp->rq && odp_ring_posted(qp->rq))
		odp_ring_pop(qp->rq);
	spin_unlock(&qp->rq_lock);
}
