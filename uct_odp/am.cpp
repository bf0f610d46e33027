// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages.
#include "iface.hpp"

#include <cstring>

namespace uct_odp {

namespace {

// nullptr: `status` says why not.
odp::SendBuffer *start(const Ep &ep, ucs_status_t &status)
{
    status = check_resources(ep);
    if (status != UCS_OK) {
        return nullptr;
    }
    odp::SendBuffer *buffer = ep.peer->iface->context->alloc();
    if (buffer == nullptr) {
        status = UCS_ERR_NO_RESOURCE;
    }
    return buffer;
}

ucs_status_t send(const Ep &ep, odp::SendBuffer &buffer, std::uint8_t id, std::size_t length)
{
    const odp::Status status = ep.peer->connection->send(buffer, id, length, nullptr);
    if (status.failed()) {
        ep.peer->iface->context->release(buffer);
        return ucs_status(status);
    }
    return UCS_OK;
}

} // namespace

ucs_status_t ep_am_short(uct_ep_h tl_ep, std::uint8_t id, std::uint64_t header, const void *payload,
                         unsigned length)
{
    const Ep &ep = *ep_of(tl_ep);
    ucs_status_t status = UCS_OK;
    odp::SendBuffer *buffer = start(ep, status);
    if (buffer == nullptr) {
        return status;
    }
    const auto room = buffer->payload();
    if (sizeof(header) + length > room.size()) {
        iface_of(tl_ep)->context->release(*buffer);
        return UCS_ERR_INVALID_PARAM;
    }
    std::memcpy(room.data(), &header, sizeof(header));
    if (length != 0) {
        std::memcpy(&room[sizeof(header)], payload, length);
    }
    return send(ep, *buffer, id, sizeof(header) + length);
}

ucs_status_t ep_am_short_iov(uct_ep_h tl_ep, std::uint8_t id, const uct_iov_t *iov,
                             std::size_t count)
{
    const Ep &ep = *ep_of(tl_ep);
    ucs_status_t status = UCS_OK;
    odp::SendBuffer *buffer = start(ep, status);
    if (buffer == nullptr) {
        return status;
    }
    const auto room = buffer->payload();
    std::size_t length = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t piece = iov[i].length * iov[i].count;
        if (piece > room.size() - length) {
            iface_of(tl_ep)->context->release(*buffer);
            return UCS_ERR_INVALID_PARAM;
        }
        if (piece != 0) {
            std::memcpy(&room[length], iov[i].buffer, piece);
        }
        length += piece;
    }
    return send(ep, *buffer, id, length);
}

ssize_t ep_am_bcopy(uct_ep_h tl_ep, std::uint8_t id, uct_pack_callback_t pack, void *arg, unsigned)
{
    const Ep &ep = *ep_of(tl_ep);
    ucs_status_t status = UCS_OK;
    odp::SendBuffer *buffer = start(ep, status);
    if (buffer == nullptr) {
        return status;
    }
    const std::size_t length = pack(buffer->payload().data(), arg);
    status = send(ep, *buffer, id, length);
    return status == UCS_OK ? static_cast<ssize_t>(length) : static_cast<ssize_t>(status);
}

} // namespace uct_odp
