// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Memory windows: a part of an MR, with a key and rights of its own.
 *
 * Type 1 windows belong to a PD; type 2 ones (as of IBA's 2B) to the QP that
 * bound them, and can be invalidated by a work request.  When a binding ends
 * nobody reads or writes through it any more: whoever ends it waits for those
 * who do, each for a bounded time.
 */

#include <linux/random.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "qp.h"

/* LOCAL_WRITE says nothing about a window, and is what many programs pass */
#define MW_ACCESS (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE |	\
		   IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_FLUSH_GLOBAL |	\
		   IB_ACCESS_LOCAL_WRITE | IB_ZERO_BASED)

struct odp_mwc {
	struct kref ref;
	struct rcu_head rcu;
	struct odp_dev *dev;
	struct ib_pd *pd;
	enum ib_mw_type type;
	struct mutex change;		/* one binds or unbinds at a time */
	bool gone;			/* under @change: deallocated */
	wait_queue_head_t idle;

	spinlock_t lock;		/* of what follows */
	u32 key;
	struct odp_mr *mr;		/* NULL: not bound */
	struct odp_qpc *qp;		/* type 2: for comparing, and kept for that */
	int access;
	u64 addr;
	u64 len;
	unsigned int users;		/* accesses under way */
};

static struct odp_mwc *to_core(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct odp_mw, ibmw)->core;
}

static void mw_free(struct kref *ref)
{
	struct odp_mwc *mw = container_of(ref, struct odp_mwc, ref);

	kfree_rcu(mw, rcu);
}

/* Under RCU; NULL unless the key's index is a window's */
static struct odp_mwc *mw_at(struct odp_dev *dev, u32 key)
{
	void *entry = xa_load(&dev->keys, key >> 8);

	if (xa_pointer_tag(entry) != ODP_KEY_MW)
		return NULL;
	return xa_untag_pointer(entry);
}

static struct odp_mwc *mw_get(struct odp_dev *dev, u32 key)
{
	struct odp_mwc *mw;

	rcu_read_lock();
	mw = mw_at(dev, key);
	if (mw && !kref_get_unless_zero(&mw->ref))
		mw = NULL;
	rcu_read_unlock();
	return mw;
}

/**
 * odp_mw_enter - begin to access memory through a window
 * @qp: the QP that the memory belongs to
 * @key: rkey, as the peer wrote it
 * @access: IB_ACCESS_REMOTE_* bits that are all needed
 * @addr: address in the request; result: address in the MR
 * @len: bytes that the request covers
 * @mr: result, the MR, to be released with odp_users_put(&mr->users)
 *
 * Return: the window, to be left with odp_mw_leave() within a bounded time;
 * or NULL: no such window, or not for this access.
 */
struct odp_mwc *odp_mw_enter(struct odp_qpc *qp, u32 key, int access, u64 *addr,
			     u64 len, struct odp_mr **mr)
{
	struct odp_mwc *mw;
	bool ok = false;
	u64 base;

	rcu_read_lock();
	mw = mw_at(qp->dev, key);
	if (mw) {
		spin_lock(&mw->lock);
		base = mw->access & IB_ZERO_BASED ? 0 : mw->addr;
		ok = mw->mr && mw->key == key && mw->pd == qp->pd &&
		     (mw->type == IB_MW_TYPE_1 || mw->qp == qp) &&
		     (mw->access & access) == access &&
		     odp_range_inside(base, mw->len, *addr, len) &&
		     odp_users_get(&mw->mr->users);
		if (ok) {
			mw->users++;
			*mr = mw->mr;
			*addr += mw->addr - base;
		}
		spin_unlock(&mw->lock);
	}
	rcu_read_unlock();
	return ok ? mw : NULL;
}

void odp_mw_leave(struct odp_mwc *mw)
{
	spin_lock(&mw->lock);
	/* under the lock, so that @mw is still there for the waking */
	if (!--mw->users)
		wake_up(&mw->idle);
	spin_unlock(&mw->lock);
}

static bool mw_idle(struct odp_mwc *mw)
{
	bool idle;

	spin_lock(&mw->lock);
	idle = !mw->users;
	spin_unlock(&mw->lock);
	return idle;
}

static void mw_unbind(struct odp_mwc *mw)
{
	struct odp_qpc *qp;
	struct odp_mr *mr;

	lockdep_assert_held(&mw->change);
	spin_lock(&mw->lock);
	mr = mw->mr;
	qp = mw->qp;
	mw->mr = NULL;
	mw->qp = NULL;
	spin_unlock(&mw->lock);
	wait_event(mw->idle, mw_idle(mw));
	if (mr)
		atomic_dec(&mr->windows);
	if (qp)
		odp_qpc_put(qp);
}

