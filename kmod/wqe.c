// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Decoding of send and receive WQEs; also built in user space for tests. */

#include "wqe.h"

/* IB_SEND_INLINE, IBV_SEND_INLINE: not in the uAPI headers, yet the same bit */
#define ODP_SEND_INLINE		(1U << 3)

#define SEND_HDR		sizeof(struct rxe_send_wqe)
#define RECV_HDR		sizeof(struct rxe_recv_wqe)

/*
 * A single pass over the shared memory. The barriers keep the compiler from
 * going back to the slot for a field that has been judged already.
 */
static void snapshot(void *to, const void *from, size_t len)
{
	barrier();
	memcpy(to, from, len);
	barrier();
}

static u32 slot_size(u32 bytes)
{
	u32 size = 64;

	while (size < bytes)
		size <<= 1;
	return size;
}

/**
 * odp_wqe_send_slot - bytes of a send ring slot; a power of two
 * @max_sge: at most ODP_MAX_SGE
 * @max_inline: at most ODP_MAX_INLINE
 */
u32 odp_wqe_send_slot(u32 max_sge, u32 max_inline)
{
	u32 sge_bytes = max_sge * sizeof(struct rxe_sge);

	return slot_size(SEND_HDR +
			 (sge_bytes > max_inline ? sge_bytes : max_inline));
}

/**
 * odp_wqe_recv_slot - bytes of a receive ring slot; a power of two
 * @max_sge: at most ODP_MAX_SGE
 */
u32 odp_wqe_recv_slot(u32 max_sge)
{
	return slot_size(RECV_HDR + max_sge * sizeof(struct rxe_sge));
}

static enum odp_wqe_error fetch_sges(struct odp_sgl *sgl, const void *from,
				     u32 num_sge, u32 max_sge)
{
	u32 i;

	if (num_sge > max_sge || num_sge > ODP_MAX_SGE)
		return ODP_WQE_BAD_SGE;
	snapshot(sgl->sge, from, num_sge * sizeof(sgl->sge[0]));
	sgl->num_sge = num_sge;
	/* at most 32 * (2^32 - 1): no overflow */
	for (i = 0; i < num_sge; i++)
		sgl->length += sgl->sge[i].length;
	return sgl->length > ODP_MAX_MSG ? ODP_WQE_BAD_LENGTH : ODP_WQE_OK;
}

static enum odp_wqe_error check_opcode(u32 opcode, bool ud)
{
	switch (opcode) {
	case IB_UVERBS_WR_SEND:
	case IB_UVERBS_WR_SEND_WITH_IMM:
		return ODP_WQE_OK;
	case IB_UVERBS_WR_RDMA_WRITE:
	case IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
	case IB_UVERBS_WR_RDMA_READ:
	case IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
	case IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return ud ? ODP_WQE_BAD_OPCODE : ODP_WQE_OK;
	default:
		return ODP_WQE_BAD_OPCODE;
	}
}

static bool is_atomic(u32 opcode)
{
	return opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
}

/**
 * odp_wqe_fetch_send - take a send WQE out of its ring slot
 * @slot: the slot, odp_wqe_send_slot() bytes, writable by the user
 * @lim: the QP's limits
 * @wqe: result; @wqe->wr_id and @wqe->send_flags are valid also on error
 */
enum odp_wqe_error odp_wqe_fetch_send(const void *slot,
				      const struct odp_wqe_limits *lim,
				      struct odp_send_wqe *wqe)
{
	const u8 *payload = (const u8 *)slot + SEND_HDR;
	struct rxe_send_wqe hdr;
	enum odp_wqe_error err;
	u64 max_len;

	snapshot(&hdr, slot, SEND_HDR);

	wqe->wr_id = hdr.wr.wr_id;
	wqe->opcode = hdr.wr.opcode;
	wqe->send_flags = hdr.wr.send_flags;
	wqe->imm = hdr.wr.ex.imm_data;
	wqe->sgl.length = 0;
	wqe->sgl.num_sge = 0;
	wqe->sgl.is_inline = false;

	err = check_opcode(wqe->opcode, lim->ud);
	if (err)
		return err;

	if (lim->ud) {
		wqe->remote_qpn = hdr.wr.wr.ud.remote_qpn;
		wqe->remote_qkey = hdr.wr.wr.ud.remote_qkey;
		wqe->ah_num = hdr.wr.wr.ud.ah_num;
	} else if (is_atomic(wqe->opcode)) {
		wqe->remote_addr = hdr.wr.wr.atomic.remote_addr;
		wqe->rkey = hdr.wr.wr.atomic.rkey;
		wqe->compare_add = hdr.wr.wr.atomic.compare_add;
		wqe->swap = hdr.wr.wr.atomic.swap;
	} else {
		wqe->remote_addr = hdr.wr.wr.rdma.remote_addr;
		wqe->rkey = hdr.wr.wr.rdma.rkey;
	}

	if (wqe->send_flags & ODP_SEND_INLINE) {
		/* the data of a READ or an atomic comes back: never inline */
		if (wqe->opcode == IB_UVERBS_WR_RDMA_READ ||
		    is_atomic(wqe->opcode))
			return ODP_WQE_BAD_OPCODE;
		if (hdr.dma.length > lim->max_inline ||
		    hdr.dma.length > ODP_MAX_INLINE)
			return ODP_WQE_BAD_SGE;
		snapshot(wqe->sgl.data, payload, hdr.dma.length);
		wqe->sgl.length = hdr.dma.length;
		wqe->sgl.is_inline = true;
	} else {
		err = fetch_sges(&wqe->sgl, payload, hdr.dma.num_sge,
				 lim->max_sge);
		if (err)
			return err;
	}

	if (is_atomic(wqe->opcode))
		return wqe->sgl.length >= sizeof(u64) ? ODP_WQE_OK :
							ODP_WQE_BAD_LENGTH;
	max_len = lim->ud ? ODP_UD_MTU : ODP_MAX_MSG;
	return wqe->sgl.length > max_len ? ODP_WQE_BAD_LENGTH : ODP_WQE_OK;
}

/**
 * odp_wqe_fetch_recv - take a receive WQE out of its ring slot
 * @slot: the slot, odp_wqe_recv_slot() bytes, writable by the user
 * @max_sge: SGEs a WQE may have
 * @wqe: result; @wqe->wr_id is valid also on error
 */
enum odp_wqe_error odp_wqe_fetch_recv(const void *slot, u32 max_sge,
				      struct odp_recv_wqe *wqe)
{
	const u8 *payload = (const u8 *)slot + RECV_HDR;
	struct rxe_recv_wqe hdr;

	snapshot(&hdr, slot, RECV_HDR);
	wqe->wr_id = hdr.wr_id;
	wqe->sgl.length = 0;
	wqe->sgl.num_sge = 0;
	wqe->sgl.is_inline = false;
	return fetch_sges(&wqe->sgl, payload, hdr.dma.num_sge, max_sge);
}
