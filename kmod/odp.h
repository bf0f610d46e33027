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
 *   odp_srqc an SRQ's ring, kept by every QP that receives from it.
 *   odp_mr   an MR.  @users as above; dereg waits for copies, never for faults.
 *   odp_mwc  a memory window.  It counts the accesses under way, and whoever
 *            ends its binding waits for them.
 *   odp_mm   the shadow page table of an address space, shared by all ODP MRs
 *            in it.
 *
 * Locks, outermost first: qpc->drain, mwc->change (mutexes), qpc->rq_lock,
 * srqc->lock, qpc->lock, mwc->lock, leaf->lock, mm->inv_lock; cqc->lock is
 * taken inside qpc and srqc locks.
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
#define ODP_VENDOR_ID		0xffffff	/* no OUI, as rxe has it */
#define ODP_LID			1
#define ODP_MAX_WR		16384
#define ODP_MAX_CQE		BIT(20)
#define ODP_MAX_QP		BIT(16)
#define ODP_MAX_CQ		BIT(16)
#define ODP_MAX_MR		BIT(18)
#define ODP_MAX_SRQ		BIT(16)
#define ODP_MAX_MCAST_ATTACH	4096
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
	ODP_CNT_UC_DROPPED,
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
	struct xarray keys;		/* key >> 8 -> odp_mr, or tagged odp_mwc */
	struct xarray ahs;		/* ah_num -> odp_av */
	u32 next_qpn;
	u32 next_ah;
	rwlock_t members_lock;
	struct list_head members;	/* of multicast groups */
	u32 num_members;
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
void odp_ring_copy(struct odp_ring *to, u32 at, struct odp_ring *from,
		   u32 first, u32 count);
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
	struct mutex resize;
};

static inline struct odp_cq *to_odp_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct odp_cq, ibcq);
}

void odp_cqc_put(struct odp_cqc *cqc);
bool odp_cqc_add(struct odp_cqc *cqc, const struct ib_uverbs_wc *wc,
		 bool solicited);
int odp_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs);
int odp_resize_cq(struct ib_cq *ibcq, ODP_RESIZE_CQE cqe,
		  struct ib_udata *udata);
int odp_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int odp_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/* ------------------------------------------------------------- srq.c */

struct odp_srqc {
	struct kref ref;
	spinlock_t lock;
	struct odp_ring *ring;
	struct ib_srq *ibsrq;		/* NULL once destroyed */
	u32 max_sge;
	u32 limit;			/* tell when there are fewer; 0: don't */
};

struct odp_srq {
	struct ib_srq ibsrq;
	struct odp_srqc *core;
	struct odp_mmap_entry *entry;
	struct mutex change;
};

static inline struct odp_srq *to_odp_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct odp_srq, ibsrq);
}

void odp_srqc_put(struct odp_srqc *srq);
bool odp_srq_peek(struct odp_srqc *srq, struct odp_recv_wqe *wqe,
		  enum odp_wqe_error *err);
void odp_srq_pop(struct odp_srqc *srq);
int odp_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		   struct ib_udata *udata);
int odp_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		   enum ib_srq_attr_mask mask, struct ib_udata *udata);
int odp_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int odp_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

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
