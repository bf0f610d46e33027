// SPDX-License-Identifier: BSD-3-Clause
//
// What a process publishes so that others can connect to it: where its UD queue pair is (LID, or
// GID where packets need a GRH) and which incarnation of it is meant.
#pragma once

#include "odp/status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace odp {

class Address {
public:
    // Bytes of the packed form; must stay <= 63 (UCP's limit for an interface address).
    static constexpr std::size_t packed_size = 40;
    using Packed = std::array<std::byte, packed_size>;

    std::array<std::uint8_t, 16> gid{}; // network byte order, all zero if unused
    std::uint64_t session = 0;          // random, new for every Context: tells incarnations apart
    std::uint32_t qpn = 0;              // UD queue pair, 24 bits
    std::uint32_t qkey = 0;             // of that queue pair
    std::uint16_t lid = 0;              // 0 where the link layer is Ethernet
    std::uint8_t sl = 0;                // service level, 4 bits
    bool grh = false;                   // the GID is needed to reach it

    // Fixed little-endian layout, the same on every host. No failure.
    [[nodiscard]] Packed pack() const noexcept;
    // Refuses (protocol) a wrong size, version or field; never reads beyond `bytes`.
    static Result<Address> unpack(std::span<const std::byte> bytes);

    // "lid 1 qpn 0x12 session 0123456789abcdef", for messages.
    [[nodiscard]] std::string str() const;

    bool operator==(const Address &) const = default;
};

} // namespace odp

template <> struct std::hash<odp::Address> {
    std::size_t operator()(const odp::Address &address) const noexcept
    {
        return static_cast<std::size_t>(address.session ^ (std::uint64_t{address.qpn} << 32U));
    }
};
