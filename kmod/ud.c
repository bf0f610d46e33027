// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Datagrams.
 *
 * The sender's bytes are gathered first; then the datagram is put into the
 * receive work request at the head of the receiver's queue, in one go under
 * its lock, as several senders may be at it.  A page fault there is waited for
 * without the lock and the delivery begins anew.
 */

#include <linux/jiffies.h>
#include <rdma/ib_addr.h>

#include "qp.h"

/*
 * How long a page of the receiver may keep the sender waiting.  A wire would
 * lose the datagram at once; a page that is merely new takes microseconds.
 */
#define FAULT_PATIENCE	msecs_to_jiffies(100)

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
	ok = peer->type == IB_QPT_UD && odp_can_receive(peer->state) &&
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

enum put_result {
	PUT_DONE,
	PUT_LOST,	/* no work request, or none that the datagram fits */
	PUT_MISS,	/* a translation is missing */
};

/* Where a delivery came to a halt; @dst is open then */
struct ud_miss {
	struct odp_stream dst;
	struct odp_place place;
	u64 len;
};

/* Under the locks: into the work request, if all of its pages are there */
static enum put_result ud_copy(struct odp_qpc *qp, struct odp_recv_wqe *rwqe,
			       u64 skip, u64 total, struct ud_miss *miss,
			       enum ib_wc_status *status)
{
	u64 pos = skip;

	while (pos < total) {
		struct odp_place src = { .kbuf = qp->ud_buf + pos };
		size_t copied;
		u64 avail;

		if (odp_stream_map(&miss->dst, pos, &miss->place, &avail)) {
			*status = IB_WC_LOC_PROT_ERR;
			return PUT_DONE;
		}
		avail = min(avail, total - pos);
		if (odp_copy(&miss->place, &src, avail, &copied)) {
			miss->len = avail;
			if (!qp->op.recv_failed)
				return PUT_MISS;
			*status = IB_WC_LOC_PROT_ERR;
			return PUT_DONE;
		}
		pos += copied;
	}
	return PUT_DONE;
}

static bool head(struct odp_qpc *peer, struct odp_recv_wqe *wqe,
		 enum odp_wqe_error *err)
{
	if (peer->srq)
		return odp_srq_peek(peer->srq, wqe, err);
	if (!odp_ring_posted(peer->rq))
		return false;
	*err = odp_wqe_fetch_recv(odp_ring_head(peer->rq),
				  peer->cap.max_recv_sge, wqe);
	return true;
}

static enum put_result ud_put(struct odp_qpc *qp, struct odp_qpc *peer,
			      const struct odp_av *av, struct ud_miss *miss)
{
	struct odp_op *op = &qp->op;
	/* without a GRH its 40 bytes stay as they are */
	u64 skip = av->has_grh ? 0 : ODP_GRH_LEN;
	u64 total = op->wqe.sgl.length + ODP_GRH_LEN;
	struct ib_uverbs_wc wc = {
		.opcode = IB_WC_RECV,
		.byte_len = total,
		.src_qp = qp->qpn,
		.qp_num = peer->qpn,
		.slid = ODP_LID,
		.sl = av->sl,
		.wc_flags = av->has_grh ? IB_WC_GRH : 0,
	};
	enum put_result res = PUT_LOST;
	enum ib_wc_status status = IB_WC_SUCCESS;
	enum odp_wqe_error err;
	bool room = true;

	if (op->wqe.opcode == IB_UVERBS_WR_SEND_WITH_IMM) {
		wc.wc_flags |= IB_WC_WITH_IMM;
		wc.ex.imm_data = op->wqe.imm;
	}

	spin_lock(&peer->rq_lock);
	if (peer->srq)
		spin_lock(&peer->srq->lock);
	if (!odp_can_receive(READ_ONCE(peer->state)) ||
	    !head(peer, &op->rwqe, &err))
		goto out;
	miss->dst = (struct odp_stream){
		.qp = peer, .side = ODP_SIDE_RECV,
		.access = IB_ACCESS_LOCAL_WRITE, .sgl = &op->rwqe.sgl,
	};
	res = PUT_DONE;
	if (err || op->rwqe.sgl.length < total)
		status = IB_WC_LOC_LEN_ERR;
	else
		res = ud_copy(qp, &op->rwqe, skip, total, miss, &status);
	if (res != PUT_DONE)
		goto out;
	if (peer->srq)
		odp_srq_pop(peer->srq);
	else
		odp_ring_pop(peer->rq);
	wc.wr_id = op->rwqe.wr_id;
	wc.status = status;
	room = odp_cqc_add(peer->rcq, &wc,
			   op->wqe.send_flags & IB_SEND_SOLICITED || status);
out:
	if (peer->srq)
		spin_unlock(&peer->srq->lock);
	spin_unlock(&peer->rq_lock);
	if (!room)
		odp_qp_fail(peer, IB_QPS_ERR, IB_EVENT_QP_FATAL);
	else if (status)
		odp_qp_fail(peer, IB_QPS_ERR, 0);
	return res;
}

