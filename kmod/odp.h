/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * rdma_odp: a software HCA with implicit on-demand paging.
 *
 * Objects that other contexts can reach (a peer's doorbell, a fault worker)
 * are kept apart from the ib_* structs, which the core frees as soon as a
 * destroy verb returns:
 *
 *   odp_qpc  a QP's engine.  @users counts those who act on it right now, for
 *            a bounded time; destroy waits for them.  @ref keeps the memory,
 *            for a fault that may take for ever.
 *   odp_cqc  a CQ's ring, kept by every QP that completes into it.
 *   odp_mr   an MR.  @users as above; dereg waits for copies, never for faults.
 *   odp_mm   the shadow page table of an address space, shared by all ODP MRs
 *            in it.
 *
 * Locks, outermost first: qpc->drain (mutex), qpc->rq_lock, qpc->lock,
 * leaf->lock, mm->inv_lock; cqc->lock is taken inside qpc locks.
 * A drainer holds locks of its peer, but never its peer's mutex.
 */
#ifndef RDMA_ODP_H
#define RDMA_ODP_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "compat.h"
#include "range.h"
#include "wqe.h"

#define ODP_ABI_VERSION		2	/* of rdma_user_rxe.h */
#define ODP_LID			1
#define ODP_MAX_WR		16384
#define ODP_MAX_CQE		BIT(20)
#define ODP_MAX_QP		BIT(16)
#define ODP_MAX_CQ		BIT(16)
#define ODP_MAX_MR		BIT(18)
#define ODP_MAX_PD		BIT(16)
#define ODP_MAX_AH		BIT(16)
#define ODP_MAX_RD_ATOMIC	128

/* Device counters, `rdma statistic show link`; the names are in counters.c */
enum odp_counter {
	ODP_CNT_SENT_MSGS,
	ODP_CNT_SENT_BYTES,
	ODP_CNT_SENDS,
	ODP_CNT_WRITES,
	ODP_CNT_READS,
	ODP_CNT_ATOMICS,
	ODP_CNT_RNR,
	ODP_CNT_RETRIES,
	ODP_CNT_RETRY_EXCEEDED,
	ODP_CNT_PROT_ERRORS,
	ODP_CNT_UD_DROPPED,
	ODP_CNT_FAULTS,
	ODP_CNT_FAULTS_HANDLED,
	ODP_CNT_FAULTS_SLOW,
	ODP_CNT_INVALIDATIONS,
	ODP_CNT_PINNED_PAGES,
	ODP_NUM_COUNTERS,
};

struct odp_dev {
	struct ib_device ibdev;
	struct list_head list;
	u64 guid;
	struct xarray qps;		/* QPN -> odp_qpc */
	struct xarray mrs;		/* key >> 8 -> odp_mr */
	struct xarray ahs;		/* ah_num -> odp_av */
	u32 next_qpn;
	u32 next_ah;
	atomic64_t counters[ODP_NUM_COUNTERS];
};

static inline struct odp_dev *to_odp_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct odp_dev, ibdev);
}

static inline void odp_count(struct odp_dev *dev, enum odp_counter c, s64 n)
{
	atomic64_add(n, &dev->counters[c]);
}

/*
 * Users of an object, each for a bounded time.  Once it is gone nobody can
 * become one, and odp_users_drain() returns when the last has left.
 */
struct odp_users {
	refcount_t count;
	struct completion gone;
};

static inline void odp_users_init(struct odp_users *u)
{
	refcount_set(&u->count, 1);
	init_completion(&u->gone);
}

static inline bool odp_users_get(struct odp_users *u)
{
	return refcount_inc_not_zero(&u->count);
}

static inline void odp_users_put(struct odp_users *u)
{
	if (refcount_dec_and_test(&u->count))
		complete(&u->gone);
}

static inline void odp_users_drain(struct odp_users *u)
{
	odp_users_put(u);
	wait_for_completion(&u->gone);
}

/* ------------------------------------------------------------- ring.c */

struct odp_ring {
	struct kref ref;
	struct rxe_queue_buf *buf;	/* shared with the user */
	struct page **pages;
	unsigned int num_pages;
	u32 log2_slot;
	u32 mask;
	u32 index;	/* ours: consumer of a work queue, producer of a CQ */
};

