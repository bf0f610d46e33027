// SPDX-License-Identifier: BSD-3-Clause
//
// UCX's headers for C++, and the internals of the version that is being built for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <sys/types.h>

extern "C" {
#include <ucs/config/global_opts.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/list.h>
#include <ucs/debug/log_def.h>
#include <ucs/memory/memory_type.h>
#include <ucs/sys/string.h>
#include <ucs/sys/stubs.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/type/class.h>
#include <uct/api/uct.h>
#include <uct/api/version.h>
}

#if UCT_VERNO_MAJOR == 1 && UCT_VERNO_MINOR == 18
#include "internals_1_18.hpp"
#else
#error "the internals of this version of UCX aren't known: see internals_1_18.hpp"
#endif
