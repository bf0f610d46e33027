// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace odp {

// From getrandom(2), never 0: others must not guess session numbers and keys.
std::uint64_t random_nonzero() noexcept;

} // namespace odp
