// SPDX-License-Identifier: BSD-3-Clause
//
// The header of everything that is sent on an RC queue pair, and its validation.
#pragma once

#include "packing.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace odp {

struct MessageHeader {
    // 8 bytes, so that a payload that follows is as aligned as the buffer.
    static constexpr std::size_t size = 8;
    // bye: the sender has closed the connection; nothing follows.
    enum class Kind : std::uint8_t { active = 0xa1, credits = 0xa2, bye = 0xa3 };

    Kind kind = Kind::active;
    std::uint8_t am_id = 0;
    std::uint16_t credits = 0; // returned with this message
    std::uint32_t length = 0;  // bytes of payload

    void encode(std::span<std::byte, size> bytes) const noexcept
    {
        Writer out(bytes);
        out.put(static_cast<std::uint8_t>(kind));
        out.put(am_id);
        out.put(credits);
        out.put(length);
    }

    // `message` is what was received, header and payload. False if it isn't one of ours.
    [[nodiscard]] static bool decode(std::span<const std::byte> message,
                                     MessageHeader &header) noexcept
    {
        Reader in(message);
        const auto kind = in.get<std::uint8_t>();
        header.am_id = in.get<std::uint8_t>();
        header.credits = in.get<std::uint16_t>();
        header.length = in.get<std::uint32_t>();
        if (!in.ok() || header.length != in.left()) {
            return false;
        }
        if (kind == static_cast<std::uint8_t>(Kind::credits)) {
            header.kind = Kind::credits;
            return header.length == 0 && header.am_id == 0 && header.credits != 0;
        }
        if (kind == static_cast<std::uint8_t>(Kind::bye)) {
            header.kind = Kind::bye;
            return header.length == 0 && header.am_id == 0 && header.credits == 0;
        }
        header.kind = Kind::active;
        return kind == static_cast<std::uint8_t>(Kind::active);
    }
};

} // namespace odp
