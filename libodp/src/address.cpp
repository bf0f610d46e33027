// SPDX-License-Identifier: BSD-3-Clause
#include "odp/address.hpp"

#include "format.hpp"
#include "packing.hpp"

#include <algorithm>
#include <cinttypes>

namespace odp {

namespace {

constexpr std::uint8_t address_version = 1;
constexpr std::uint8_t flag_grh = 1;
constexpr std::uint32_t qpn_limit = 1U << 24U;
constexpr std::uint8_t sl_limit = 16;

} // namespace

static_assert(Address::packed_size <= 63, "UCP takes interface addresses up to 63 bytes");

// version 1, flags 1, lid 2, qpn 4, qkey 4, sl 1, zero 3, session 8, gid 16
Address::Packed Address::pack() const noexcept
{
    Packed bytes{};
    Writer out(bytes);
    out.put(address_version);
    out.put(static_cast<std::uint8_t>(grh ? flag_grh : 0));
    out.put(lid);
    out.put(qpn);
    out.put(qkey);
    out.put(sl);
    out.put(std::uint8_t{0});
    out.put(std::uint16_t{0});
    out.put(session);
    out.put_bytes(std::as_bytes(std::span(gid)));
    return bytes;
}

Result<Address> Address::unpack(std::span<const std::byte> bytes)
{
    if (bytes.size() != packed_size) {
        return {Code::protocol,
                format("an address of %zu bytes, must be %zu: do both processes use "
                       "the same version of libodp?",
                       bytes.size(), packed_size)};
    }
    Reader in(bytes);
    const auto version = in.get<std::uint8_t>();
    if (version != address_version) {
        return {Code::protocol,
                format("an address of version %u, this libodp knows version %u only", version,
                       address_version)};
    }
    const auto flags = in.get<std::uint8_t>();
    Address address;
    address.grh = (flags & flag_grh) != 0;
    address.lid = in.get<std::uint16_t>();
    address.qpn = in.get<std::uint32_t>();
    address.qkey = in.get<std::uint32_t>();
    address.sl = in.get<std::uint8_t>();
    const auto zero8 = in.get<std::uint8_t>();
    const auto zero16 = in.get<std::uint16_t>();
    address.session = in.get<std::uint64_t>();
    const auto gid = in.get_bytes(address.gid.size());
    std::transform(gid.begin(), gid.end(), address.gid.begin(),
                   [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
    if ((flags & ~unsigned{flag_grh}) != 0 || zero8 != 0 || zero16 != 0 ||
        address.qpn >= qpn_limit || address.sl >= sl_limit || address.session == 0 ||
        (address.lid == 0 && !address.grh)) {
        return {Code::protocol, "an address with impossible fields: " + address.str()};
    }
    return address;
}

std::string Address::str() const
{
    std::string where;
    if (grh) {
        where = "gid ";
        for (std::size_t i = 0; i < gid.size(); i += 2) {
            where += format("%s%x", i == 0 ? "" : ":", unsigned{gid[i]} << 8U | gid[i + 1]);
        }
    } else {
        where = format("lid %u", lid);
    }
    return where + format(" qpn 0x%x session %016" PRIx64, qpn, session);
}

} // namespace odp