struct odp_mmap_entry {
	struct rdma_user_mmap_entry rdma;
	struct odp_ring *ring;
};

struct odp_ring *odp_ring_create(u32 min_slots, u32 slot_bytes);
void odp_ring_put(struct odp_ring *ring);
struct odp_mmap_entry *odp_ring_publish(struct odp_ring *ring,
					struct ib_ucontext *ctx,
					struct mminfo *mi);
void odp_ring_unpublish(struct odp_mmap_entry *entry);
int odp_mmap(struct ib_ucontext *ctx, struct vm_area_struct *vma);
void odp_mmap_free(struct rdma_user_mmap_entry *entry);

static inline void *odp_ring_slot(struct odp_ring *r, u32 index)
{
	return r->buf->data + ((size_t)(index & r->mask) << r->log2_slot);
}

/* Work queue: entries that the user has posted and we have not taken */
static inline u32 odp_ring_posted(struct odp_ring *r)
{
	/* pairs with the user's store-release: the slot is written before */
	return (smp_load_acquire(&r->buf->producer_index) - r->index) & r->mask;
}

static inline void *odp_ring_head(struct odp_ring *r)
{
	return odp_ring_slot(r, r->index);
}

/* Work queue: give the slot at the head back to the user */
static inline void odp_ring_pop(struct odp_ring *r)
{
	r->index = (r->index + 1) & r->mask;
	/* pairs with the user's load-acquire: we have read the slot before */
	smp_store_release(&r->buf->consumer_index, r->index);
}

/* ------------------------------------------------------------- cq.c */

struct odp_cqc {
	struct kref ref;
	spinlock_t lock;
	struct odp_ring *ring;
	struct ib_cq *ibcq;		/* NULL once destroyed */
	unsigned int notify;		/* IB_CQ_NEXT_COMP, IB_CQ_SOLICITED, 0 */
	bool overflowed;
};

struct odp_cq {
	struct ib_cq ibcq;
	struct odp_cqc *core;
	struct odp_mmap_entry *entry;
};

static inline struct odp_cq *to_odp_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct odp_cq, ibcq);
}

void odp_cqc_put(struct odp_cqc *cqc);
void odp_cqc_add(struct odp_cqc *cqc, const struct ib_uverbs_wc *wc,
		 bool solicited);
int odp_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs);
int odp_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int odp_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/* ------------------------------------------------------------- mm.c */

struct odp_mm {
	struct mmu_notifier mn;
	struct mm_struct *mm;
	struct kref ref;		/* one is the notifier's */
	struct xarray leaves;		/* va >> ODP_LEAF_SHIFT -> odp_leaf */
	u64 size;			/* user addresses are below this */
	spinlock_t inv_lock;
	unsigned int inv_active;	/* invalidations between start and end */
	unsigned long inv_start;	/* what they cover together */
	unsigned long inv_end;
	bool dead;			/* the address space is going away */
	spinlock_t mr_lock;
	struct list_head mrs;		/* for the counters */
	struct workqueue_struct *wq;	/* faults; its own, so that a fault
					 * blocked by one user starves no other
					 */
	struct mutex wq_lock;
	struct work_struct free_work;
};

#define ODP_LEAF_SHIFT		21
#define ODP_LEAF_SIZE		BIT(ODP_LEAF_SHIFT)
#define ODP_LEAF_PAGES		(ODP_LEAF_SIZE >> PAGE_SHIFT)
#define ODP_ENTRY_WRITE		1UL	/* in the low bits of the page pointer */

/* 2 MiB of address space; entries hold no page reference: as in KVM, the
 * notifier is what keeps them true
 */
struct odp_leaf {
	rwlock_t lock;
	u32 seq;			/* invalidations that met this leaf */
	u32 present;
	unsigned long *entry;		/* a page of them */
};

struct odp_mm *odp_mm_get_current(void);
void odp_mm_put_notifier(struct odp_mm *m);
void odp_mm_put(struct odp_mm *m);
struct odp_leaf *odp_mm_leaf(struct odp_mm *m, u64 va);
int odp_mm_fault(struct odp_mm *m, u64 va, u64 len, bool write, bool nowait);
void odp_mm_module_exit(void);

/* ------------------------------------------------------------- mr.c */