static void mw_bind(struct odp_mwc *mw, struct odp_qpc *qp, struct odp_mr *mr,
		    const struct odp_send_wqe *wqe)
{
	mw_unbind(mw);
	spin_lock(&mw->lock);
	mw->key = wqe->rkey;
	mw->mr = mr;
	if (mr && mw->type == IB_MW_TYPE_2) {
		kref_get(&qp->ref);
		mw->qp = qp;
	}
	mw->access = wqe->mw_access;
	mw->addr = wqe->mw_addr;
	mw->len = wqe->mw_len;
	spin_unlock(&mw->lock);
}

/* IBA 1.4, 10.6.7.2 and 11.4: what a window may be bound to */
static bool may_bind(struct odp_mwc *mw, struct odp_qpc *qp,
		     const struct odp_send_wqe *wqe)
{
	if (mw->gone || mw->key != wqe->mw_rkey || mw->pd != qp->pd)
		return false;
	/* the consumer chooses the low eight bits, and no more */
	if ((wqe->rkey ^ wqe->mw_rkey) >> 8 || wqe->mw_access & ~MW_ACCESS)
		return false;
	if (mw->type == IB_MW_TYPE_1)
		return !(wqe->mw_access & IB_ZERO_BASED);
	/* a type 2 window is invalidated, not bound to nothing or elsewhere */
	return !mw->mr && wqe->mw_len;
}

/* The MR with one more window, or NULL */
static struct odp_mr *mr_for_window(struct odp_qpc *qp,
				    const struct odp_send_wqe *wqe)
{
	int access = IB_ACCESS_MW_BIND;
	struct odp_mr *mr;
	bool ok;

	if (wqe->mw_access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		access |= IB_ACCESS_LOCAL_WRITE;
	mr = odp_mr_find(qp->dev, qp->pd, wqe->mw_lkey, access);
	if (!mr)
		return NULL;
	ok = !(mr->access & IB_ZERO_BASED) &&
	     odp_range_inside(mr->iova, mr->length, wqe->mw_addr,
			      wqe->mw_len) &&
	     /* negative: it is being deregistered */
	     atomic_inc_unless_negative(&mr->windows);
	odp_users_put(&mr->users);
	return ok ? mr : NULL;
}

/**
 * odp_mw_bind - carry a BIND_MW work request out
 * @qp: the QP it was posted to
 * @wqe: the work request
 *
 * Return: false when the window can't be bound so.
 */
bool odp_mw_bind(struct odp_qpc *qp, const struct odp_send_wqe *wqe)
{
	struct odp_mwc *mw = mw_get(qp->dev, wqe->mw_rkey);
	struct odp_mr *mr = NULL;
	bool ok;

	if (!mw)
		return false;
	mutex_lock(&mw->change);
	ok = may_bind(mw, qp, wqe);
	if (ok && wqe->mw_len) {
		mr = mr_for_window(qp, wqe);
		ok = mr;
	}
	if (ok)
		mw_bind(mw, qp, mr, wqe);
	mutex_unlock(&mw->change);
	kref_put(&mw->ref, mw_free);
	return ok;
}

/**
 * odp_mw_invalidate - end a type 2 window's binding
 * @qp: the QP that bound it
 * @key: its rkey, as the user or the peer wrote it
 *
 * Return: false when there is no such binding.
 */
bool odp_mw_invalidate(struct odp_qpc *qp, u32 key)
{
	struct odp_mwc *mw = mw_get(qp->dev, key);
	bool ok;

	if (!mw)
		return false;
	mutex_lock(&mw->change);
	ok = mw->type == IB_MW_TYPE_2 && mw->mr && mw->key == key &&
	     mw->qp == qp;
	if (ok)
		mw_unbind(mw);
	mutex_unlock(&mw->change);
	kref_put(&mw->ref, mw_free);
	return ok;
}

int odp_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct odp_mwc *mw;
	int err;

	if (ibmw->type != IB_MW_TYPE_1 && ibmw->type != IB_MW_TYPE_2)
		return -EINVAL;
	mw = kzalloc_obj(*mw, GFP_KERNEL_ACCOUNT);
	if (!mw)
		return -ENOMEM;
	kref_init(&mw->ref);
	mutex_init(&mw->change);
	spin_lock_init(&mw->lock);
	init_waitqueue_head(&mw->idle);
	mw->dev = to_odp_dev(ibmw->device);
	mw->pd = ibmw->pd;
	mw->type = ibmw->type;
	err = odp_key_alloc(mw->dev, xa_tag_pointer(mw, ODP_KEY_MW), &mw->key);
	if (err) {
		kfree(mw);
		return err;
	}
	ibmw->rkey = mw->key;
	container_of(ibmw, struct odp_mw, ibmw)->core = mw;
	return 0;
}

int odp_dealloc_mw(struct ib_mw *ibmw)
{
	struct odp_mwc *mw = to_core(ibmw);

	xa_erase(&mw->dev->keys, mw->key >> 8);
	mutex_lock(&mw->change);
	mw->gone = true;
	mw_unbind(mw);
	mutex_unlock(&mw->change);
	kref_put(&mw->ref, mw_free);
	return 0;
}
