// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Device, port, context, PD and AH verbs, and the table of all of them */

#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "qp.h"

#define ODP_PKEY	0xffff	/* the default partition, full member */
#define ODP_GID_TBL_LEN	8	/* the first is ours, the others are empty */

#define ODP_UD_CAPS (IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |	\
		     IB_ODP_SUPPORT_SRQ_RECV)
#define ODP_UC_CAPS (ODP_UD_CAPS | IB_ODP_SUPPORT_WRITE)
#define ODP_RC_CAPS (ODP_UC_CAPS | IB_ODP_SUPPORT_READ |			\
		     IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_FLUSH |	\
		     IB_ODP_SUPPORT_ATOMIC_WRITE)

static int odp_query_device(struct ib_device *ibdev,
			    struct ib_device_attr *attr, struct ib_udata *udata)
{
	struct odp_dev *dev = to_odp_dev(ibdev);

	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 1ULL << 32;
	attr->sys_image_guid = cpu_to_be64(dev->guid);
	attr->max_mr_size = U64_MAX;
	attr->page_size_cap = PAGE_SIZE;
	attr->vendor_id = ODP_VENDOR_ID;
	attr->hw_ver = 1;
	attr->max_qp = ODP_MAX_QP;
	attr->max_qp_wr = ODP_MAX_WR - 1;
	attr->device_cap_flags = IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_CURR_QP_STATE_MOD |
				 IB_DEVICE_UD_AV_PORT_ENFORCE |
				 IB_DEVICE_SRQ_RESIZE |
				 IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MEM_WINDOW_TYPE_2B |
				 IB_DEVICE_MEM_MGT_EXTENSIONS |
				 IB_DEVICE_ATOMIC_WRITE |
				 IB_DEVICE_FLUSH_GLOBAL;
	attr->kernel_cap_flags = IBK_ON_DEMAND_PAGING;
	attr->max_send_sge = ODP_MAX_SGE;
	attr->max_recv_sge = ODP_MAX_SGE;
	attr->max_sge_rd = ODP_MAX_SGE;
	attr->max_cq = ODP_MAX_CQ;
	attr->max_cqe = ODP_MAX_CQE - 1;
	attr->max_mr = ODP_MAX_MR;
	attr->max_pd = ODP_MAX_PD;
	attr->max_qp_rd_atom = ODP_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = ODP_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = ODP_MAX_RD_ATOMIC;
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->masked_atomic_cap = IB_ATOMIC_NONE;
	attr->max_ah = ODP_MAX_AH;
	attr->max_mw = ODP_MAX_MR;
	attr->max_srq = ODP_MAX_SRQ;
	attr->max_srq_wr = ODP_MAX_WR - 1;
	attr->max_srq_sge = ODP_MAX_SGE;
	attr->max_mcast_grp = ODP_MAX_MCAST_ATTACH;
	attr->max_mcast_qp_attach = ODP_MAX_MCAST_ATTACH;
	attr->max_total_mcast_qp_attach = ODP_MAX_MCAST_ATTACH;
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	attr->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = ODP_RC_CAPS;
	attr->odp_caps.per_transport_caps.uc_odp_caps = ODP_UC_CAPS;
	attr->odp_caps.per_transport_caps.ud_odp_caps = ODP_UD_CAPS;
	return 0;
}

static int odp_query_port(struct ib_device *ibdev, u32 port,
			  struct ib_port_attr *attr)
{
	if (port != 1)
		return -EINVAL;
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = ODP_GID_TBL_LEN;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = ODP_MAX_MSG;
	attr->lid = ODP_LID;
	attr->sm_lid = ODP_LID;
	attr->max_vl_num = 1;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_HDR;
	return 0;
}

static int odp_get_port_immutable(struct ib_device *ibdev, u32 port,
				  struct ib_port_immutable *immutable)
{
	/* no MADs, no CM: what talks to us is verbs only */
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_IB;
	immutable->gid_tbl_len = ODP_GID_TBL_LEN;
	immutable->pkey_tbl_len = 1;
	immutable->max_mad_size = 0;
	return 0;
}

static enum rdma_link_layer odp_get_link_layer(struct ib_device *ibdev,
					       u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

/**
 * odp_dev_gid - the only GID of a device's port
 * @dev: the device
 * @gid: result, link-local prefix and the port GUID
 */
void odp_dev_gid(struct odp_dev *dev, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = cpu_to_be64(dev->guid);
}

static int odp_query_gid(struct ib_device *ibdev, u32 port, int index,
			 union ib_gid *gid)
{
	if (port != 1 || index < 0 || index >= ODP_GID_TBL_LEN)
		return -EINVAL;
	if (index)
		memset(gid, 0, sizeof(*gid));
	else
		odp_dev_gid(to_odp_dev(ibdev), gid);
	return 0;
}

static int odp_query_pkey(struct ib_device *ibdev, u32 port, u16 index,
			  u16 *pkey)
{
	if (port != 1 || index)
		return -EINVAL;
	*pkey = ODP_PKEY;
	return 0;
}

static int odp_alloc_ucontext(struct ib_ucontext *ctx, struct ib_udata *udata)
{
	return 0;
}

static void odp_dealloc_ucontext(struct ib_ucontext *ctx)
{
}

static void odp_disassociate_ucontext(struct ib_ucontext *ctx)
{
	/* rings are plain memory: mappings of them can stay */
}

static int odp_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int odp_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static struct odp_ah *to_odp_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct odp_ah, ibah);
}

