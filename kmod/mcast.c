// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Multicast groups of datagram QPs */

#include <linux/slab.h>

#include "qp.h"

/* One QP in one group; few enough to look through */
struct odp_member {
	struct list_head list;
	union ib_gid mgid;
	u32 qpn;
};

static bool is_of(const struct odp_member *m, const union ib_gid *mgid)
{
	return !memcmp(&m->mgid, mgid, sizeof(*mgid));
}

static struct odp_member *find(struct odp_dev *dev, const union ib_gid *mgid,
			       u32 qpn)
{
	struct odp_member *m;

	list_for_each_entry(m, &dev->members, list)
		if (m->qpn == qpn && is_of(m, mgid))
			return m;
	return NULL;
}

int odp_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid)
{
	struct odp_dev *dev = to_odp_dev(ibqp->device);
	struct odp_member *m;
	int err = 0;

	m = kzalloc_obj(*m, GFP_KERNEL_ACCOUNT);
	if (!m)
		return -ENOMEM;
	m->mgid = *mgid;
	m->qpn = ibqp->qp_num;

	write_lock(&dev->members_lock);
	if (dev->num_members == ODP_MAX_MCAST_ATTACH)
		err = -ENOSPC;
	else if (find(dev, mgid, m->qpn))
		/* once more is the same as once, to the caller */
		err = -EEXIST;
	if (!err) {
		list_add_tail(&m->list, &dev->members);
		dev->num_members++;
		m = NULL;
	}
	write_unlock(&dev->members_lock);
	kfree(m);
	return err == -EEXIST ? 0 : err;
}

int odp_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid)
{
	struct odp_dev *dev = to_odp_dev(ibqp->device);
	struct odp_member *m;

	write_lock(&dev->members_lock);
	m = find(dev, mgid, ibqp->qp_num);
	if (m) {
		list_del(&m->list);
		dev->num_members--;
	}
	write_unlock(&dev->members_lock);
	kfree(m);
	return m ? 0 : -EINVAL;
}

/**
 * odp_mcast_next - the next member of a group
 * @dev: the device
 * @mgid: the group
 * @from: QPN to begin with; result: that of the member
 *
 * In the order of QPNs, so that members can come and go between two calls.
 * Return: its QP, to be released with odp_users_put(&qp->users) within a
 * bounded time; or NULL when there are no more.
 */
struct odp_qpc *odp_mcast_next(struct odp_dev *dev, const union ib_gid *mgid,
			       u32 *from)
{
	struct odp_qpc *qp = NULL;
	struct odp_member *m;
	u32 next;

	do {
		next = U32_MAX;
		read_lock(&dev->members_lock);
		list_for_each_entry(m, &dev->members, list)
			if (m->qpn >= *from && m->qpn < next && is_of(m, mgid))
				next = m->qpn;
		read_unlock(&dev->members_lock);
		if (next == U32_MAX)
			break;
		qp = odp_qp_find(dev, next);
		*from = qp ? next : next + 1;
	} while (!qp);
	return qp;
}
