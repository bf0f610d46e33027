// SPDX-License-Identifier: BSD-3-Clause
//
// Flow control of one endpoint. A message may be sent only if a receive is posted for it at the
// peer: a credit. The receiver returns credits for receives that it has posted again, with any
// message that goes the other way or, when half of them are due, with a message of its own.
//
// Why it can't deadlock: such a message needs no credit, but uses one of `reserved` receives that
// are set apart (two, and one for the farewell of a side that closes). Each carries at least half
// of the credits and not more than all can be under way, so there are never more than two of them
// that the peer hasn't taken yet. The peer posts their receive again before it uses the credits
// that they bring.
#pragma once

#include <algorithm>
#include <cstdint>

namespace odp {

class Credits {
public:
    static constexpr std::uint32_t reserved = 3; // receives for messages that use no credit
    static constexpr std::uint32_t min_depth = reserved + 2;

    Credits() = default;
    // Receives posted on each side, >= min_depth.
    Credits(std::uint32_t peer_depth, std::uint32_t own_depth) noexcept
        : limit_(peer_depth - reserved),
          available_(limit_),
          own_limit_(own_depth - reserved)
    {
    }

    [[nodiscard]] std::uint32_t available() const noexcept { return available_; }

    // Uses one credit, if there is one.
    [[nodiscard]] bool take() noexcept
    {
        if (available_ == 0) {
            return false;
        }
        --available_;
        return true;
    }

    // The peer returned `count`. False if it returns more than it ever got.
    [[nodiscard]] bool give(std::uint32_t count) noexcept
    {
        if (count > limit_ - available_) {
            return false;
        }
        available_ += count;
        return true;
    }

    // A receive was posted again after a message of the peer that used a credit.
    void reposted() noexcept { due_ = std::min(due_ + 1, own_limit_); }

    // Half of the peer's credits are waiting here.
    [[nodiscard]] bool must_return() const noexcept { return due_ >= (own_limit_ + 1) / 2; }

    // The credits that a message takes along now.
    [[nodiscard]] std::uint16_t collect() noexcept
    {
        const auto count = static_cast<std::uint16_t>(due_);
        due_ = 0;
        return count;
    }

private:
    std::uint32_t limit_ = 0;
    std::uint32_t available_ = 0;
    std::uint32_t own_limit_ = 0;
    std::uint32_t due_ = 0;
};

} // namespace odp
