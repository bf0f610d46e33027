// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Streams of bytes between scatter/gather lists and remote ranges, with page
 * faults served on the way.
 */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "qp.h"

/* An ODP page fault that has to sleep */
struct odp_fault {
	struct work_struct work;
	struct odp_dev *dev;
	struct odp_qpc *qp;
	struct odp_mm *mm;
	u64 va;
	u64 len;
	bool write;
	enum odp_side side;
	u32 gen;
	/* whose counters */
	struct ib_pd *pd;
	u32 key;
};

/**
 * odp_stream_close - drop what the stream holds
 * @s: may be used again; nothing is held between two steps of an operation
 */
void odp_stream_close(struct odp_stream *s)
{
	if (s->mr)
		odp_users_put(&s->mr->users);
	if (s->mw)
		odp_mw_leave(s->mw);
	s->mr = NULL;
	s->mw = NULL;
}

/**
 * odp_stream_map - find the bytes at a position
 * @s: the stream
 * @pos: position; not before that of the previous call
 * @place: result
 * @avail: result, bytes that follow in one piece
 *
 * Return: 0, or -EACCES when the key or the range doesn't allow the access.
 */
int odp_stream_map(struct odp_stream *s, u64 pos, struct odp_place *place,
		   u64 *avail)
{
	const struct rxe_sge *sge;
	u64 addr = s->addr;
	u64 len = s->len;
	u32 key = s->key;
	u64 va;

	place->mr = NULL;
	if (s->kbuf) {
		place->kbuf = s->kbuf + pos;
		*avail = U64_MAX;
		return 0;
	}
	if (s->sgl && s->sgl->is_inline) {
		place->kbuf = (u8 *)s->sgl->data + pos;
		*avail = s->sgl->length - pos;
		return 0;
	}
	if (s->sgl) {
		while (pos - s->base >= s->sgl->sge[s->idx].length) {
			s->base += s->sgl->sge[s->idx].length;
			s->idx++;
			odp_stream_close(s);
		}
		sge = &s->sgl->sge[s->idx];
		addr = sge->addr;
		len = sge->length;
		key = sge->lkey;
	}
	if (!s->mr)
		s->mr = odp_mr_find(s->qp->dev, s->qp->pd, key, s->access);
	/* a window's key is for the peer only */
	if (!s->mr && s->side == ODP_SIDE_REMOTE) {
		s->mw_addr = addr;
		s->mw = odp_mw_enter(s->qp, key, s->access, &s->mw_addr, len,
				     &s->mr);
	}
	if (!s->mr)
		return -EACCES;
	if (odp_mr_va(s->mr, s->mw ? s->mw_addr : addr, len, &va))
		return -EACCES;
	place->mr = s->mr;
	place->va = va + (pos - s->base);
	*avail = len - (pos - s->base);
	return 0;
}

static void fault_count(struct odp_dev *dev, struct odp_mr *mr, int pages)
{
	/* as mlx5 has it: pages, and events */
	if (mr) {
		atomic64_add(pages, &mr->faults);
		atomic64_inc(&mr->faults_handled);
	}
	odp_count(dev, ODP_CNT_FAULTS, pages);
	odp_count(dev, ODP_CNT_FAULTS_HANDLED, 1);
}

static void fault_work(struct work_struct *work)
{
	struct odp_fault *f = container_of(work, struct odp_fault, work);
	unsigned int tries = 0;
	struct odp_mr *mr;
	bool failed;
	int n;

	do {
		n = odp_mm_fault(f->mm, f->va, f->len, f->write, false);
		cond_resched();
		/* else the QP comes back for it */
	} while (n == -EAGAIN && ++tries < 16);

	if (n > 0) {
		mr = odp_mr_find(f->dev, f->pd, f->key, 0);
		fault_count(f->dev, mr, n);
		if (mr)
			odp_users_put(&mr->users);
	}
	failed = n < 0 && n != -EAGAIN;
	/* the next attempt finds that the peer is gone */
	if (n == -ESRCH && f->side != ODP_SIDE_LOCAL)
		failed = false;
	odp_qp_wake(f->qp, f->gen, failed);

	odp_qpc_put(f->qp);
	odp_mm_put(f->mm);
	put_device(&f->dev->ibdev.dev);
	kfree(f);
	/* the code of this function's tail is waited for by module exit */
	module_put(THIS_MODULE);
}

