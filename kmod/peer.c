// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The other end: who it is, and its receive queue */

#include "odp.h"

static bool addresses_us(struct odp_dev *dev, const struct rdma_ah_attr *ah)
{
	union ib_gid gid;

	if (!(rdma_ah_get_ah_flags(ah) & IB_AH_GRH))
		return rdma_ah_get_dlid(ah) == ODP_LID;
	odp_dev_gid(dev, &gid);
	return !memcmp(&gid, &rdma_ah_read_grh(ah)->dgid, sizeof(gid));
}

static bool can_receive(enum ib_qp_state state)
{
	return state == IB_QPS_RTR || state == IB_QPS_RTS ||
	       state == IB_QPS_SQD || state == IB_QPS_SQE;
}

/**
 * odp_peer_get - the RC QP at the other end, if it listens to us
 * @qp: a connected QP; the caller owns its send queue
 *
 * All QPs share one port, so a QPN alone would let any user aim at any QP:
 * each end has to name the other, and the PSNs have to fit.
 *
 * Return: the QP, to be released with odp_users_put(&peer->users) within a
 * bounded time; or NULL.
 */
struct odp_qpc *odp_peer_get(struct odp_qpc *qp)
{
	struct odp_qpc *peer;
	bool ok;

	if (!addresses_us(qp->dev, &qp->attr.ah_attr))
		return NULL;
	peer = odp_qp_find(qp->dev, qp->attr.dest_qp_num);
	if (!peer)
		return NULL;
	spin_lock(&peer->lock);
	ok = peer->type == IB_QPT_RC && can_receive(peer->state) &&
	     peer->attr.dest_qp_num == qp->qpn &&
	     peer->attr.rq_psn == qp->attr.sq_psn &&
	     addresses_us(peer->dev, &peer->attr.ah_attr);
	spin_unlock(&peer->lock);
	if (ok)
		return peer;
	odp_users_put(&peer->users);
	return NULL;
}

/**
 * odp_peer_wake - tell the RC QP at the other end to try again now
 * @qp: has become ready to receive
 */
void odp_peer_wake(struct odp_qpc *qp)
{
	struct odp_qpc *peer;
	u32 dest;
	bool ok;

	spin_lock(&qp->lock);
	dest = qp->attr.dest_qp_num;
	spin_unlock(&qp->lock);
	if (qp->type != IB_QPT_RC)
		return;
	peer = odp_qp_find(qp->dev, dest);
	if (!peer)
		return;
	spin_lock(&peer->lock);
	/* nobody else's timers are to be had */
	ok = peer->type == IB_QPT_RC && peer->attr.dest_qp_num == qp->qpn &&
	     peer->wait == ODP_WAIT_TIMER;
	spin_unlock(&peer->lock);
	if (ok)
		mod_delayed_work(odp_wq, &peer->timer, 0);
	odp_users_put(&peer->users);
}

/**
 * odp_recv_take - read the receive WQE that a message goes to
 * @peer: the receiver
 * @op: the sender's operation; @op->rwqe is filled
 * @err: result when a WQE was there
 * @consume: UD: it is gone from the queue; else it stays until completion, so
 *           that flushing the receiver completes it exactly once
 *
 * Return: false when there is none (or @peer is not receiving any more).
 */
bool odp_recv_take(struct odp_qpc *peer, struct odp_op *op,
		   enum odp_wqe_error *err, bool consume)
{
	bool there = false;

	spin_lock(&peer->rq_lock);
	if (can_receive(READ_ONCE(peer->state)) && odp_ring_posted(peer->rq)) {
		*err = odp_wqe_fetch_recv(odp_ring_head(peer->rq),
					  peer->cap.max_recv_sge, &op->rwqe);
		op->rq_index = peer->rq->index;
		op->rq_epoch = peer->epoch;
		if (consume)
			odp_ring_pop(peer->rq);
		there = true;
	} else {
		peer->sender_waits = true;
	}
	spin_unlock(&peer->rq_lock);
	return there;
}

/**
 * odp_recv_complete - complete a receive WQE
 * @peer: the receiver
 * @op: the sender's operation; its receive WQE is used up
 * @wc: the completion; wr_id and qp_num are filled in here
 * @pop: take the WQE out of the queue too (see odp_recv_take())
 *
 * Return: false when the WQE is no longer there: the receiver was flushed,
 * reset or destroyed meanwhile.
 */
bool odp_recv_complete(struct odp_qpc *peer, struct odp_op *op,
		       struct ib_uverbs_wc *wc, bool pop)
{
	bool ok;

	spin_lock(&peer->rq_lock);
	ok = can_receive(READ_ONCE(peer->state)) &&
	     peer->epoch == op->rq_epoch &&
	     (!pop || peer->rq->index == op->rq_index);
	if (ok) {
		wc->wr_id = op->rwqe.wr_id;
		wc->qp_num = peer->qpn;
		if (pop)
			odp_ring_pop(peer->rq);
		odp_cqc_add(peer->rcq, wc,
			    op->wqe.send_flags & IB_SEND_SOLICITED ||
				    wc->status != IB_WC_SUCCESS);
	}
	spin_unlock(&peer->rq_lock);
	op->has_rwqe = false;
	return ok;
}

/* --------------------------------------------------------- datagrams */

static bool ud_address(struct odp_qpc *qp, u32 ah_num, struct odp_av *to)
{
	struct odp_av *av;

	rcu_read_lock();
	av = xa_load(&qp->dev->ahs, ah_num);
	if (av && av->pd == qp->pd)
		*to = *av;
	else
		av = NULL;
	rcu_read_unlock();
	return av;
}

