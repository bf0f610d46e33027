// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Operations of connected QPs, RC and UC: requester and responder in one, since
 * both ends are on this host.  Each call takes the operation at the head of the
 * send queue a bounded step further; all that it keeps is in qp->op.
 *
 * The requester of a UC QP never learns what became of its message: whatever
 * the responder objects to is as if lost on the wire.
 */

#include "qp.h"

/* IBV_WC_WITH_INV of libibverbs; the kernel's own IB_WC_WITH_INVALIDATE is a
 * different bit, and librxe hands our completions to programs as they are
 */
#define ODP_WC_WITH_INV		(1 << 3)

static void local_stream(struct odp_qpc *qp, struct odp_stream *s, int access)
{
	*s = (struct odp_stream){
		.qp = qp, .side = ODP_SIDE_LOCAL, .access = access,
		.sgl = &qp->op.wqe.sgl,
	};
}

static void remote_stream(struct odp_qpc *qp, struct odp_qpc *peer,
			  struct odp_stream *s, int access, u64 len)
{
	*s = (struct odp_stream){
		.qp = peer, .side = ODP_SIDE_REMOTE, .access = access,
		.key = qp->op.wqe.rkey,
		.addr = qp->op.wqe.remote_addr, .len = len,
	};
}

static void recv_stream(struct odp_qpc *qp, struct odp_qpc *peer,
			struct odp_stream *s)
{
	*s = (struct odp_stream){
		.qp = peer, .side = ODP_SIDE_RECV,
		.access = IB_ACCESS_LOCAL_WRITE, .sgl = &qp->op.rwqe.sgl,
	};
}

/* The receiver's completion of a message that could not be received */
static void recv_fail(struct odp_qpc *qp, struct odp_qpc *peer,
		      enum ib_wc_status status)
{
	struct ib_uverbs_wc wc = {
		.status = status,
		.opcode = IB_WC_RECV,
		.src_qp = qp->qpn,
	};

	odp_recv_complete(peer, &qp->op, &wc);
	odp_qp_fail(peer, IB_QPS_ERR, 0);
}

/* The responder of a UC QP: the message is lost, the next one is a new one */
static enum odp_step drop(struct odp_qpc *qp)
{
	qp->op.has_rwqe = false;
	odp_count(qp->dev, ODP_CNT_UC_DROPPED, 1);
	return ODP_STEP_DONE;
}

static enum odp_step fail(struct odp_qpc *qp, struct odp_qpc *peer,
			  enum odp_side side, enum ib_wc_status *status)
{
	odp_count(qp->dev, ODP_CNT_PROT_ERRORS, 1);
	if (qp->type == IB_QPT_UC && side != ODP_SIDE_LOCAL)
		return drop(qp);
	switch (side) {
	case ODP_SIDE_LOCAL:
		*status = IB_WC_LOC_PROT_ERR;
		break;
	case ODP_SIDE_REMOTE:
		*status = IB_WC_REM_ACCESS_ERR;
		odp_qp_fail(peer, IB_QPS_ERR, IB_EVENT_QP_ACCESS_ERR);
		break;
	case ODP_SIDE_RECV:
		*status = IB_WC_REM_OP_ERR;
		recv_fail(qp, peer, IB_WC_LOC_PROT_ERR);
		break;
	}
	return ODP_STEP_ERROR;
}

static enum odp_step invalid_request(struct odp_qpc *qp, struct odp_qpc *peer,
				     enum ib_wc_status *status)
{
	if (qp->type == IB_QPT_UC)
		return drop(qp);
	*status = IB_WC_REM_INV_REQ_ERR;
	odp_qp_fail(peer, IB_QPS_ERR, IB_EVENT_QP_REQ_ERR);
	return ODP_STEP_ERROR;
}

/* The receive WQE for a SEND or a WRITE with immediate */
static enum odp_step need_recv(struct odp_qpc *qp, struct odp_qpc *peer,
			       enum ib_wc_status *status)
{
	enum odp_wqe_error err = ODP_WQE_OK;
	struct odp_op *op = &qp->op;

	if (op->has_rwqe) {
		if (op->rq_epoch == READ_ONCE(peer->epoch))
			return ODP_STEP_DONE;
		/* the receiver was reset: for it this message is a new one */
		op->has_rwqe = false;
		op->done = 0;
	}
	if (!odp_recv_take(peer, op, &err))
		return ODP_STEP_RNR;
	op->has_rwqe = true;
	if (!err)
		return ODP_STEP_DONE;
	recv_fail(qp, peer, IB_WC_LOC_QP_OP_ERR);
	*status = IB_WC_REM_OP_ERR;
	return ODP_STEP_ERROR;
}

