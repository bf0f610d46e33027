/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Queue pairs and the engine that carries out what is posted to them.
 */
#ifndef RDMA_ODP_QP_H
#define RDMA_ODP_QP_H

#include "mem.h"

/* ------------------------------------------------------------- qp.c */

enum odp_wait {
	ODP_WAIT_NONE,
	ODP_WAIT_FAULT,
	ODP_WAIT_TIMER,
};

/* Whose memory: decides the status when it can't be accessed */
enum odp_side {
	ODP_SIDE_LOCAL,
	ODP_SIDE_REMOTE,	/* RDMA and atomics: rkey and address */
	ODP_SIDE_RECV,		/* the receiver's scatter list */
};

/* The send work request that is being carried out */
struct odp_op {
	bool valid;
	bool has_rwqe;		/* @rwqe is the peer's receive WQE */
	bool recv_failed;	/* UD: the receiver's page can't be had */
	bool late;		/* UD: it was waited for long enough */
	bool atomic_done;
	u64 done;		/* bytes moved */
	u64 atomic_old;
	u8 retries;
	u8 rnr_retries;
	u32 mcast_qpn;		/* UD: members below have had it */
	u32 rq_index;		/* where and when @rwqe was taken */
	u32 rq_epoch;
	struct odp_send_wqe wqe;
	struct odp_recv_wqe rwqe;
};

struct odp_qpc {
	struct kref ref;
	struct rcu_head rcu;
	struct odp_users users;
	struct odp_dev *dev;
	struct ib_qp *ibqp;		/* under @lock; NULL once destroyed */
	struct ib_pd *pd;
	enum ib_qp_type type;
	u32 qpn;
	bool sig_all;
	struct odp_wqe_limits limits;
	struct ib_qp_cap cap;
	struct odp_cqc *scq;
	struct odp_cqc *rcq;

	spinlock_t lock;
	enum ib_qp_state state;		/* under @lock; read without it as a hint */
	struct ib_qp_attr attr;
	enum odp_wait wait;
	u32 wait_gen;
	bool fault_failed;		/* the fault waited for can't be served */
	bool fault_late;		/* UD: ... not within @fault_deadline */
	unsigned long fault_deadline;	/* jiffies */
	bool comm_est;			/* a message has come in RTR */

	struct mutex drain;		/* owner of the send queue */
	bool kick;
	struct odp_ring *sq;
	struct odp_op op;
	enum odp_side miss_side;	/* whose memory the pending fault is for */
	struct work_struct work;
	struct delayed_work timer;

	spinlock_t rq_lock;
	struct odp_ring *rq;		/* NULL: there is an SRQ */
	struct odp_srqc *srq;
	struct odp_recv_wqe *rx;	/* taken from it */
	enum odp_wqe_error rx_err;	/* of @rx */
	bool rx_taken;			/* @rx waits for its message's end */
	bool last_wqe;			/* the owner knows that @rx was the last */
	u32 epoch;			/* times the receive queue was reset */
	bool sender_waits;		/* our peer waits for a receive WQE */
	u8 *ud_buf;			/* UD: a datagram on its way */
};

struct odp_qp {
	struct ib_qp ibqp;
	struct odp_qpc *core;
	struct odp_mmap_entry *sq_entry;
	struct odp_mmap_entry *rq_entry;
};

static inline struct odp_qp *to_odp_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct odp_qp, ibqp);
}

int odp_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		  struct ib_udata *udata);
int odp_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_udata *udata);
int odp_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int odp_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
void odp_qpc_put(struct odp_qpc *qp);
struct odp_qpc *odp_qp_find(struct odp_dev *dev, u32 qpn);
void odp_qp_event(struct odp_qpc *qp, enum ib_event_type event);
void odp_qp_fail(struct odp_qpc *qp, enum ib_qp_state state,
		 enum ib_event_type event);

/* ------------------------------------------------------------- engine.c */

int odp_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr);
void odp_qp_kick(struct odp_qpc *qp);
void odp_qp_work(struct work_struct *work);
void odp_qp_timer(struct work_struct *work);
bool odp_qp_wait(struct odp_qpc *qp, enum odp_wait wait, u32 *gen);
void odp_qp_wake(struct odp_qpc *qp, u32 gen, bool failed);

/* ------------------------------------------------------------- xfer.c */

enum odp_step {
	ODP_STEP_DONE,		/* the message has been carried out */
	ODP_STEP_AGAIN,		/* budget used up; more to do */
	ODP_STEP_WAIT,		/* a page fault is under way */
	ODP_STEP_NO_PEER,	/* nobody answers: transport retry */
	ODP_STEP_RNR,		/* the receiver has no WQE */
	ODP_STEP_LATER,		/* no memory for the moment */
	ODP_STEP_ERROR,		/* with a status; the QP goes into error */
};

enum odp_step odp_xfer(struct odp_qpc *qp, long *budget,
		       enum ib_wc_status *status);
enum odp_step odp_xfer_fail(struct odp_qpc *qp, enum odp_side side,
			    enum ib_wc_status *status);

/* A list or a remote range, read or written from front to back */
struct odp_stream {
	struct odp_qpc *qp;		/* whose keys these are */
	enum odp_side side;
	int access;
	u8 *kbuf;			/* kernel memory, or */
	const struct odp_sgl *sgl;	/* a list, or */
	u32 key;			/* a range */
	u64 addr;
	u64 len;
	/* state */
	struct odp_mr *mr;
	struct odp_mwc *mw;		/* through which @mr is accessed, or NULL */
	u64 mw_addr;			/* @addr as @mr has it */
	u32 idx;			/* the SGE that @mr belongs to */
	u64 base;			/* bytes of the SGEs before it */
};

enum odp_step odp_move(struct odp_qpc *qp, struct odp_stream *dst,
		       struct odp_stream *src, u64 total, u64 *done,
		       long *budget, enum odp_side *bad);
int odp_stream_map(struct odp_stream *s, u64 pos, struct odp_place *place,
		   u64 *avail);
void odp_stream_close(struct odp_stream *s);
enum odp_step odp_fault(struct odp_qpc *qp, struct odp_stream *s,
			struct odp_place *place, u64 len, bool write,
			long *budget);

/* ------------------------------------------------------------- peer.c */

struct odp_qpc *odp_peer_get(struct odp_qpc *qp);
void odp_peer_wake(struct odp_qpc *qp);

/* ------------------------------------------------------------- recv.c */

bool odp_can_receive(enum ib_qp_state state);
bool odp_recv_take(struct odp_qpc *peer, struct odp_op *op,
		   enum odp_wqe_error *err);
bool odp_recv_complete(struct odp_qpc *peer, struct odp_op *op,
		       struct ib_uverbs_wc *wc);
bool odp_recv_flush(struct odp_qpc *qp, unsigned int max);
void odp_recv_reset(struct odp_qpc *qp);

/* ------------------------------------------------------------- ud.c, mcast.c */

int odp_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);
int odp_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);
struct odp_qpc *odp_mcast_next(struct odp_dev *dev, const union ib_gid *mgid,
			       u32 *from);
enum odp_step odp_xfer_ud(struct odp_qpc *qp, long *budget,
			  enum ib_wc_status *status);

#endif
