// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The other end of a connection */

#include "qp.h"

static bool addresses_us(struct odp_dev *dev, const struct rdma_ah_attr *ah)
{
	union ib_gid gid;

	if (!(rdma_ah_get_ah_flags(ah) & IB_AH_GRH))
		return rdma_ah_get_dlid(ah) == ODP_LID;
	odp_dev_gid(dev, &gid);
	return !memcmp(&gid, &rdma_ah_read_grh(ah)->dgid, sizeof(gid));
}

/**
 * odp_peer_get - the QP at the other end, if it listens to us
 * @qp: a connected QP; the caller owns its send queue
 *
 * All QPs share one port, so a QPN alone would let any user aim at any QP:
 * each end has to name the other, and the PSNs have to fit.
 *
 * Return: the QP, to be released with odp_users_put(&peer->users) within a
 * bounded time; or NULL.
 */
struct odp_qpc *odp_peer_get(struct odp_qpc *qp)
{
	struct odp_qpc *peer;
	bool ok, first;

	if (!addresses_us(qp->dev, &qp->attr.ah_attr))
		return NULL;
	peer = odp_qp_find(qp->dev, qp->attr.dest_qp_num);
	if (!peer)
		return NULL;
	spin_lock(&peer->lock);
	ok = peer->type == qp->type && odp_can_receive(peer->state) &&
	     peer->attr.dest_qp_num == qp->qpn &&
	     peer->attr.rq_psn == qp->attr.sq_psn &&
	     addresses_us(peer->dev, &peer->attr.ah_attr);
	first = ok && peer->state == IB_QPS_RTR && !peer->comm_est;
	if (first)
		peer->comm_est = true;
	spin_unlock(&peer->lock);
	if (first)
		odp_qp_event(peer, IB_EVENT_COMM_EST);
	if (ok)
		return peer;
	odp_users_put(&peer->users);
	return NULL;
}

/**
 * odp_peer_wake - tell the RC QP at the other end to try again now
 * @qp: has become ready to receive
 */
void odp_peer_wake(struct odp_qpc *qp)
{
	struct odp_qpc *peer;
	u32 dest;
	bool ok;

	spin_lock(&qp->lock);
	dest = qp->attr.dest_qp_num;
	spin_unlock(&qp->lock);
	if (qp->type != IB_QPT_RC)
		return;
	peer = odp_qp_find(qp->dev, dest);
	if (!peer)
		return;
	spin_lock(&peer->lock);
	/* nobody else's timers are to be had */
	ok = peer->type == IB_QPT_RC && peer->attr.dest_qp_num == qp->qpn &&
	     peer->wait == ODP_WAIT_TIMER;
	spin_unlock(&peer->lock);
	if (ok)
		mod_delayed_work(odp_wq, &peer->timer, 0);
	odp_users_put(&peer->users);
}
