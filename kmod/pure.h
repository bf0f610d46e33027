/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the pure logic (wqe.c, range.h) needs from its surroundings, so that
 * the same source builds into the module and into user-space unit tests and
 * fuzzers.
 */
#ifndef RDMA_ODP_PURE_H
#define RDMA_ODP_PURE_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/types.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
static inline void barrier(void)
{
	__asm__ __volatile__("" : : : "memory");
}
#endif

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#endif