static enum odp_step complete_recv(struct odp_qpc *qp, struct odp_qpc *peer,
				   enum ib_wc_opcode opcode)
{
	struct odp_op *op = &qp->op;
	struct ib_uverbs_wc wc = {
		.opcode = opcode,
		.byte_len = op->wqe.sgl.length,
		.src_qp = qp->qpn,
		.slid = ODP_LID,
	};

	if (op->wqe.opcode == IB_UVERBS_WR_SEND_WITH_IMM ||
	    op->wqe.opcode == IB_UVERBS_WR_RDMA_WRITE_WITH_IMM) {
		wc.wc_flags = IB_WC_WITH_IMM;
		wc.ex.imm_data = op->wqe.imm;
	} else if (op->wqe.opcode == IB_UVERBS_WR_SEND_WITH_INV) {
		wc.wc_flags = ODP_WC_WITH_INV;
		wc.ex.invalidate_rkey = op->wqe.inv_rkey;
	}
	if (!odp_recv_complete(peer, op, &wc)) {
		/* it went away under us: as if the last packet was lost */
		op->done = 0;
		return ODP_STEP_NO_PEER;
	}
	return ODP_STEP_DONE;
}

/* Move the message on; when it is all there, count it */
static enum odp_step move(struct odp_qpc *qp, struct odp_qpc *peer,
			  struct odp_stream *dst, struct odp_stream *src,
			  u64 len, enum odp_counter counter, long *budget,
			  enum ib_wc_status *status)
{
	enum odp_side bad;
	enum odp_step step;

	step = odp_move(qp, dst, src, len, &qp->op.done, budget, &bad);
	if (step == ODP_STEP_ERROR)
		return fail(qp, peer, bad, status);
	if (step == ODP_STEP_DONE)
		odp_count(qp->dev, counter, 1);
	return step;
}

static enum odp_step xfer_send(struct odp_qpc *qp, struct odp_qpc *peer,
			       long *budget, enum ib_wc_status *status)
{
	struct odp_op *op = &qp->op;
	struct odp_stream src, dst;
	enum odp_step step;

	step = need_recv(qp, peer, status);
	if (step != ODP_STEP_DONE)
		return step;
	if (op->wqe.sgl.length > op->rwqe.sgl.length) {
		if (qp->type == IB_QPT_UC)
			return drop(qp);
		recv_fail(qp, peer, IB_WC_LOC_LEN_ERR);
		*status = IB_WC_REM_INV_REQ_ERR;
		return ODP_STEP_ERROR;
	}
	local_stream(qp, &src, 0);
	recv_stream(qp, peer, &dst);
	step = move(qp, peer, &dst, &src, op->wqe.sgl.length, ODP_CNT_SENDS,
		    budget, status);
	/* a lost one has given its receive work request back */
	if (step != ODP_STEP_DONE || !op->has_rwqe)
		return step;
	if (op->wqe.opcode == IB_UVERBS_WR_SEND_WITH_INV &&
	    !odp_mw_invalidate(peer, op->wqe.inv_rkey)) {
		recv_fail(qp, peer, IB_WC_MW_BIND_ERR);
		*status = IB_WC_REM_OP_ERR;
		return qp->type == IB_QPT_UC ? ODP_STEP_DONE : ODP_STEP_ERROR;
	}
	return complete_recv(qp, peer, IB_WC_RECV);
}

static enum odp_step xfer_write(struct odp_qpc *qp, struct odp_qpc *peer,
				long *budget, enum ib_wc_status *status)
{
	bool imm = qp->op.wqe.opcode == IB_UVERBS_WR_RDMA_WRITE_WITH_IMM;
	struct odp_op *op = &qp->op;
	struct odp_stream src, dst;
	enum odp_step step;

	if (!(READ_ONCE(peer->attr.qp_access_flags) & IB_ACCESS_REMOTE_WRITE))
		return invalid_request(qp, peer, status);
	if (imm) {
		step = need_recv(qp, peer, status);
		if (step != ODP_STEP_DONE)
			return step;
	}
	local_stream(qp, &src, 0);
	remote_stream(qp, peer, &dst, IB_ACCESS_REMOTE_WRITE,
		      op->wqe.sgl.length);
	step = move(qp, peer, &dst, &src, op->wqe.sgl.length, ODP_CNT_WRITES,
		    budget, status);
	if (step != ODP_STEP_DONE || !imm || !op->has_rwqe)
		return step;
	return complete_recv(qp, peer, IB_WC_RECV_RDMA_WITH_IMM);
}

