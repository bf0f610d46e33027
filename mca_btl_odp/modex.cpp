// SPDX-License-Identifier: BSD-3-Clause
//
// What processes publish for each other.
#include "btl_odp.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>

namespace btl_odp {

namespace {

constexpr std::uint8_t blob_version = 1;
constexpr std::uint8_t flag_same_host = 1;

// Integers are bytes or copied as the device reports them, so that the layout is the same
// everywhere.
struct Blob {
    std::uint8_t version = blob_version;
    std::uint8_t flags = 0;
    std::array<std::uint8_t, 6> zero{};
    std::array<std::uint8_t, 8> node_guid{}; // network byte order
    odp::Address::Packed address{};
};
static_assert(sizeof(Blob) == 16 + odp::Address::packed_size);

Blob own_blob(const odp::Context &context)
{
    const ibv_device_attr &device = context.device().attributes().orig_attr;
    Blob blob;
    // Each HCA of a vendor has its vendor's number. One without is software on InfiniBand's terms,
    // which delivers within its host: all hosts have the same subnet prefix, but no link between
    // them.
    if (device.vendor_id == 0 && !context.device().ethernet()) {
        blob.flags |= flag_same_host;
    }
    static_assert(sizeof(device.node_guid) == sizeof(blob.node_guid));
    std::memcpy(blob.node_guid.data(), &device.node_guid, sizeof(device.node_guid));
    blob.address = context.address().pack();
    return blob;
}

bool same_subnet(const odp::Address &a, const odp::Address &b)
{
    // RoCE has no subnet manager; whether a route exists only connecting tells.
    return a.grh && b.grh && a.lid == 0 && b.lid == 0
               ? true
               : std::equal(a.gid.begin(), a.gid.begin() + 8, b.gid.begin());
}

// Empty, or why the process can't be reached.
std::string why_not(const odp::Context &context, const std::uint8_t *bytes, std::size_t size,
                    odp::Address &address)
{
    Blob peer;
    if (bytes == nullptr || size == 0) {
        return "it has no usable device, or doesn't use btl odp";
    }
    if (size != sizeof(peer) || bytes[0] != blob_version) {
        return "it has another version of btl odp";
    }
    std::memcpy(static_cast<void *>(&peer), bytes, sizeof(peer));
    auto unpacked = odp::Address::unpack(peer.address);
    if (!unpacked) {
        return unpacked.status().text();
    }
    address = *unpacked;
    const Blob own = own_blob(context);
    if (!same_subnet(context.address(), address)) {
        return "it is on another subnet: " + address.str();
    }
    if (((own.flags | peer.flags) & flag_same_host) != 0 && own.node_guid != peer.node_guid) {
        return "a software HCA reaches processes of its own host only";
    }
    return {};
}

} // namespace

int publish(const odp::Context &context)
{
    Blob blob = own_blob(context);
    int rc = OPAL_SUCCESS;
    OPAL_MODEX_SEND(rc, PMIX_GLOBAL, &mca_btl_odp_component.btl_version, &blob, sizeof(blob));
    return rc;
}

bool find_address(const odp::Context &context, const opal_proc_t &proc, odp::Address &address)
{
    std::uint8_t *bytes = nullptr;
    std::size_t size = 0;
    int rc = OPAL_SUCCESS;
    OPAL_MODEX_RECV(rc, &mca_btl_odp_component.btl_version, &proc.proc_name, &bytes, &size);
    if (rc != OPAL_SUCCESS) {
        size = 0;
    }
    const std::string reason = why_not(context, bytes, size, address);
    std::free(bytes);
    opal_output_verbose(20, opal_btl_base_framework.framework_output, "btl:odp: process %s %s %s",
                        OPAL_NAME_PRINT(proc.proc_name),
                        reason.empty() ? "is reached at" : "isn't reached:",
                        reason.empty() ? address.str().c_str() : reason.c_str());
    return reason.empty();
}

} // namespace btl_odp
