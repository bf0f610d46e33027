// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The send queue engine.
 *
 * Whoever rings the doorbell works the queue off, within a budget, in its own
 * context; what is left goes to a worker.  One at a time owns the queue
 * (qp->drain).  It never sleeps for a page, a peer or a receive WQE: it notes
 * what it waits for and returns; a fault worker or the timer brings it back.
 */

#include <linux/jiffies.h>

#include "qp.h"

/* Bytes that a doorbell moves before it lets its caller go on */
#define INLINE_BUDGET	(256 * 1024)
#define WORKER_BUDGET	(1024 * 1024)
/* What a work request costs beside its bytes */
#define WQE_COST	256

/* IBA 1.4, table 45: RNR NAK timer field, in units of 10 us */
static const u16 rnr_delay[32] = {
	65535, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256,
	384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
	24576, 32768, 49152,
};

/**
 * odp_qp_wait - note that the operation can't go on
 * @qp: the QP; the caller owns its send queue
 * @wait: what for
 * @gen: result, to be given to odp_qp_wake(); may be NULL
 *
 * Return: false when the QP is no longer working: don't wait.
 */
bool odp_qp_wait(struct odp_qpc *qp, enum odp_wait wait, u32 *gen)
{
	bool ok;

	spin_lock(&qp->lock);
	ok = qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD;
	if (ok) {
		qp->wait = wait;
		qp->fault_failed = false;
		qp->wait_gen++;
		if (gen)
			*gen = qp->wait_gen;
	}
	spin_unlock(&qp->lock);
	return ok;
}

/**
 * odp_qp_wake - a page fault has been served
 * @qp: who waited; if it still does, its queue is worked on here
 * @gen: from odp_qp_wait()
 * @failed: the page can't be accessed
 */
void odp_qp_wake(struct odp_qpc *qp, u32 gen, bool failed)
{
	bool ours;

	spin_lock(&qp->lock);
	ours = qp->wait == ODP_WAIT_FAULT && qp->wait_gen == gen;
	if (ours) {
		qp->wait = ODP_WAIT_NONE;
		qp->fault_failed = failed;
	}
	spin_unlock(&qp->lock);
	if (ours)
		odp_qp_kick(qp);
}

static void set_timer(struct odp_qpc *qp, u64 usecs)
{
	unsigned long delay = usecs_to_jiffies(min_t(u64, usecs, U32_MAX));

	if (odp_qp_wait(qp, ODP_WAIT_TIMER, NULL))
		mod_delayed_work(odp_wq, &qp->timer, max(delay, 1UL));
}

void odp_qp_timer(struct work_struct *work)
{
	struct odp_qpc *qp = container_of(to_delayed_work(work),
					  struct odp_qpc, timer);

	spin_lock(&qp->lock);
	if (qp->wait == ODP_WAIT_TIMER) {
		qp->wait = ODP_WAIT_NONE;
	} else if (qp->wait == ODP_WAIT_FAULT && qp->type == IB_QPT_UD &&
		   qp->miss_side == ODP_SIDE_RECV &&
		   time_after_eq(jiffies, qp->fault_deadline)) {
		/* a datagram's receiver may not hold its sender up for ever */
		qp->wait = ODP_WAIT_NONE;
		qp->fault_late = true;
	}
	spin_unlock(&qp->lock);
	odp_qp_kick(qp);
}

static enum ib_wc_opcode wc_opcode(u32 opcode)
{
	switch (opcode) {
	case IB_UVERBS_WR_RDMA_WRITE:
	case IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case IB_UVERBS_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case IB_UVERBS_WR_ATOMIC_WRITE:
		return IB_WC_ATOMIC_WRITE;
	case IB_UVERBS_WR_FLUSH:
		return IB_WC_FLUSH;
	case IB_UVERBS_WR_BIND_MW:
		return IB_WC_BIND_MW;
	case IB_UVERBS_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	default:
		return IB_WC_SEND;
	}
}

