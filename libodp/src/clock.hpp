// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>

namespace odp {

// Time is handed to whoever needs it, so that tests can make it pass.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

} // namespace odp
