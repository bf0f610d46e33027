// SPDX-License-Identifier: BSD-3-Clause
#include "iface.hpp"

#include <bit>
#include <cstring>
#include <span>

namespace uct_odp {

// Little-endian: the libodp address, the segment size, the host.
static_assert(std::endian::native == std::endian::little);
static_assert(IfaceAddress::packed_size == odp::Address::packed_size + 4 + 8);

IfaceAddress::Packed IfaceAddress::pack() const noexcept
{
    Packed bytes{};
    const odp::Address::Packed inner = address.pack();
    std::memcpy(bytes.data(), inner.data(), inner.size());
    std::memcpy(&bytes[inner.size()], &seg_size, sizeof(seg_size));
    std::memcpy(&bytes[inner.size() + sizeof(seg_size)], &host, sizeof(host));
    return bytes;
}

odp::Result<IfaceAddress> IfaceAddress::unpack(const void *bytes)
{
    const auto *start = static_cast<const std::byte *>(bytes);
    auto inner = odp::Address::unpack(std::span(start, odp::Address::packed_size));
    if (!inner) {
        return inner.status();
    }
    IfaceAddress result;
    result.address = *inner;
    start += odp::Address::packed_size;
    std::memcpy(&result.seg_size, start, sizeof(result.seg_size));
    std::memcpy(&result.host, start + sizeof(result.seg_size), sizeof(result.host));
    return result;
}

} // namespace uct_odp
