// SPDX-License-Identifier: BSD-3-Clause
#include "random.hpp"

#include <chrono>
#include <sys/random.h>

namespace odp {

std::uint64_t random_nonzero() noexcept
{
    std::uint64_t value = 0;
    while (value == 0) {
        if (getrandom(&value, sizeof(value), 0) != static_cast<ssize_t>(sizeof(value))) {
            // Only where a seccomp filter forbids it; a poor number still tells incarnations apart.
            value = static_cast<std::uint64_t>(
                std::chrono::steady_clock::now().time_since_epoch().count());
        }
    }
    return value;
}

} // namespace odp
