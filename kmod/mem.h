/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Memory as the HCA sees it: shadow page tables, regions, windows, and copies
 * between them.
 */
#ifndef RDMA_ODP_MEM_H
#define RDMA_ODP_MEM_H

#include "odp.h"

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
	atomic_t windows;		/* bound to it; -1: none any more */
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

/* Tags of the pointers in odp_dev.keys */
#define ODP_KEY_MR	0
#define ODP_KEY_MW	1

int odp_key_alloc(struct odp_dev *dev, void *entry, u32 *key);
struct odp_mr *odp_mr_get(struct odp_dev *dev, u32 key);
struct odp_mr *odp_mr_find(struct odp_dev *dev, struct ib_pd *pd, u32 key,
			   int access);
int odp_mr_va(struct odp_mr *mr, u64 addr, u64 len, u64 *va);
struct ib_mr *odp_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
			      u64 iova, int access, ODP_REG_MR_ARGS);
int odp_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* ------------------------------------------------------------- advise.c */

int odp_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
		  u32 flags, struct ib_sge *sg_list, u32 num_sge,
		  struct uverbs_attr_bundle *attrs);

/* ------------------------------------------------------------- mw.c */

struct odp_qpc;
struct odp_mwc;

struct odp_mw {
	struct ib_mw ibmw;
	struct odp_mwc *core;
};

struct odp_mwc *odp_mw_enter(struct odp_qpc *qp, u32 key, int access, u64 *addr,
			     u64 len, struct odp_mr **mr);
void odp_mw_leave(struct odp_mwc *mw);
bool odp_mw_bind(struct odp_qpc *qp, const struct odp_send_wqe *wqe);
bool odp_mw_invalidate(struct odp_qpc *qp, u32 key);
int odp_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int odp_dealloc_mw(struct ib_mw *ibmw);

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

#endif
