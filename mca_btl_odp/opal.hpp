// SPDX-License-Identifier: BSD-3-Clause
//
// Open MPI's headers, for C++. Some of them declare functions without saying that they are C, and
// in Open MPI 5.0 opal/util/event.h opens a C linkage block and doesn't close it. So their own
// brackets are taken out and one pair is put around them all, whatever a version has got right.
#pragma once

#include "opal_config.h"

// What they include of the system, outside of that pair.
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdbool>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pmix.h>
#include <pthread.h>

#pragma push_macro("BEGIN_C_DECLS")
#pragma push_macro("END_C_DECLS")
#undef BEGIN_C_DECLS
#undef END_C_DECLS
#define BEGIN_C_DECLS
#define END_C_DECLS
extern "C" {
#include "opal/class/opal_bitmap.h"
#include "opal/constants.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/thread_usage.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "opal/util/show_help.h"
}
#pragma pop_macro("END_C_DECLS")
#pragma pop_macro("BEGIN_C_DECLS")