/**
 * odp_fault - see to a translation that is missing
 * @qp: whose operation needs it; the caller owns its send queue
 * @s: the stream, for the side, the counters and the key
 * @place: the first byte that has no translation
 * @len: bytes that will be needed from there
 * @write: they are going to be written
 * @budget: what the caller may still do before it lets others run
 *
 * Return: ODP_STEP_DONE: try again now; ODP_STEP_WAIT: a worker sees to it
 * and wakes @qp; ODP_STEP_LATER; ODP_STEP_NO_PEER.
 */
enum odp_step odp_fault(struct odp_qpc *qp, struct odp_stream *s,
			struct odp_place *place, u64 len, bool write,
			long *budget)
{
	struct odp_fault *f;
	int n;

	/* most pages are there for the CPU already: no worker needed */
	n = odp_mm_fault(place->mr->mm, place->va, len, write, true);
	if (n > 0) {
		fault_count(s->qp->dev, place->mr, n);
		*budget -= n * 256;
		return ODP_STEP_DONE;
	}
	/* a process that ends loses its memory before its QPs: a lost peer */
	if (n == -ESRCH && s->side != ODP_SIDE_LOCAL)
		return ODP_STEP_NO_PEER;

	f = kzalloc_obj(*f, GFP_KERNEL_ACCOUNT);
	if (!f)
		return ODP_STEP_LATER;
	INIT_WORK(&f->work, fault_work);
	f->dev = s->qp->dev;
	f->qp = qp;
	f->mm = place->mr->mm;
	f->va = place->va;
	f->len = len;
	f->write = write;
	f->pd = s->qp->pd;
	f->key = place->mr->key;
	f->side = s->side;
	qp->miss_side = s->side;
	if (!odp_qp_wait(qp, ODP_WAIT_FAULT, &f->gen)) {
		kfree(f);
		return ODP_STEP_AGAIN;
	}
	__module_get(THIS_MODULE);
	/* rdma_rxe's exit can take the device away under us */
	get_device(&f->dev->ibdev.dev);
	kref_get(&qp->ref);
	kref_get(&f->mm->ref);
	odp_count(f->dev, ODP_CNT_FAULTS_SLOW, 1);
	queue_work(f->mm->wq, &f->work);
	return ODP_STEP_WAIT;
}

/**
 * odp_move - move bytes from one stream to another
 * @qp: whose operation it is; the caller owns its send queue
 * @dst: where to
 * @src: where from
 * @total: bytes of the whole operation
 * @done: bytes moved already; advanced
 * @budget: bytes this caller may still move; reduced
 * @bad: result with ODP_STEP_ERROR: the side that may not be accessed
 *
 * Return: ODP_STEP_DONE when @done has reached @total, or why not.
 */
enum odp_step odp_move(struct odp_qpc *qp, struct odp_stream *dst,
		       struct odp_stream *src, u64 total, u64 *done,
		       long *budget, enum odp_side *bad)
{
	enum odp_step step = ODP_STEP_DONE;

	while (*done < total && step == ODP_STEP_DONE) {
		struct odp_place d, s;
		u64 davail, savail;
		size_t copied;

		if (*budget <= 0) {
			step = ODP_STEP_AGAIN;
			break;
		}
		/* the requester's own mistakes come first */
		if (odp_stream_map(src, *done, &s, &savail)) {
			*bad = src->side;
			step = ODP_STEP_ERROR;
			break;
		}
		if (odp_stream_map(dst, *done, &d, &davail)) {
			*bad = dst->side;
			step = ODP_STEP_ERROR;
			break;
		}
		savail = min3(savail, davail, total - *done);
		switch (odp_copy(&d, &s, savail, &copied)) {
		case ODP_COPY_OK:
			*done += copied;
			*budget -= copied;
			cond_resched();
			break;
		case ODP_COPY_MISS_DST:
			step = odp_fault(qp, dst, &d, savail, true, budget);
			break;
		case ODP_COPY_MISS_SRC:
			step = odp_fault(qp, src, &s, savail, false, budget);
			break;
		}
	}
	odp_stream_close(dst);
	odp_stream_close(src);
	return step;
}
