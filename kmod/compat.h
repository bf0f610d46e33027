/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The differences between the kernels that are supported, and nothing else. */
#ifndef RDMA_ODP_COMPAT_H
#define RDMA_ODP_COMPAT_H

#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/uverbs_ioctl.h>

/* Kbuild looks at the headers, as distributions backport such changes */
#ifdef ODP_HAVE_IB_UMEM_GET_VA
#define odp_umem_get(dev, addr, size, access) \
	ib_umem_get_va(dev, addr, size, access)
#else
#define odp_umem_get(dev, addr, size, access) \
	ib_umem_get(dev, addr, size, access)
#endif

#ifdef ODP_HAVE_REG_MR_DMAH
#define ODP_REG_MR_ARGS struct ib_dmah *dmah, struct ib_udata *udata
#define odp_reg_mr_unsupported() (!!dmah)
#else
#define ODP_REG_MR_ARGS struct ib_udata *udata
#define odp_reg_mr_unsupported() (false)
#endif

#ifdef ODP_HAVE_RESIZE_USER_CQ
#define ODP_RESIZE_CQ_OP resize_user_cq
#define ODP_RESIZE_CQE unsigned int
#else
#define ODP_RESIZE_CQ_OP resize_cq
#define ODP_RESIZE_CQE int
#endif

#ifndef ODP_HAVE_ODP_FLUSH_CAP
/* include/uapi/rdma/ib_user_verbs.h of later kernels; passed on as they are */
#define IB_ODP_SUPPORT_FLUSH		(1U << 6)
#define IB_ODP_SUPPORT_ATOMIC_WRITE	(1U << 7)
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(obj, gfp) kzalloc(sizeof(obj), gfp)
#endif

/**
 * odp_respond - answer a verb's driver part
 * @udata: NULL from inside the kernel
 * @resp: the response
 * @len: its size; what the caller has no room for is cut, as uverbs has it
 */
static inline int odp_respond(struct ib_udata *udata, const void *resp,
			      size_t len)
{
	if (!udata)
		return 0;
	return ib_copy_to_udata(udata, (void *)resp, min(len, udata->outlen));
}

#endif