static int odp_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
			 struct ib_udata *udata)
{
	struct odp_dev *dev = to_odp_dev(ibah->device);
	const struct rdma_ah_attr *attr = init->ah_attr;
	struct odp_ah *ah = to_odp_ah(ibah);
	struct rxe_create_ah_resp resp = {};
	struct odp_av *av;
	int err;

	if (!udata || udata->outlen < sizeof(resp))
		return -EINVAL;
	if (rdma_ah_get_port_num(attr) != 1)
		return -EINVAL;
	av = kzalloc_obj(*av, GFP_KERNEL_ACCOUNT);
	if (!av)
		return -ENOMEM;
	av->pd = ibah->pd;
	av->dlid = rdma_ah_get_dlid(attr);
	av->sl = rdma_ah_get_sl(attr);
	if (rdma_ah_get_ah_flags(attr) & IB_AH_GRH) {
		av->has_grh = true;
		av->dgid = rdma_ah_read_grh(attr)->dgid;
	}
	/* 0 would tell librxe that we know no AH numbers */
	err = xa_alloc_cyclic(&dev->ahs, &ah->num, av,
			      XA_LIMIT(1, ODP_MAX_AH), &dev->next_ah,
			      GFP_KERNEL_ACCOUNT);
	if (err < 0) {
		kfree(av);
		return err;
	}
	ah->attr = *attr;
	ah->attr.grh.sgid_attr = NULL;
	resp.ah_num = ah->num;
	err = odp_respond(udata, &resp, sizeof(resp));
	if (err) {
		xa_erase(&dev->ahs, ah->num);
		kfree_rcu(av, rcu);
	}
	return err;
}

static int odp_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_odp_ah(ibah)->attr;
	return 0;
}

static int odp_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct odp_dev *dev = to_odp_dev(ibah->device);
	struct odp_av *av = xa_erase(&dev->ahs, to_odp_ah(ibah)->num);

	kfree_rcu(av, rcu);
	return 0;
}

const struct ib_device_ops odp_dev_ops = {
	.owner = THIS_MODULE,
	/*
	 * uverbs compares this with what the provider says.  Speaking rxe's
	 * uABI under its id is what lets an unmodified librxe drive us.
	 */
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = ODP_ABI_VERSION,

	.advise_mr = odp_advise_mr,
	.alloc_hw_port_stats = odp_alloc_hw_stats,
	.alloc_mw = odp_alloc_mw,
	.alloc_pd = odp_alloc_pd,
	.alloc_ucontext = odp_alloc_ucontext,
	.attach_mcast = odp_attach_mcast,
	.create_ah = odp_create_ah,
	.create_cq = odp_create_cq,
	.create_qp = odp_create_qp,
	.create_srq = odp_create_srq,
	.create_user_ah = odp_create_ah,
	.dealloc_driver = odp_dealloc_driver,
	.dealloc_mw = odp_dealloc_mw,
	.dealloc_pd = odp_dealloc_pd,
	.dealloc_ucontext = odp_dealloc_ucontext,
	.dereg_mr = odp_dereg_mr,
	.destroy_ah = odp_destroy_ah,
	.destroy_cq = odp_destroy_cq,
	.destroy_qp = odp_destroy_qp,
	.destroy_srq = odp_destroy_srq,
	.detach_mcast = odp_detach_mcast,
	.disassociate_ucontext = odp_disassociate_ucontext,
	.fill_res_mr_entry = odp_fill_res_mr_entry,
	.fill_stat_mr_entry = odp_fill_stat_mr_entry,
	.get_hw_stats = odp_get_hw_stats,
	.get_link_layer = odp_get_link_layer,
	.get_port_immutable = odp_get_port_immutable,
	.mmap = odp_mmap,
	.mmap_free = odp_mmap_free,
	.modify_qp = odp_modify_qp,
	.modify_srq = odp_modify_srq,
	.post_send = odp_post_send,
	.query_ah = odp_query_ah,
	.query_device = odp_query_device,
	.query_gid = odp_query_gid,
	.query_pkey = odp_query_pkey,
	.query_port = odp_query_port,
	.query_qp = odp_query_qp,
	.query_srq = odp_query_srq,
	.reg_user_mr = odp_reg_user_mr,
	.req_notify_cq = odp_req_notify_cq,
	.ODP_RESIZE_CQ_OP = odp_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, odp_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, odp_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, odp_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, odp_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, odp_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, odp_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, odp_ucontext, ibuc),
};