/* The operation at the head is over, one way or the other */
static void finish(struct odp_qpc *qp, enum ib_wc_status status)
{
	struct odp_send_wqe *wqe = &qp->op.wqe;
	struct ib_uverbs_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = wc_opcode(wqe->opcode),
		.qp_num = qp->qpn,
		.byte_len = wqe->sgl.length,
	};

	/* first, so that a completion means that there is room again */
	qp->op.valid = false;
	odp_ring_pop(qp->sq);
	if ((status || qp->sig_all || (wqe->send_flags & IB_SEND_SIGNALED)) &&
	    !odp_cqc_add(qp->scq, &wc, status != IB_WC_SUCCESS))
		odp_qp_fail(qp, IB_QPS_ERR, IB_EVENT_QP_FATAL);
	if (!status) {
		odp_count(qp->dev, ODP_CNT_SENT_MSGS, 1);
		odp_count(qp->dev, ODP_CNT_SENT_BYTES, wqe->sgl.length);
	}
}

/* Returns false when the queue is empty */
static bool fetch(struct odp_qpc *qp, enum odp_wqe_error *err)
{
	struct odp_op *op = &qp->op;

	if (!odp_ring_posted(qp->sq))
		return false;
	*err = odp_wqe_fetch_send(odp_ring_head(qp->sq), &qp->limits, &op->wqe);
	op->valid = true;
	op->has_rwqe = false;
	op->recv_failed = false;
	op->late = false;
	op->mcast_qpn = 0;
	op->atomic_done = false;
	op->done = 0;
	op->retries = 0;
	op->rnr_retries = 0;
	return true;
}

static void complete_error(struct odp_qpc *qp, enum ib_wc_status status)
{
	finish(qp, status);
	odp_qp_fail(qp, qp->type == IB_QPT_UD ? IB_QPS_SQE : IB_QPS_ERR, 0);
}

/* Returns true when there is more to flush */
static bool flush(struct odp_qpc *qp, bool recv_too)
{
	unsigned int max = 256;
	enum odp_wqe_error err;

	while (qp->op.valid || fetch(qp, &err)) {
		finish(qp, IB_WC_WR_FLUSH_ERR);
		if (!--max)
			return true;
	}
	return recv_too && odp_recv_flush(qp, max);
}

static void retry_peer(struct odp_qpc *qp)
{
	u8 timeout = qp->attr.timeout;

	odp_count(qp->dev, ODP_CNT_RETRIES, 1);
	if (!timeout) {
		/* 0 is "for ever"; look again now and then */
		set_timer(qp, 100 * USEC_PER_MSEC);
	} else if (qp->op.retries++ < qp->attr.retry_cnt) {
		/* 4.096 us * 2^timeout */
		set_timer(qp, (4096ULL << timeout) / NSEC_PER_USEC);
	} else {
		odp_count(qp->dev, ODP_CNT_RETRY_EXCEEDED, 1);
		complete_error(qp, IB_WC_RETRY_EXC_ERR);
	}
}

static void retry_rnr(struct odp_qpc *qp)
{
	struct odp_qpc *peer = odp_peer_get(qp);
	u8 timer = 0;

	if (peer) {
		timer = READ_ONCE(peer->attr.min_rnr_timer) & 31;
		odp_users_put(&peer->users);
	}
	odp_count(qp->dev, ODP_CNT_RNR, 1);
	/* 7 is "for ever" */
	if (qp->attr.rnr_retry == 7 ||
	    qp->op.rnr_retries++ < qp->attr.rnr_retry)
		set_timer(qp, rnr_delay[timer] * 10);
	else
		complete_error(qp, IB_WC_RNR_RETRY_EXC_ERR);
}

static enum ib_wc_status wqe_status(enum odp_wqe_error err)
{
	return err == ODP_WQE_BAD_LENGTH ? IB_WC_LOC_LEN_ERR :
					   IB_WC_LOC_QP_OP_ERR;
}

