// SPDX-License-Identifier: BSD-3-Clause
//
// Whether Open MPI would find the BTL that was built with this tool.
#pragma once

#include <string>

// One line: where the BTL is installed, and what is missing for mpirun to find it.
std::string describe_btl();
