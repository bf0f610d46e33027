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

/* IBA 1.4, table 48, and what came after: operations of each transport */
static enum odp_wqe_error check_opcode(u32 opcode, enum odp_transport transport)
{
	bool ok;

	switch (opcode) {
	case IB_UVERBS_WR_SEND:
	case IB_UVERBS_WR_SEND_WITH_IMM:
		ok = true;
		break;
	case IB_UVERBS_WR_SEND_WITH_INV:
	case IB_UVERBS_WR_RDMA_WRITE:
	case IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
	case IB_UVERBS_WR_BIND_MW:
	case IB_UVERBS_WR_LOCAL_INV:
		ok = transport == ODP_RC || transport == ODP_UC;
		break;
	case IB_UVERBS_WR_RDMA_READ:
	case IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
	case IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
	case IB_UVERBS_WR_ATOMIC_WRITE:
	case IB_UVERBS_WR_FLUSH:
		ok = transport == ODP_RC;
		break;
	default:
		ok = false;
	}
	return ok ? ODP_WQE_OK : ODP_WQE_BAD_OPCODE;
}

static bool is_atomic(u32 opcode)
{
	return opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
}

/* Where the operation goes to, by the fields of its opcode */
static void decode_target(const struct rxe_send_wr *wr, bool ud,
			  struct odp_send_wqe *wqe)
{
	switch (wqe->opcode) {
	case IB_UVERBS_WR_SEND:
	case IB_UVERBS_WR_SEND_WITH_IMM:
		if (ud) {
			wqe->remote_qpn = wr->wr.ud.remote_qpn;
			wqe->remote_qkey = wr->wr.ud.remote_qkey;
			wqe->ah_num = wr->wr.ud.ah_num;
		}
		break;
	case IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
	case IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
		break;
	case IB_UVERBS_WR_FLUSH:
		wqe->remote_addr = wr->wr.flush.remote_addr;
		wqe->rkey = wr->wr.flush.rkey;
		wqe->flush_type = wr->wr.flush.type;
		wqe->flush_level = wr->wr.flush.level;
		break;
	case IB_UVERBS_WR_BIND_MW:
		wqe->mw_addr = wr->wr.mw.addr;
		wqe->mw_len = wr->wr.mw.length;
		wqe->mw_lkey = wr->wr.mw.mr_lkey;
		wqe->mw_rkey = wr->wr.mw.mw_rkey;
		wqe->mw_access = wr->wr.mw.access;
		wqe->rkey = wr->wr.mw.rkey;
		break;
	default:
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
}

static enum odp_wqe_error fetch_inline(struct odp_sgl *sgl, const void *from,
				       u32 len, u32 max_inline)
{
	if (len > max_inline || len > ODP_MAX_INLINE)
		return ODP_WQE_BAD_SGE;
	snapshot(sgl->data, from, len);
	sgl->length = len;
	sgl->is_inline = true;
	return ODP_WQE_OK;
}

/* The data that goes out, or the places where it comes back */
static enum odp_wqe_error fetch_data(const struct rxe_dma_info *dma,
				     const void *payload,
				     const struct odp_wqe_limits *lim,
				     struct odp_send_wqe *wqe)
{
	bool is_inline = wqe->send_flags & ODP_SEND_INLINE;

	switch (wqe->opcode) {
	case IB_UVERBS_WR_BIND_MW:
	case IB_UVERBS_WR_LOCAL_INV:
		return ODP_WQE_OK;
	case IB_UVERBS_WR_FLUSH:
		/* librxe has the range's length here and nowhere else */
		wqe->flush_len = dma->length;
		return ODP_WQE_OK;
	case IB_UVERBS_WR_ATOMIC_WRITE:
		/* the slot has room for more than eight bytes in any case */
		return fetch_inline(&wqe->sgl, payload, sizeof(u64),
				    sizeof(u64));
	case IB_UVERBS_WR_RDMA_READ:
	case IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:
	case IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		/* data that comes back can't be inline */
		if (is_inline)
			return ODP_WQE_BAD_OPCODE;
		break;
	}
	if (is_inline)
		return fetch_inline(&wqe->sgl, payload, dma->length,
				    lim->max_inline);
	return fetch_sges(&wqe->sgl, payload, dma->num_sge, lim->max_sge);
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
	bool ud = lim->transport == ODP_UD;
	struct rxe_send_wqe hdr;
	enum odp_wqe_error err;
	u64 max_len;

	snapshot(&hdr, slot, SEND_HDR);

	wqe->wr_id = hdr.wr.wr_id;
	wqe->opcode = hdr.wr.opcode;
	wqe->send_flags = hdr.wr.send_flags;
	wqe->imm = hdr.wr.ex.imm_data;
	wqe->inv_rkey = hdr.wr.ex.invalidate_rkey;
	wqe->sgl.length = 0;
	wqe->sgl.num_sge = 0;
	wqe->sgl.is_inline = false;

	err = check_opcode(wqe->opcode, lim->transport);
	if (err)
		return err;
	decode_target(&hdr.wr, ud, wqe);
	err = fetch_data(&hdr.dma, payload, lim, wqe);
	if (err)
		return err;

	if (is_atomic(wqe->opcode))
		return wqe->sgl.length >= sizeof(u64) ? ODP_WQE_OK :
							ODP_WQE_BAD_LENGTH;
	max_len = ud ? ODP_UD_MTU : ODP_MAX_MSG;
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
