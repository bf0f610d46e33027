// SPDX-License-Identifier: BSD-3-Clause
//
// What a work request's wr_id says when its completion arrives: whose it is. The generation tells a
// completion left over from an endpoint that is gone from one of its successor in the same place.
#pragma once

#include <cstdint>

namespace odp {

struct WorkId {
    enum class Kind : std::uint8_t { rc_recv, rc_send, ud_recv, ud_send };

    static constexpr std::uint32_t max_index = (1U << 22U) - 1;
    static constexpr std::uint32_t max_item = (1U << 24U) - 1;

    Kind kind = Kind::rc_recv;
    std::uint32_t index = 0;      // of the endpoint, 22 bits
    std::uint16_t generation = 0; // of that index
    std::uint32_t item = 0;       // receive slot, or send sequence modulo 2^24

    [[nodiscard]] constexpr std::uint64_t pack() const noexcept
    {
        return static_cast<std::uint64_t>(kind) << 62U |
               static_cast<std::uint64_t>(index & max_index) << 40U |
               static_cast<std::uint64_t>(generation) << 24U | (item & max_item);
    }

    [[nodiscard]] static constexpr WorkId unpack(std::uint64_t id) noexcept
    {
        return {static_cast<Kind>(id >> 62U), static_cast<std::uint32_t>(id >> 40U) & max_index,
                static_cast<std::uint16_t>(id >> 24U), static_cast<std::uint32_t>(id) & max_item};
    }

    bool operator==(const WorkId &) const = default;
};

} // namespace odp
