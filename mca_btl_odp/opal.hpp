// SPDX-License-Identifier: BSD-3-Clause
//
// Open MPI's headers, for C++.
#pragma once

#include "opal_config.h"

// In Open MPI 5.0 opal/util/event.h opens a C linkage block and doesn't close it. Its own brackets
// are taken out here and one pair put around it, which also fits a version in which that is
// corrected.
#pragma push_macro("BEGIN_C_DECLS")
#pragma push_macro("END_C_DECLS")
#undef BEGIN_C_DECLS
#undef END_C_DECLS
#define BEGIN_C_DECLS
#define END_C_DECLS
extern "C" {
#include "opal/util/event.h"
}
#pragma pop_macro("END_C_DECLS")
#pragma pop_macro("BEGIN_C_DECLS")

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