static void drained(struct odp_qpc *qp)
{
	bool notify;

	spin_lock(&qp->lock);
	notify = qp->attr.en_sqd_async_notify;
	qp->attr.en_sqd_async_notify = 0;
	spin_unlock(&qp->lock);
	if (notify)
		odp_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

/* Work the queue off; returns true when the budget ended it */
static bool drain(struct odp_qpc *qp, long budget)
{
	while (budget > 0) {
		enum ib_wc_status status = IB_WC_GENERAL_ERR;
		enum odp_wqe_error err;
		enum ib_qp_state state;
		enum odp_wait wait;
		enum odp_step step;
		bool failed;

		spin_lock(&qp->lock);
		state = qp->state;
		wait = qp->wait;
		failed = qp->fault_failed;
		qp->fault_failed = false;
		if (qp->fault_late)
			qp->op.late = true;
		qp->fault_late = false;
		spin_unlock(&qp->lock);

		if (state == IB_QPS_ERR || state == IB_QPS_SQE)
			return flush(qp, state == IB_QPS_ERR);
		if (state == IB_QPS_SQD && !qp->op.valid) {
			drained(qp);
			return false;
		}
		if ((state != IB_QPS_RTS && state != IB_QPS_SQD) || wait)
			return false;

		if (!qp->op.valid) {
			if (!fetch(qp, &err))
				return false;
			if (err) {
				complete_error(qp, wqe_status(err));
				continue;
			}
			failed = false;
		}

		if (failed && qp->type == IB_QPT_UD &&
		    qp->miss_side == ODP_SIDE_RECV) {
			/* the receiver learns, and not the sender */
			qp->op.recv_failed = true;
			failed = false;
		}
		if (failed)
			step = odp_xfer_fail(qp, qp->miss_side, &status);
		else if (qp->type == IB_QPT_UD)
			step = odp_xfer_ud(qp, &budget, &status);
		else
			step = odp_xfer(qp, &budget, &status);

		budget -= WQE_COST;
		switch (step) {
		case ODP_STEP_DONE:
			finish(qp, IB_WC_SUCCESS);
			break;
		case ODP_STEP_NO_PEER:
			retry_peer(qp);
			break;
		case ODP_STEP_RNR:
			retry_rnr(qp);
			break;
		case ODP_STEP_LATER:
			set_timer(qp, USEC_PER_MSEC);
			break;
		case ODP_STEP_ERROR:
			complete_error(qp, status);
			break;
		case ODP_STEP_AGAIN:
		case ODP_STEP_WAIT:
			/* the loop sees to it */
			break;
		}
	}
	return true;
}

static void run(struct odp_qpc *qp, long budget)
{
	bool more;

	while (READ_ONCE(qp->kick) && mutex_trylock(&qp->drain)) {
		WRITE_ONCE(qp->kick, false);
		/* clear the note before the queue is looked at */
		smp_mb();
		more = drain(qp, budget);
		mutex_unlock(&qp->drain);
		if (more) {
			WRITE_ONCE(qp->kick, true);
			queue_work(odp_wq, &qp->work);
			return;
		}
		/* pairs with odp_qp_kick(): unlocked before kick is read */
		smp_mb();
	}
}

/**
 * odp_qp_kick - something has changed for a send queue
 * @qp: the QP
 *
 * Works on it for a bounded time, or lets the one who does know.
 */
void odp_qp_kick(struct odp_qpc *qp)
{
	WRITE_ONCE(qp->kick, true);
	/* pairs with run(): kick is set before the lock is found taken */
	smp_mb();
	run(qp, INLINE_BUDGET);
}

void odp_qp_work(struct work_struct *work)
{
	struct odp_qpc *qp = container_of(work, struct odp_qpc, work);

	WRITE_ONCE(qp->kick, true);
	/* as in odp_qp_kick() */
	smp_mb();
	run(qp, WORKER_BUDGET);
}

/**
 * odp_post_send - the doorbell
 * @ibqp: the QP
 * @wr: NULL: librxe has put the work requests into the ring
 * @bad_wr: set to @wr, should anyone pass work requests here
 */
int odp_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr)
{
	struct odp_qpc *qp = to_odp_qp(ibqp)->core;
	enum ib_qp_state state = READ_ONCE(qp->state);

	*bad_wr = wr;
	if (wr)
		return -EINVAL;
	if (state == IB_QPS_RESET || state == IB_QPS_INIT ||
	    state == IB_QPS_RTR)
		return -EINVAL;
	odp_qp_kick(qp);

	/* our peer may wait for receive WQEs, whose posting we don't see */
	if (READ_ONCE(qp->sender_waits)) {
		WRITE_ONCE(qp->sender_waits, false);
		odp_peer_wake(qp);
	}
	return 0;
}
