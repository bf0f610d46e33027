/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Work queue entries as librxe writes them (include/uapi/rdma/rdma_user_rxe.h),
 * decoded from memory that the user can change at any moment: every field is
 * read exactly once, then judged.
 */
#ifndef RDMA_ODP_WQE_H
#define RDMA_ODP_WQE_H

#include "pure.h"

#define ODP_MAX_SGE		32
#define ODP_MAX_INLINE		1024
#define ODP_MAX_MSG		(1ULL << 31)
#define ODP_UD_MTU		4096
#define ODP_GRH_LEN		40

enum odp_wqe_error {
	ODP_WQE_OK = 0,
	ODP_WQE_BAD_OPCODE,	/* not for this kind of QP, or unknown */
	ODP_WQE_BAD_SGE,	/* more SGEs or inline bytes than the QP has */
	ODP_WQE_BAD_LENGTH,	/* longer than a message may be */
};

enum odp_transport {
	ODP_RC,
	ODP_UC,
	ODP_UD,
};

/**
 * struct odp_wqe_limits - what the QP was created with
 * @max_sge: SGEs a WQE may have
 * @max_inline: inline bytes a WQE may have
 * @transport: decides the opcodes, and the length: a datagram fits the MTU
 */
struct odp_wqe_limits {
	u32 max_sge;
	u32 max_inline;
	enum odp_transport transport;
};

/**
 * struct odp_sgl - data of a WQE: a gather/scatter list, or inline bytes
 * @length: sum of the lengths, computed here and never taken from the ring
 * @num_sge: entries in @sge; 0 when @is_inline
 * @is_inline: the bytes are in @data
 * @sge: the list
 * @data: the inline bytes
 */
struct odp_sgl {
	u64 length;
	u32 num_sge;
	bool is_inline;
	union {
		struct rxe_sge sge[ODP_MAX_SGE];
		u8 data[ODP_MAX_INLINE];
	};
};

/**
 * struct odp_send_wqe - a decoded send work request
 * @wr_id: cookie for the completion
 * @opcode: enum ib_uverbs_wr_opcode
 * @send_flags: IB_SEND_* bits, unknown ones cleared by use
 * @imm: immediate data, as sent
 * @inv_rkey: the key that SEND_WITH_INV and LOCAL_INV invalidate
 * @remote_addr: RDMA, atomics and FLUSH
 * @rkey: RDMA, atomics and FLUSH; BIND_MW: the window's key afterwards
 * @compare_add: atomics
 * @swap: atomics
 * @flush_len: bytes
 * @flush_type: IB_FLUSH_* bits
 * @flush_level: IB_FLUSH_RANGE or IB_FLUSH_MR
 * @mw_addr: BIND_MW: the window's first byte
 * @mw_len: BIND_MW: its bytes; 0 takes the binding away
 * @mw_lkey: BIND_MW: the MR to bind to
 * @mw_rkey: BIND_MW: the window's key before
 * @mw_access: BIND_MW: IB_ACCESS_REMOTE_* and IB_ZERO_BASED
 * @remote_qpn: UD
 * @remote_qkey: UD
 * @ah_num: UD
 * @sgl: the data
 */
struct odp_send_wqe {
	u64 wr_id;
	u32 opcode;
	u32 send_flags;
	__be32 imm;
	u32 inv_rkey;
	u64 remote_addr;
	u32 rkey;
	union {
		struct {
			u64 compare_add;
			u64 swap;
		};
		struct {
			u32 flush_len;
			u8 flush_type;
			u8 flush_level;
		};
		struct {
			u64 mw_addr;
			u64 mw_len;
			u32 mw_lkey;
			u32 mw_rkey;
			u32 mw_access;
		};
	};
	u32 remote_qpn;
	u32 remote_qkey;
	u32 ah_num;
	struct odp_sgl sgl;
};

/**
 * struct odp_recv_wqe - a decoded receive work request
 * @wr_id: cookie for the completion
 * @sgl: where the message goes
 */
struct odp_recv_wqe {
	u64 wr_id;
	struct odp_sgl sgl;
};

enum odp_wqe_error odp_wqe_fetch_send(const void *slot,
				      const struct odp_wqe_limits *lim,
				      struct odp_send_wqe *wqe);
enum odp_wqe_error odp_wqe_fetch_recv(const void *slot, u32 max_sge,
				      struct odp_recv_wqe *wqe);
u32 odp_wqe_send_slot(u32 max_sge, u32 max_inline);
u32 odp_wqe_recv_slot(u32 max_sge);

#endif