static enum odp_step xfer_read(struct odp_qpc *qp, struct odp_qpc *peer,
			       long *budget, enum ib_wc_status *status)
{
	struct odp_op *op = &qp->op;
	struct odp_stream src, dst;

	if (!(READ_ONCE(peer->attr.qp_access_flags) & IB_ACCESS_REMOTE_READ))
		return invalid_request(qp, peer, status);
	local_stream(qp, &dst, IB_ACCESS_LOCAL_WRITE);
	remote_stream(qp, peer, &src, IB_ACCESS_REMOTE_READ,
		      op->wqe.sgl.length);
	return move(qp, peer, &dst, &src, op->wqe.sgl.length, ODP_CNT_READS,
		    budget, status);
}

/* The operation on the word itself; exactly once, however often we come by */
static enum odp_step atomic_remote(struct odp_qpc *qp, struct odp_qpc *peer,
				   long *budget, enum ib_wc_status *status)
{
	struct odp_op *op = &qp->op;
	struct odp_stream at;
	struct odp_place place;
	enum odp_step step = ODP_STEP_DONE;
	u64 avail;

	if (!(READ_ONCE(peer->attr.qp_access_flags) & IB_ACCESS_REMOTE_ATOMIC) ||
	    op->wqe.remote_addr & 7)
		return invalid_request(qp, peer, status);
	remote_stream(qp, peer, &at, IB_ACCESS_REMOTE_ATOMIC, sizeof(u64));
	while (!op->atomic_done && step == ODP_STEP_DONE) {
		/* the MR's iova may be aligned otherwise than its memory */
		if (odp_stream_map(&at, 0, &place, &avail) || place.va & 7) {
			step = fail(qp, peer, ODP_SIDE_REMOTE, status);
			break;
		}
		if (odp_atomic(&place, op->wqe.opcode ==
			       IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
			       op->wqe.compare_add, op->wqe.swap,
			       &op->atomic_old) == ODP_COPY_OK)
			op->atomic_done = true;
		else if (*budget <= 0)
			step = ODP_STEP_AGAIN;
		else
			step = odp_fault(qp, &at, &place, sizeof(u64), true,
					 budget);
	}
	odp_stream_close(&at);
	return step;
}

static enum odp_step xfer_atomic(struct odp_qpc *qp, struct odp_qpc *peer,
				 long *budget, enum ib_wc_status *status)
{
	struct odp_op *op = &qp->op;
	struct odp_stream dst, src = { .kbuf = (u8 *)&op->atomic_old };
	enum odp_step step;

	step = atomic_remote(qp, peer, budget, status);
	if (step != ODP_STEP_DONE)
		return step;
	local_stream(qp, &dst, IB_ACCESS_LOCAL_WRITE);
	return move(qp, peer, &dst, &src, sizeof(u64), ODP_CNT_ATOMICS, budget,
		    status);
}

/* Eight bytes at once, for whoever reads them with one load */
static enum odp_step xfer_atomic_write(struct odp_qpc *qp, struct odp_qpc *peer,
				       long *budget, enum ib_wc_status *status)
{
	struct odp_op *op = &qp->op;
	struct odp_stream src, dst;
	struct odp_place place;
	u64 avail;

	if (!(READ_ONCE(peer->attr.qp_access_flags) & IB_ACCESS_REMOTE_WRITE) ||
	    op->wqe.remote_addr & 7)
		return invalid_request(qp, peer, status);
	local_stream(qp, &src, 0);
	remote_stream(qp, peer, &dst, IB_ACCESS_REMOTE_WRITE, sizeof(u64));
	/* the MR's iova may be aligned otherwise than its memory */
	if (odp_stream_map(&dst, 0, &place, &avail) || place.va & 7) {
		odp_stream_close(&dst);
		return fail(qp, peer, ODP_SIDE_REMOTE, status);
	}
	return move(qp, peer, &dst, &src, sizeof(u64), ODP_CNT_WRITES, budget,
		    status);
}

/* All writes are visible at once here; what remains is to check the range */
static enum odp_step xfer_flush(struct odp_qpc *qp, struct odp_qpc *peer,
				enum ib_wc_status *status)
{
	const struct odp_send_wqe *wqe = &qp->op.wqe;
	struct odp_stream at;
	struct odp_place place;
	u64 avail;
	bool ok;