struct odp_mr {
	struct ib_mr ibmr;
	struct rcu_head rcu;
	struct odp_users users;
	struct odp_dev *dev;
	struct ib_pd *pd;
	u32 key;
	int access;
	bool implicit;
	u64 iova;
	u64 start;
	u64 length;
	/* ODP */
	struct odp_mm *mm;
	struct list_head mm_node;
	atomic64_t faults;
	atomic64_t faults_handled;
	atomic64_t invalidations;
	atomic64_t invalidations_handled;
	atomic64_t prefetched;
	/* pinned */
	struct ib_umem *umem;
	struct page **pages;
	unsigned int num_pages;
};

static inline struct odp_mr *to_odp_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct odp_mr, ibmr);
}

struct odp_mr *odp_mr_find(struct odp_dev *dev, struct ib_pd *pd, u32 key,
			   int access);
int odp_mr_va(struct odp_mr *mr, u64 addr, u64 len, u64 *va);
struct ib_mr *odp_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
			      u64 iova, int access, ODP_REG_MR_ARGS);
int odp_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
int odp_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
		  u32 flags, struct ib_sge *sg_list, u32 num_sge,
		  struct uverbs_attr_bundle *attrs);

/* ------------------------------------------------------------- copy.c */

/* Where bytes come from or go to */
struct odp_place {
	struct odp_mr *mr;	/* NULL: kernel memory at @kbuf */
	u8 *kbuf;
	u64 va;
};

enum odp_copy_result {
	ODP_COPY_OK,
	ODP_COPY_MISS_DST,	/* no translation that allows the access */
	ODP_COPY_MISS_SRC,
};

enum odp_copy_result odp_copy(struct odp_place *dst, struct odp_place *src,
			      size_t len, size_t *copied);
enum odp_copy_result odp_atomic(struct odp_place *at, bool cmpswap,
				u64 compare_add, u64 swap, u64 *old);

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
	bool atomic_done;
	u64 done;		/* bytes moved */
	u64 atomic_old;
	u8 retries;
	u8 rnr_retries;
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

	struct mutex drain;		/* owner of the send queue */
	bool kick;
	struct odp_ring *sq;
	struct odp_op op;
	enum odp_side miss_side;	/* whose memory the pending fault is for */
	struct work_struct work;
	struct delayed_work timer;

	spinlock_t rq_lock;
	struct odp_ring *rq;
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
	struct odp_dev *dev;
	struct ib_pd *pd;
	enum odp_side side;
	int access;
	u8 *kbuf;			/* kernel memory, or */
	const struct odp_sgl *sgl;	/* a list, or */
	u32 key;			/* a range */
	u64 addr;
	u64 len;
	/* state */
	struct odp_mr *mr;
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
bool odp_recv_take(struct odp_qpc *peer, struct odp_op *op,
		   enum odp_wqe_error *err, bool consume);
bool odp_recv_complete(struct odp_qpc *peer, struct odp_op *op,
		       struct ib_uverbs_wc *wc, bool pop);
enum odp_step odp_xfer_ud(struct odp_qpc *qp, long *budget,
			  enum ib_wc_status *status);

/* ------------------------------------------------------------- the rest */

struct odp_ucontext {
	struct ib_ucontext ibuc;
};

struct odp_pd {
	struct ib_pd ibpd;
};

struct odp_av {
	struct rcu_head rcu;
	struct ib_pd *pd;
	u16 dlid;
	u8 sl;
	bool has_grh;
	union ib_gid dgid;
};

struct odp_ah {
	struct ib_ah ibah;
	u32 num;
	struct rdma_ah_attr attr;
};

extern const struct ib_device_ops odp_dev_ops;
extern struct workqueue_struct *odp_wq;
/* caches of their own, so that a leak shows in slabinfo and at unload */
extern struct kmem_cache *odp_qpc_cache;
extern struct kmem_cache *odp_mr_cache;
extern struct kmem_cache *odp_mm_cache;
extern struct kmem_cache *odp_leaf_cache;

void odp_dev_gid(struct odp_dev *dev, union ib_gid *gid);
struct rdma_hw_stats *odp_alloc_hw_stats(struct ib_device *ibdev, u32 port);
int odp_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		     u32 port, int index);
int odp_fill_stat_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int odp_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
void odp_dealloc_driver(struct ib_device *ibdev);

#endif
