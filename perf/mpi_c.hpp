// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The C API only: the C++ bindings that older MPIs still bring don't compile without warnings.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
