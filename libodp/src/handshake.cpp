// SPDX-License-Identifier: BSD-3-Clause
#include "handshake.hpp"

#include "format.hpp"
#include "packing.hpp"

#include <algorithm>

namespace odp {

namespace {

constexpr std::uint32_t magic = 0x4350444f; // "ODPC"
constexpr std::uint8_t flag_wants_reply = 1;
constexpr std::uint32_t limit24 = 1U << 24U;
constexpr std::uint8_t mtu_min = 1;
constexpr std::uint8_t mtu_max = 5;
constexpr std::uint16_t recv_depth_min = 5; // Credits::min_depth
// magic, version, type, length, to_session, nonce, address
constexpr std::size_t head_size = 4 + 1 + 1 + 2 + 8 + 8 + Address::packed_size;
constexpr std::size_t length_offset = 6;
constexpr std::size_t hello_size = head_size + 8 + 1 + 4 + 4 + 4 + 4 + 2 + 1 + 1;

static_assert(hello_size <= Handshake::max_size);
static_assert(head_size + 1 + Handshake::max_reason <= Handshake::max_size);

// The reason ends up on somebody's terminal.
char printable(std::byte byte) noexcept
{
    const auto c = std::to_integer<unsigned char>(byte);
    return c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
}

bool plausible(const ConnParams &params) noexcept
{
    return params.qpn < limit24 && params.psn < limit24 && params.mtu >= mtu_min &&
           params.mtu <= mtu_max && params.recv_depth >= recv_depth_min && params.rd_atomic != 0;
}

} // namespace

std::size_t Handshake::encode(Bytes &bytes) const noexcept
{
    Writer out(bytes);
    out.put(magic);
    out.put(version);
    out.put(static_cast<std::uint8_t>(type));
    out.put(std::uint16_t{0});
    out.put(to_session);
    out.put(nonce);
    out.put_bytes(from.pack());
    if (type == Type::hello) {
        out.put(accepted);
        out.put(static_cast<std::uint8_t>(wants_reply ? flag_wants_reply : 0));
        out.put(params.qpn);
        out.put(params.psn);
        out.put(params.rkey);
        out.put(params.payload_room);
        out.put(params.recv_depth);
        out.put(params.mtu);
        out.put(params.rd_atomic);
    } else {
        const std::size_t count = std::min(reason.size(), max_reason);
        out.put(static_cast<std::uint8_t>(count));
        out.put_bytes(std::as_bytes(std::span(reason.data(), count)));
    }
    Writer length(std::span<std::byte>(bytes).subspan(length_offset));
    length.put(static_cast<std::uint16_t>(out.used()));
    return out.used();
}

Result<Handshake> Handshake::decode(std::span<const std::byte> bytes, Refusal &refusal)
{
    refusal = {};
    Reader in(bytes);
    if (in.get<std::uint32_t>() != magic) {
        return {Code::protocol, "not a handshake"};
    }
    const auto its_version = in.get<std::uint8_t>();
    const auto type = in.get<std::uint8_t>();
    const auto length = in.get<std::uint16_t>();
    Handshake message;
    message.to_session = in.get<std::uint64_t>();
    message.nonce = in.get<std::uint64_t>();
    auto from = Address::unpack(in.get_bytes(Address::packed_size));
    if (!in.ok() || length != bytes.size() || message.nonce == 0) {
        return {Code::protocol,
                format("a handshake of %zu bytes that should have %u", bytes.size(), length)};
    }
    if (!from) {
        return from.status();
    }
    message.from = *from;
    if (its_version != version) {
        refusal = {true, its_version, *from, message.to_session, message.nonce};
        return {Code::protocol, format("a handshake of version %u", its_version)};
    }
    if (type == static_cast<std::uint8_t>(Type::hello)) {
        message.accepted = in.get<std::uint64_t>();
        const auto flags = in.get<std::uint8_t>();
        message.wants_reply = (flags & flag_wants_reply) != 0;
        message.params.qpn = in.get<std::uint32_t>();
        message.params.psn = in.get<std::uint32_t>();
        message.params.rkey = in.get<std::uint32_t>();
        message.params.payload_room = in.get<std::uint32_t>();
        message.params.recv_depth = in.get<std::uint16_t>();
        message.params.mtu = in.get<std::uint8_t>();
        message.params.rd_atomic = in.get<std::uint8_t>();
        if (!in.ok() || in.left() != 0 || (flags & ~unsigned{flag_wants_reply}) != 0 ||
            !plausible(message.params)) {
            return {Code::protocol, "a hello with impossible fields"};
        }
        return message;
    }
    if (type == static_cast<std::uint8_t>(Type::reject)) {
        message.type = Type::reject;
        const auto count = in.get<std::uint8_t>();
        const auto reason = in.get_bytes(count);
        if (!in.ok() || in.left() != 0 || count > max_reason) {
            return {Code::protocol, "a reject with impossible fields"};
        }
        message.reason.resize(reason.size());
        std::transform(reason.begin(), reason.end(), message.reason.begin(), printable);
        return message;
    }
    return {Code::protocol, format("a handshake of unknown type %u", type)};
}

} // namespace odp
