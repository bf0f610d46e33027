/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Range checks that cannot wrap, whatever a user puts into the numbers. */
#ifndef RDMA_ODP_RANGE_H
#define RDMA_ODP_RANGE_H

#include "pure.h"

/**
 * odp_range_inside - is [addr, addr + len) inside [base, base + size)?
 * @base: start of the outer range
 * @size: bytes in the outer range; base + size may be up to 2^64
 * @addr: start of the inner range
 * @len: bytes in the inner range
 *
 * An empty inner range is inside when @addr is inside or just at the end.
 */
static inline bool odp_range_inside(u64 base, u64 size, u64 addr, u64 len)
{
	return addr >= base && len <= size && addr - base <= size - len;
}

/**
 * odp_range_overlaps - do two half-open ranges share a byte?
 * @a: first byte of the first range
 * @a_end: first byte after it
 * @b: first byte of the second range
 * @b_end: first byte after it
 */
static inline bool odp_range_overlaps(u64 a, u64 a_end, u64 b, u64 b_end)
{
	return a < b_end && b < a_end;
}

#endif
