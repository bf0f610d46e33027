// SPDX-License-Identifier: BSD-3-Clause
//
// Interface and endpoints: thin over odp::Context and odp::Endpoint, which do the connecting, the
// queueing and the flow control.
//
// Thread-safety: that of UCT: one caller at a time for a worker and what belongs to it.
#pragma once

#include "config.hpp"
#include "odp/context.hpp"
#include "uct.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace uct_odp {

struct Iface;
struct Peer;

// What the other side has to know of an interface.
struct IfaceAddress {
    static constexpr std::size_t packed_size = 52; // UCP's limit is 63
    using Packed = std::array<std::byte, packed_size>;

    odp::Address address;
    std::uint32_t seg_size = 0; // bytes
    std::uint64_t host = 0;     // of a software HCA, which reaches its own host only; else 0

    [[nodiscard]] Packed pack() const noexcept;
    static odp::Result<IfaceAddress> unpack(const void *bytes);
};

struct Ep {
    uct_base_ep_t super{};
    Peer *peer = nullptr;
    // Requests that found no resources, in order.
    uct_pending_req_t *first = nullptr;
    uct_pending_req_t *last = nullptr;
    // In the interface's list while there are any; in the peer's always.
    Ep *waiting_next = nullptr;
    Ep *waiting_prev = nullptr;
    Ep *peer_next = nullptr;
};

// A process that endpoints lead to. All endpoints to it share its connection.
struct Peer {
    Iface *iface = nullptr;
    odp::Address address;
    odp::Endpoint *connection = nullptr; // nullptr: lost
    Ep *eps = nullptr;
    odp::Status error; // why it was lost
};

// An operation that ends later. Freed by its end.
struct Op : odp::Completion {
    Iface *iface = nullptr;
    uct_completion_t *completion = nullptr;
    odp::SendBuffer *buffer = nullptr; // bcopy
    uct_unpack_callback_t unpack = nullptr;
    void *unpack_arg = nullptr;
    std::size_t length = 0;
    Op *next_free = nullptr;
};

struct Iface {
    uct_base_iface_t super{};
    std::unique_ptr<odp::Context> context;
    std::unordered_map<odp::Address, std::unique_ptr<Peer>> peers;
    IfaceAddress address;
    std::size_t max_pending = 0;
    double bandwidth = 0;
    double latency = 0;
    double overhead = 0;
    Ep *waiting = nullptr;     // endpoints with pending requests, a ring
    Ep *dispatching = nullptr; // its request is being tried
    Op *free_ops = nullptr;
    bool closing = false;

    Iface() = default;
    Iface(const Iface &) = delete;
    Iface &operator=(const Iface &) = delete;
    ~Iface();

    Op *take_op(uct_completion_t *completion) noexcept; // nullptr: no memory
    void give_op(Op *op) noexcept;
    [[nodiscard]] bool out_of_buffers() const noexcept;
};

inline Iface *iface_of(uct_iface_h iface)
{
    return reinterpret_cast<Iface *>(iface);
}

inline Ep *ep_of(uct_ep_h ep)
{
    return reinterpret_cast<Ep *>(ep);
}

inline Iface *iface_of(uct_ep_h ep)
{
    return iface_of(ep->iface);
}

ucs_status_t ucs_status(const odp::Status &status) noexcept;

// The uct_tl_t entry.
ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
                        const uct_iface_config_t *config, uct_iface_h *iface);

// uct_iface_ops_t, by file.
ucs_status_t ep_create(const uct_ep_params_t *params, uct_ep_h *ep);
void ep_destroy(uct_ep_h ep);
ucs_status_t ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *completion);
ucs_status_t ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *completion);
ucs_status_t ep_pending_add(uct_ep_h ep, uct_pending_req_t *request, unsigned flags);
void ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t callback, void *arg);
unsigned dispatch_pending(Iface &iface);
void lose_peer(Peer &peer, const odp::Status &status); // its connection has failed

ucs_status_t ep_am_short(uct_ep_h ep, std::uint8_t id, std::uint64_t header, const void *payload,
                         unsigned length);
ucs_status_t ep_am_short_iov(uct_ep_h ep, std::uint8_t id, const uct_iov_t *iov, std::size_t count);
ssize_t ep_am_bcopy(uct_ep_h ep, std::uint8_t id, uct_pack_callback_t pack, void *arg,
                    unsigned flags);
ucs_status_t ep_put_short(uct_ep_h ep, const void *buffer, unsigned length, std::uint64_t remote,
                          uct_rkey_t rkey);
ssize_t ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void *arg, std::uint64_t remote,
                     uct_rkey_t rkey);
ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, std::size_t count,
                          std::uint64_t remote, uct_rkey_t rkey, uct_completion_t *completion);
ucs_status_t ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack, void *arg, std::size_t length,
                          std::uint64_t remote, uct_rkey_t rkey, uct_completion_t *completion);
ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, std::size_t count,
                          std::uint64_t remote, uct_rkey_t rkey, uct_completion_t *completion);

// With these an operation must not be started now: NO_RESOURCE, or why never.
ucs_status_t check_resources(const Ep &ep) noexcept;
void invoke(uct_completion_t *completion, ucs_status_t status);

constexpr std::size_t max_iov = 8; // pieces of a put or get

} // namespace uct_odp
