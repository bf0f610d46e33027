// SPDX-License-Identifier: BSD-3-Clause
//
// Component and memory domain: one for all devices, which "registers" by doing nothing.
#pragma once

#include "uct.hpp"

namespace uct_odp {

extern uct_component component;
extern uct_tl_t transport;

} // namespace uct_odp
