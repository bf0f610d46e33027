// SPDX-License-Identifier: BSD-3-Clause
//
// The datagrams of the connector: their layout, and the validation of what arrives. Every version
// of the protocol keeps the first 72 bytes, so that a peer of another version can be refused with a
// reason.
#pragma once

#include "odp/address.hpp"
#include "odp/status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace odp {

// What one side tells the other of its queue pair.
struct ConnParams {
    std::uint32_t qpn = 0;          // 24 bits
    std::uint32_t psn = 0;          // 24 bits, the first one it sends
    std::uint32_t rkey = 0;         // of its implicit region
    std::uint32_t payload_room = 0; // bytes of payload its receives take
    std::uint16_t recv_depth = 0;   // receives it keeps posted
    std::uint8_t mtu = 0;           // enum ibv_mtu, 1..5
    std::uint8_t rd_atomic = 0;     // reads and atomics it serves at a time

    bool operator==(const ConnParams &) const = default;
};

struct Handshake {
    enum class Type : std::uint8_t { hello = 1, reject = 2 };

    // Fits in the smallest MTU (256) with room for growth.
    static constexpr std::size_t max_size = 256;
    static constexpr std::size_t max_reason = 128;
    static constexpr std::uint8_t version = 1;
    using Bytes = std::array<std::byte, max_size>;

    Type type = Type::hello;
    std::uint64_t to_session = 0;
    Address from;
    std::uint64_t nonce = 0; // hello: the sender's connection; reject: the connection refused
    // hello
    std::uint64_t accepted = 0; // the receiver's connection that the sender is ready for, or 0
    bool wants_reply = false;   // the sender doesn't know yet that the receiver is ready
    ConnParams params;
    // reject
    std::string reason;

    // Returns the bytes used of `bytes`. A reason that is too long is cut.
    std::size_t encode(Bytes &bytes) const noexcept;

    // What decode() makes of a datagram that it can't read.
    struct Refusal {
        bool other_version = false; // then from, to_session and nonce below are valid
        std::uint8_t version = 0;
        Address from;
        std::uint64_t to_session = 0;
        std::uint64_t nonce = 0;
    };
    // Error: protocol, with the reason; `refusal` is filled in then.
    static Result<Handshake> decode(std::span<const std::byte> bytes, Refusal &refusal);
};

} // namespace odp
