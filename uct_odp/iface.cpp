// SPDX-License-Identifier: BSD-3-Clause
//
// The interface: one odp::Context, which UCX's progress moves on.
#include "iface.hpp"
#include "log.hpp"

#include <algorithm>
#include <cstring>
#include <infiniband/verbs.h>
#include <new>
#include <utility>

namespace uct_odp {

namespace {

void on_log(void *, odp::LogLevel level, const char *line)
{
    switch (level) {
    case odp::LogLevel::error:
        log_line(UCS_LOG_LEVEL_ERROR, line);
        break;
    case odp::LogLevel::warning:
        log_line(UCS_LOG_LEVEL_WARN, line);
        break;
    case odp::LogLevel::info:
        log_line(UCS_LOG_LEVEL_DEBUG, line);
        break;
    case odp::LogLevel::debug:
        log_line(UCS_LOG_LEVEL_TRACE, line);
        break;
    }
}

void on_message(void *arg, odp::Endpoint &, std::uint8_t id, std::span<const std::byte> data)
{
    Iface &iface = *static_cast<Iface *>(arg);
    if (id >= UCT_AM_ID_MAX) {
        char text[96];
        std::snprintf(text, sizeof(text), "a message of id %u came, the limit is %u: dropped", id,
                      static_cast<unsigned>(UCT_AM_ID_MAX) - 1);
        log_line(UCS_LOG_LEVEL_ERROR, text);
        return;
    }
    const uct_am_handler_t &handler = iface.super.am[id];
    // Without UCT_CB_PARAM_FLAG_DESC the data is the callee's until it returns.
    handler.cb(handler.arg, const_cast<std::byte *>(data.data()), data.size(), 0);
}

void on_error(void *arg, odp::Endpoint &endpoint, const odp::Status &status)
{
    Iface &iface = *static_cast<Iface *>(arg);
    if (endpoint.user_data != nullptr) {
        lose_peer(*static_cast<Peer *>(endpoint.user_data), status);
        return;
    }
    log_line(UCS_LOG_LEVEL_DEBUG, status.text());
    iface.context->close(endpoint);
}

std::uint64_t host_of(const odp::Device &device)
{
    const ibv_device_attr &attr = device.attributes().orig_attr;
    // Each HCA of a vendor has its vendor's number. One without is software on InfiniBand's terms,
    // which delivers within its host.
    return attr.vendor_id == 0 && !device.ethernet() ? attr.node_guid : 0;
}

bool same_subnet(const odp::Address &a, const odp::Address &b)
{
    // RoCE has no subnet manager; whether a route exists only connecting tells.
    return (a.grh && b.grh && a.lid == 0 && b.lid == 0) ||
           std::equal(a.gid.begin(), a.gid.begin() + 8, b.gid.begin());
}

// Empty, or why not.
std::string why_unreachable(const Iface &iface, const IfaceAddress &peer)
{
    if (!same_subnet(iface.address.address, peer.address)) {
        return "it is on another subnet: " + peer.address.str();
    }
    if (iface.address.host != peer.host) {
        return "a software HCA reaches processes of its own host only";
    }
    if (iface.address.seg_size != peer.seg_size) {
        return "UCX_RC_ODP_SEG_SIZE is " + std::to_string(iface.address.seg_size) + " here and " +
               std::to_string(peer.seg_size) + " there: it must be the same";
    }
    return {};
}

int is_reachable(uct_iface_h tl_iface, const uct_iface_is_reachable_params_t *params)
{
    std::string reason = "no interface address was given";
    if ((params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR) != 0 &&
        params->iface_addr != nullptr) {
        const auto peer = IfaceAddress::unpack(params->iface_addr);
        reason = peer ? why_unreachable(*iface_of(tl_iface), *peer) : peer.status().text();
    }
    const bool wants_reason =
        (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING) != 0 &&
        (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH) != 0;
    if (wants_reason && params->info_string != nullptr && params->info_string_length > 0) {
        std::snprintf(params->info_string, params->info_string_length, "%s", reason.c_str());
    }
    return reason.empty() ? 1 : 0;
}

ucs_status_t query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    Iface &iface = *iface_of(tl_iface);
    const std::size_t room = iface.context->options().payload_room;
    const std::size_t inlined = iface.context->max_inline_payload();
    uct_base_iface_query(&iface.super, attr);

    attr->cap.flags = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_PENDING |
                      UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                      UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_BCOPY |
                      UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE |
                      UCT_IFACE_FLAG_EP_CHECK | UCT_IFACE_FLAG_CONNECT_TO_IFACE |
                      UCT_IFACE_FLAG_CB_SYNC | UCT_IFACE_FLAG_INTER_NODE;