static enum odp_step ud_deliver(struct odp_qpc *qp, struct odp_qpc *peer,
				const struct odp_av *av, long *budget)
{
	struct ud_miss miss = {};
	enum odp_step step;

	for (;;) {
		enum put_result res = PUT_LOST;

		if (!qp->op.late)
			res = ud_put(qp, peer, av, &miss);
		if (res == PUT_LOST)
			odp_count(qp->dev, ODP_CNT_UD_DROPPED, 1);
		step = ODP_STEP_DONE;
		if (res == PUT_MISS)
			step = odp_fault(qp, &miss.dst, &miss.place, miss.len,
					 true, budget);
		odp_stream_close(&miss.dst);
		if (res != PUT_MISS)
			return ODP_STEP_DONE;
		if (step == ODP_STEP_NO_PEER) {
			/* its process is gone: nobody misses the datagram */
			odp_count(qp->dev, ODP_CNT_UD_DROPPED, 1);
			return ODP_STEP_DONE;
		}
		if (step == ODP_STEP_WAIT) {
			qp->fault_deadline = jiffies + FAULT_PATIENCE;
			mod_delayed_work(odp_wq, &qp->timer, FAULT_PATIENCE);
		}
		if (step != ODP_STEP_DONE)
			return step;
		if (*budget <= 0)
			return ODP_STEP_AGAIN;
	}
}

static enum odp_step ud_multicast(struct odp_qpc *qp, const struct odp_av *av,
				  long *budget)
{
	struct odp_op *op = &qp->op;
	enum odp_step step = ODP_STEP_DONE;
	struct odp_qpc *peer;

	while (step == ODP_STEP_DONE) {
		peer = odp_mcast_next(qp->dev, &av->dgid, &op->mcast_qpn);
		if (!peer)
			break;
		if (ud_accepts(qp, peer))
			step = ud_deliver(qp, peer, av, budget);
		odp_users_put(&peer->users);
		*budget -= 256;
		if (step == ODP_STEP_DONE) {
			op->mcast_qpn++;
			op->recv_failed = false;
			op->late = false;
			if (*budget <= 0)
				step = ODP_STEP_AGAIN;
		}
	}
	return step;
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
		.qp = qp, .side = ODP_SIDE_LOCAL, .sgl = &op->wqe.sgl,
	};
	struct odp_stream dst = { .kbuf = qp->ud_buf + ODP_GRH_LEN };
	struct odp_qpc *peer = NULL;
	enum odp_step step;
	enum odp_side bad;
	struct odp_av av;

	if (!ud_address(qp, op->wqe.ah_num, &av)) {
		*status = IB_WC_LOC_QP_OP_ERR;
		return ODP_STEP_ERROR;
	}
	step = odp_move(qp, &dst, &src, op->wqe.sgl.length, &op->done, budget,
			&bad);
	if (step == ODP_STEP_ERROR)
		*status = IB_WC_LOC_PROT_ERR;
	if (step != ODP_STEP_DONE)
		return step;

	ud_grh(qp, &av, op->wqe.sgl.length);
	if (av.has_grh && rdma_is_multicast_addr((struct in6_addr *)&av.dgid))
		return ud_multicast(qp, &av, budget);
	if (av_is_us(qp->dev, &av))
		peer = odp_qp_find(qp->dev, op->wqe.remote_qpn);
	if (peer && ud_accepts(qp, peer))
		step = ud_deliver(qp, peer, &av, budget);
	else
		/* as on a wire: the sender never learns */
		odp_count(qp->dev, ODP_CNT_UD_DROPPED, 1);
	if (peer)
		odp_users_put(&peer->users);
	return step;
}