	if (!wqe->flush_type || wqe->flush_level > IB_FLUSH_MR ||
	    wqe->flush_type & ~(IB_FLUSH_GLOBAL | IB_FLUSH_PERSISTENT) ||
	    !(READ_ONCE(peer->attr.qp_access_flags) & IB_ACCESS_FLUSH_GLOBAL))
		return invalid_request(qp, peer, status);
	/* no MR is persistent memory, so none can be registered for that */
	if (wqe->flush_type & IB_FLUSH_PERSISTENT)
		return fail(qp, peer, ODP_SIDE_REMOTE, status);
	remote_stream(qp, peer, &at, IB_ACCESS_FLUSH_GLOBAL, wqe->flush_len);
	ok = !odp_stream_map(&at, 0, &place, &avail);
	/* a whole MR needs no address */
	ok = ok || (wqe->flush_level == IB_FLUSH_MR && at.mr && !at.mw);
	odp_stream_close(&at);
	if (!ok)
		return fail(qp, peer, ODP_SIDE_REMOTE, status);
	/* a later read by the CPU sees all that was written before */
	smp_mb();
	return ODP_STEP_DONE;
}

/* Work requests that concern this end only */
static enum odp_step xfer_local(struct odp_qpc *qp, enum ib_wc_status *status)
{
	const struct odp_send_wqe *wqe = &qp->op.wqe;
	bool ok;

	if (wqe->opcode == IB_UVERBS_WR_BIND_MW)
		ok = odp_mw_bind(qp, wqe);
	else
		ok = odp_mw_invalidate(qp, wqe->inv_rkey);
	if (ok)
		return ODP_STEP_DONE;
	/* IBA 1.4, 11.6.2: memory management operation error */
	*status = IB_WC_MW_BIND_ERR;
	return ODP_STEP_ERROR;
}

static enum odp_step xfer(struct odp_qpc *qp, struct odp_qpc *peer,
			  long *budget, enum ib_wc_status *status)
{
	switch (qp->op.wqe.opcode) {
	case IB_UVERBS_WR_SEND:
	case IB_UVERBS_WR_SEND_WITH_IMM:
	case IB_UVERBS_WR_SEND_WITH_INV:
		return xfer_send(qp, peer, budget, status);
	case IB_UVERBS_WR_RDMA_WRITE:
	case IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return xfer_write(qp, peer, budget, status);
	case IB_UVERBS_WR_RDMA_READ:
		return xfer_read(qp, peer, budget, status);
	case IB_UVERBS_WR_ATOMIC_WRITE:
		return xfer_atomic_write(qp, peer, budget, status);
	case IB_UVERBS_WR_FLUSH:
		return xfer_flush(qp, peer, status);
	default:
		return xfer_atomic(qp, peer, budget, status);
	}
}

/**
 * odp_xfer - take the operation of a connected QP a step further
 * @qp: the requester; the caller owns its send queue
 * @budget: bytes this step may move; reduced
 * @status: result with ODP_STEP_ERROR
 */
enum odp_step odp_xfer(struct odp_qpc *qp, long *budget,
		       enum ib_wc_status *status)
{
	struct odp_qpc *peer;
	enum odp_step step;

	if (qp->op.wqe.opcode == IB_UVERBS_WR_BIND_MW ||
	    qp->op.wqe.opcode == IB_UVERBS_WR_LOCAL_INV)
		return xfer_local(qp, status);
	peer = odp_peer_get(qp);
	if (peer) {
		step = xfer(qp, peer, budget, status);
		odp_users_put(&peer->users);
	} else {
		/* should one appear, it has not seen any of this message */
		qp->op.has_rwqe = false;
		qp->op.done = 0;
		step = ODP_STEP_NO_PEER;
	}
	if (qp->type == IB_QPT_UC &&
	    (step == ODP_STEP_NO_PEER || step == ODP_STEP_RNR))
		return drop(qp);
	return step;
}

/**
 * odp_xfer_fail - the page fault that the operation waited for can't be served
 * @qp: the requester; the caller owns its send queue
 * @side: whose memory it was
 * @status: result
 */
enum odp_step odp_xfer_fail(struct odp_qpc *qp, enum odp_side side,
			    enum ib_wc_status *status)
{
	struct odp_qpc *peer;
	enum odp_step step;

	if (side == ODP_SIDE_LOCAL) {
		*status = IB_WC_LOC_PROT_ERR;
		odp_count(qp->dev, ODP_CNT_PROT_ERRORS, 1);
		return ODP_STEP_ERROR;
	}
	peer = odp_peer_get(qp);
	if (!peer)
		return qp->type == IB_QPT_UC ? drop(qp) : ODP_STEP_NO_PEER;
	step = fail(qp, peer, side, status);
	odp_users_put(&peer->users);
	return step;
}