static bool av_is_us(struct odp_dev *dev, const struct odp_av *av)
{
	union ib_gid gid;

	if (!av->has_grh)
		return av->dlid == ODP_LID;
	odp_dev_gid(dev, &gid);
	return !memcmp(&gid, &av->dgid, sizeof(gid));
}

static bool ud_accepts(struct odp_qpc *qp, struct odp_qpc *peer)
{
	u32 qkey = qp->op.wqe.remote_qkey;
	bool ok;

	/* a Q_Key with the top bit set is privileged: use the QP's own */
	if (qkey & 0x80000000)
		qkey = qp->attr.qkey;
	spin_lock(&peer->lock);
	ok = peer->type == IB_QPT_UD && can_receive(peer->state) &&
	     peer->attr.qkey == qkey;
	spin_unlock(&peer->lock);
	return ok;
}

static void ud_grh(struct odp_qpc *qp, const struct odp_av *av, u64 len)
{
	struct ib_grh *grh = (struct ib_grh *)qp->ud_buf;

	memset(grh, 0, sizeof(*grh));
	grh->version_tclass_flow = cpu_to_be32(6 << 28);
	/* BTH 12, DETH 8, ICRC 4 */
	grh->paylen = cpu_to_be16(len + 24);
	grh->next_hdr = 0x1b;
	grh->hop_limit = 0xff;
	odp_dev_gid(qp->dev, &grh->sgid);
	grh->dgid = av->dgid;
}

static void ud_deliver(struct odp_qpc *qp, struct odp_qpc *peer,
		       const struct odp_av *av, u64 len)
{
	struct odp_op *op = &qp->op;
	/* without a GRH its 40 bytes stay as they are */
	u64 skip = av->has_grh ? 0 : ODP_GRH_LEN;
	u64 total = len + ODP_GRH_LEN;
	struct ib_uverbs_wc wc = {
		.opcode = IB_WC_RECV,
		.byte_len = total,
		.src_qp = qp->qpn,
		.slid = ODP_LID,
		.sl = av->sl,
		.wc_flags = av->has_grh ? IB_WC_GRH : 0,
	};
	enum odp_wqe_error err;
	u64 pos = skip;

	if (!odp_recv_take(peer, op, &err, true)) {
		odp_count(qp->dev, ODP_CNT_UD_DROPPED, 1);
		return;
	}
	if (op->wqe.opcode == IB_UVERBS_WR_SEND_WITH_IMM) {
		wc.wc_flags |= IB_WC_WITH_IMM;
		wc.ex.imm_data = op->wqe.imm;
	}
	if (err || op->rwqe.sgl.length < total) {
		wc.status = IB_WC_LOC_LEN_ERR;
	} else {
		struct odp_stream dst = {
			.dev = peer->dev, .pd = peer->pd,
			.side = ODP_SIDE_RECV,
			.access = IB_ACCESS_LOCAL_WRITE,
			.sgl = &op->rwqe.sgl,
		};

		/* no faults for a datagram: UD has no ODP in our caps */
		while (pos < total && !wc.status) {
			struct odp_place s = { .kbuf = qp->ud_buf + pos }, d;
			size_t copied = 0;
			u64 avail;

			if (odp_stream_map(&dst, pos, &d, &avail) ||
			    odp_copy(&d, &s, min(avail, total - pos),
				     &copied))
				wc.status = IB_WC_LOC_PROT_ERR;
			pos += copied;
		}
		odp_stream_close(&dst);
	}
	odp_recv_complete(peer, op, &wc, false);
	if (wc.status)
		odp_qp_fail(peer, IB_QPS_ERR, 0);
}

/**
 * odp_xfer_ud - carry a datagram out
 * @qp: the sender; the caller owns its send queue
 * @budget: reduced by what was moved
 * @status: result with ODP_STEP_ERROR
 */
enum odp_step odp_xfer_ud(struct odp_qpc *qp, long *budget,
			  enum ib_wc_status *status)
{
	struct odp_op *op = &qp->op;
	struct odp_stream src = {
		.dev = qp->dev, .pd = qp->pd, .side = ODP_SIDE_LOCAL,
		.sgl = &op->wqe.sgl,
	};
	struct odp_stream dst = { .kbuf = qp->ud_buf + ODP_GRH_LEN };
	struct odp_qpc *peer;
	enum odp_side bad;
	enum odp_step step;
	struct odp_av av;

	if (!ud_address(qp, op->wqe.ah_num, &av)) {
		*status = IB_WC_LOC_QP_OP_ERR;
		return ODP_STEP_ERROR;
	}
	/* the receiver's WQE is taken only once the sender's part is here */
	step = odp_move(qp, &dst, &src, op->wqe.sgl.length, &op->done, budget,
			&bad);
	if (step == ODP_STEP_ERROR)
		*status = IB_WC_LOC_PROT_ERR;
	if (step != ODP_STEP_DONE)
		return step;

	peer = NULL;
	if (av_is_us(qp->dev, &av))
		peer = odp_qp_find(qp->dev, op->wqe.remote_qpn);
	if (peer && ud_accepts(qp, peer)) {
		ud_grh(qp, &av, op->wqe.sgl.length);
		ud_deliver(qp, peer, &av, op->wqe.sgl.length);
	} else {
		/* as on a wire: the sender never learns */
		odp_count(qp->dev, ODP_CNT_UD_DROPPED, 1);
	}
	if (peer)
		odp_users_put(&peer->users);
	return ODP_STEP_DONE;
}
