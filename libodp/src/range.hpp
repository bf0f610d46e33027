// SPDX-License-Identifier: BSD-3-Clause
//
// Ranges of addresses and their split into requests that a port can carry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace odp {

// [address, address + length) doesn't pass the end of the 64-bit address space.
[[nodiscard]] constexpr bool fits_address_space(std::uint64_t address,
                                                std::uint64_t length) noexcept
{
    return length == 0 || address <= UINT64_MAX - (length - 1);
}

// The piece of a transfer of `length` bytes that starts `offset` bytes into it: bytes, 0 at the end
// (and for a transfer of no bytes). `limit` > 0.
[[nodiscard]] constexpr std::uint32_t piece_length(std::uint64_t length, std::uint64_t offset,
                                                   std::uint32_t limit) noexcept
{
    return offset >= length
               ? 0
               : static_cast<std::uint32_t>(std::min<std::uint64_t>(length - offset, limit));
}

} // namespace odp
