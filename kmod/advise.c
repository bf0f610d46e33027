// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ibv_advise_mr(3): pages of ODP MRs, faulted in before they are needed */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "mem.h"

/* Nothing here holds an MR: deregistration needn't wait for faults */
struct odp_prefetch {
	struct work_struct work;
	struct odp_dev *dev;
	struct odp_mm *mm;
	struct ib_pd *pd;		/* for comparing only */
	bool write;
	bool nowait;
	u32 num;
	struct {
		u64 va;
		u64 len;
		u32 key;
	} range[] __counted_by(num);
};

static void count(struct odp_prefetch *p, u32 key, int pages)
{
	struct odp_mr *mr = odp_mr_find(p->dev, p->pd, key, 0);

	if (!mr)
		return;
	atomic64_add(pages, &mr->prefetched);
	odp_users_put(&mr->users);
}

/* One range; pages that can't be had at once are left out with @nowait */
static int fault_in(struct odp_prefetch *p, u64 va, u64 len, u32 key)
{
	unsigned int tries = 0;

	while (len) {
		u64 step;
		int n;

		if (fatal_signal_pending(current))
			return -EINTR;
		n = odp_mm_fault(p->mm, va, len, p->write, p->nowait);
		if (n == -EAGAIN && !p->nowait && ++tries < 100)
			continue;
		if (n < 0 && !p->nowait)
			return n;
		if (n > 0)
			count(p, key, n);
		tries = 0;
		/* past what was had, or past the one page that wasn't */
		step = (u64)max(n, 1) * PAGE_SIZE - offset_in_page(va);
		step = min(len, step);
		va += step;
		len -= step;
		cond_resched();
	}
	return 0;
}

static int fault_in_all(struct odp_prefetch *p)
{
	int err = 0;
	u32 i;

	for (i = 0; i < p->num && !err; i++)
		err = fault_in(p, p->range[i].va, p->range[i].len,
			       p->range[i].key);
	return err;
}

static void prefetch_free(struct odp_prefetch *p)
{
	if (p->mm)
		odp_mm_put(p->mm);
	kvfree(p);
}

static void prefetch_work(struct work_struct *work)
{
	struct odp_prefetch *p = container_of(work, struct odp_prefetch, work);
	struct device *dev = &p->dev->ibdev.dev;

	/* advice only: whoever uses the pages learns what is wrong with them */
	fault_in_all(p);
	prefetch_free(p);
	put_device(dev);
	/* the code of this function's tail is waited for by module exit */
	module_put(THIS_MODULE);
}

/* Check one range of the advice, all of which must be the caller's memory */
static int check_range(struct odp_prefetch *p, struct ib_pd *pd,
		       const struct ib_sge *sge)
{
	struct odp_mr *mr;
	int err = 0;
	u64 va;

	mr = odp_mr_get(p->dev, sge->lkey);
	if (!mr)
		return -ENOENT;
	if (mr->pd != pd ||
	    (p->write && !(mr->access & IB_ACCESS_LOCAL_WRITE)))
		err = -EPERM;
	else if (!mr->mm || odp_mr_va(mr, sge->addr, sge->length, &va))
		err = -EINVAL;
	else if (mr->mm->mm != current->mm)
		/* no waiting for faults in others' memory */
		err = -EPERM;
	if (!err) {
		if (!p->mm) {
			p->mm = mr->mm;
			kref_get(&p->mm->ref);
		}
		p->range[p->num].va = va;
		p->range[p->num].len = sge->length;
		p->range[p->num].key = sge->lkey;
		p->num++;
	}
	odp_users_put(&mr->users);
	return err;
}

int odp_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
		  u32 flags, struct ib_sge *sg_list, u32 num_sge,
		  struct uverbs_attr_bundle *attrs)
{
	struct odp_prefetch *p;
	int err = 0;
	u32 i;

	if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
	    flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EOPNOTSUPP;
	p = kvzalloc(struct_size(p, range, num_sge), GFP_KERNEL_ACCOUNT);
	if (!p)
		return -ENOMEM;
	p->dev = to_odp_dev(pd->device);
	p->pd = pd;
	p->write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	p->nowait = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	for (i = 0; i < num_sge && !err; i++)
		err = check_range(p, pd, &sg_list[i]);
	if (err || !p->mm || (flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH)) {
		if (!err)
			err = fault_in_all(p);
		prefetch_free(p);
		return err;
	}
	INIT_WORK(&p->work, prefetch_work);
	__module_get(THIS_MODULE);
	get_device(&p->dev->ibdev.dev);
	queue_work(p->mm->wq, &p->work);
	return 0;
}
