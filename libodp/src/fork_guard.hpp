// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace odp {

// Remembers the process that made it. A child shares the parent's queue pairs (same file, same
// rings): whatever it did with them, destroying them included, it would do to the parent's.
class ForkGuard {
public:
    ForkGuard() noexcept;

    // Cheap enough for every call: a load, no system call. Thread-safe.
    [[nodiscard]] bool in_child() const noexcept;

private:
    int owner_;
};

} // namespace odp