    attr->cap.am.max_short = std::min(room, std::max<std::size_t>(inlined, 64));
    attr->cap.am.max_bcopy = room;
    attr->cap.am.opt_zcopy_align = 1;
    attr->cap.am.align_mtu = 1;
    attr->cap.am.max_iov = max_iov;

    attr->cap.put.max_short = attr->cap.am.max_short;
    attr->cap.put.max_bcopy = room;
    attr->cap.put.max_zcopy = SIZE_MAX;
    attr->cap.put.opt_zcopy_align = 1;
    attr->cap.put.align_mtu = 1;
    attr->cap.put.max_iov = max_iov;

    attr->cap.get.max_bcopy = room;
    attr->cap.get.max_zcopy = SIZE_MAX;
    attr->cap.get.opt_zcopy_align = 1;
    attr->cap.get.align_mtu = 1;
    attr->cap.get.max_iov = max_iov;

    attr->iface_addr_len = IfaceAddress::packed_size;
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared = iface.bandwidth;
    attr->latency.c = iface.latency;
    attr->latency.m = 0;
    attr->overhead = iface.overhead;
    attr->priority = 1;
    return UCS_OK;
}

ucs_status_t get_address(uct_iface_h tl_iface, uct_iface_addr_t *address)
{
    const IfaceAddress::Packed bytes = iface_of(tl_iface)->address.pack();
    std::memcpy(static_cast<void *>(address), bytes.data(), bytes.size());
    return UCS_OK;
}

unsigned progress(uct_iface_h tl_iface)
{
    Iface &iface = *iface_of(tl_iface);
    unsigned count = static_cast<unsigned>(iface.context->progress());
    if (iface.waiting != nullptr) {
        count += dispatch_pending(iface);
    }
    return count;
}

ucs_status_t flush(uct_iface_h tl_iface, unsigned, uct_completion_t *completion)
{
    Iface &iface = *iface_of(tl_iface);
    if (completion != nullptr) {
        return UCS_ERR_UNSUPPORTED;
    }
    ucs_status_t result = UCS_OK;
    for (const auto &[address, peer] : iface.peers) {
        if (peer->connection == nullptr || peer->connection->error().failed() ||
            peer->connection->quiet()) {
            continue;
        }
        result = UCS_INPROGRESS;
        if (peer->connection->pending() == 0) {
            // An empty write tells when inlined messages have arrived; an error goes to its handler.
            static_cast<void>(peer->connection->put(nullptr, 0, 0, nullptr));
        }
    }
    return result;
}

ucs_status_t fence(uct_iface_h, unsigned)
{
    return UCS_OK;
}

void close(uct_iface_h tl_iface)
{
    Iface *iface = iface_of(tl_iface);
    uct_base_iface_progress_disable(tl_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    ucs_class_call_cleanup_chain(&uct_base_iface_t_class, iface, -1);
    delete iface;
}

uct_iface_ops_t make_ops()
{
    uct_iface_ops_t ops{};
    ops.ep_put_short = ep_put_short;
    ops.ep_put_bcopy = ep_put_bcopy;
    ops.ep_put_zcopy = ep_put_zcopy;
    ops.ep_get_bcopy = ep_get_bcopy;
    ops.ep_get_zcopy = ep_get_zcopy;
    ops.ep_am_short = ep_am_short;
    ops.ep_am_short_iov = ep_am_short_iov;
    ops.ep_am_bcopy = ep_am_bcopy;
    ops.ep_pending_add = ep_pending_add;
    ops.ep_pending_purge = ep_pending_purge;
    ops.ep_flush = ep_flush;
    ops.ep_fence = ep_fence;
    ops.ep_check = ep_check;
    ops.ep_create = ep_create;
    ops.ep_destroy = ep_destroy;
    ops.iface_flush = flush;
    ops.iface_fence = fence;
    ops.iface_progress_enable = uct_base_iface_progress_enable;
    ops.iface_progress_disable = uct_base_iface_progress_disable;
    ops.iface_progress = progress;
    ops.iface_close = close;
    ops.iface_query = query;
    ops.iface_get_device_address = [](uct_iface_h, uct_device_addr_t *) { return UCS_OK; };
    ops.iface_get_address = get_address;
    ops.iface_is_reachable = uct_base_iface_is_reachable;
    ops.iface_event_fd_get = [](uct_iface_h, int *) { return UCS_ERR_UNSUPPORTED; };
    ops.iface_event_arm = [](uct_iface_h, unsigned) { return UCS_ERR_UNSUPPORTED; };
    return ops;
}

uct_iface_ops_t ops = make_ops();

uct_iface_internal_ops_t internal_ops = {
    .iface_estimate_perf = uct_base_iface_estimate_perf,
    .iface_vfs_refresh = [](uct_iface_h) {},
    .ep_query = [](uct_ep_h, uct_ep_attr_t *) { return UCS_ERR_UNSUPPORTED; },
    .ep_invalidate = [](uct_ep_h, unsigned) { return UCS_ERR_UNSUPPORTED; },
    .ep_connect_to_ep_v2 = [](uct_ep_h, const uct_device_addr_t *, const uct_ep_addr_t *,
                              const uct_ep_connect_to_ep_params_t *) { return UCS_ERR_UNSUPPORTED; },
    .iface_is_reachable_v2 = is_reachable,
    .ep_is_connected = uct_base_ep_is_connected,
};

} // namespace

Iface::~Iface()
{
    closing = true;
    for (auto &[peer_address, peer] : peers) {
        if (odp::Endpoint *connection = std::exchange(peer->connection, nullptr)) {
            connection->user_data = nullptr;
            context->close(*connection);
        }
    }
    context.reset();
    while (free_ops != nullptr) {
        delete std::exchange(free_ops, free_ops->next_free);
    }
}

bool Iface::out_of_buffers() const noexcept
{
    odp::SendBuffer *buffer = context->alloc();
    if (buffer != nullptr) {
        context->release(*buffer);
    }
    return buffer == nullptr;
}

ucs_status_t ucs_status(const odp::Status &status) noexcept
{
    switch (status.code()) {
    case odp::Code::ok:
        return UCS_OK;
    case odp::Code::in_progress:
        return UCS_INPROGRESS;
    case odp::Code::no_resource:
        return UCS_ERR_NO_RESOURCE;
    case odp::Code::invalid_argument:
        return UCS_ERR_INVALID_PARAM;
    case odp::Code::unsupported:
        return UCS_ERR_UNSUPPORTED;
    case odp::Code::no_device:
        return UCS_ERR_NO_DEVICE;
    case odp::Code::no_memory:
        return UCS_ERR_NO_MEMORY;
    case odp::Code::timed_out:
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case odp::Code::rejected:
        return UCS_ERR_REJECTED;
    case odp::Code::peer_lost:
        return UCS_ERR_CONNECTION_RESET;
    case odp::Code::flushed:
        return UCS_ERR_CANCELED;
    case odp::Code::local_fault:
    case odp::Code::remote_fault:
    case odp::Code::protocol:
    case odp::Code::system:
        break;
    }
    return UCS_ERR_IO_ERROR;
}

ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
                        const uct_iface_config_t *tl_config, uct_iface_h *iface_p)
{
    if ((params->field_mask & UCT_IFACE_PARAM_FIELD_OPEN_MODE) == 0 ||
        (params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE) == 0 ||
        (params->field_mask & UCT_IFACE_PARAM_FIELD_DEVICE) == 0) {
        log_line(UCS_LOG_LEVEL_ERROR, "an interface is opened by the name of its device only");
        return UCS_ERR_UNSUPPORTED;
    }
    const auto &config = *reinterpret_cast<const IfaceConfig *>(tl_config);
    auto options = make_options(config, params->mode.device.dev_name);
    if (!options) {
        log_line(UCS_LOG_LEVEL_ERROR, options.status().text());
        return ucs_status(options.status());
    }
    options->log = on_log;
    auto context = odp::Context::create(*options);
    if (!context) {
        log_line(UCS_LOG_LEVEL_ERROR, context.status().text());
        return ucs_status(context.status());
    }
    std::unique_ptr<Iface> iface(new (std::nothrow) Iface);
    if (iface == nullptr) {
        return UCS_ERR_NO_MEMORY;
    }
    iface->context = std::move(*context);
    const odp::Device &device = iface->context->device();
    iface->address = {iface->context->address(), iface->context->options().payload_room,
                      host_of(device)};
    iface->max_pending = config.tx_max_pending;
    iface->latency = config.latency;
    iface->overhead = config.overhead;
    constexpr double unknown = 10e9 / 8;
    const double rate = device.bandwidth_mbps() * 1e6 / 8;
    iface->bandwidth = !UCS_CONFIG_DBL_IS_AUTO(config.bandwidth) ? config.bandwidth
                       : rate > 0                                ? rate
                                                                 : unknown;
    iface->context->set_am_handler(on_message, iface.get());
    iface->context->set_error_handler(on_error, iface.get());

    int count = 1;
    const ucs_status_t status =
        uct_base_iface_t_init(&iface->super, &uct_base_iface_t_class, &count, &ops, &internal_ops,
                              md, worker, params, tl_config);
    if (status != UCS_OK) {
        ucs_class_call_cleanup_chain(&uct_base_iface_t_class, iface.get(), count);
        return status;
    }
    *iface_p = &iface.release()->super.super;
    return UCS_OK;
}

} // namespace uct_odp
