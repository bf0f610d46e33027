/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI's opal_config.h names this header, but distributions' development packages lack it. These
 * are declarations of our own of what a component needs of it; a real one is found first.
 */
#ifndef ODP_COMPAT_THREADS_PTHREADS_H
#define ODP_COMPAT_THREADS_PTHREADS_H

#include "opal_config.h"

typedef void(opal_threads_pthreads_yield_fn_t)(void);

/* Set by opal's thread component to what mca_threads_pthreads_yield_strategy asks for. */
OPAL_DECLSPEC extern opal_threads_pthreads_yield_fn_t *opal_threads_pthreads_yield_fn;

#endif
