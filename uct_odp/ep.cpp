// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoints: coming and going, waiting for resources, flush, loss of a peer.
#include "iface.hpp"
#include "log.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace uct_odp {

namespace {

// A pending request's private part.
struct Link {
    uct_pending_req_t *next;
};
static_assert(sizeof(Link) <= UCT_PENDING_REQ_PRIV_LEN);

uct_pending_req_t *next_of(const uct_pending_req_t *request)
{
    Link link{};
    std::memcpy(&link, request->priv, sizeof(link));
    return link.next;
}

void set_next(uct_pending_req_t *request, uct_pending_req_t *next)
{
    const Link link{next};
    std::memcpy(request->priv, &link, sizeof(link));
}

void start_waiting(Iface &iface, Ep &ep)
{
    if (ep.waiting_next != nullptr) {
        return;
    }
    if (iface.waiting == nullptr) {
        ep.waiting_next = ep.waiting_prev = iface.waiting = &ep;
        return;
    }
    ep.waiting_next = iface.waiting;
    ep.waiting_prev = iface.waiting->waiting_prev;
    ep.waiting_prev->waiting_next = &ep;
    iface.waiting->waiting_prev = &ep;
}

void stop_waiting(Iface &iface, Ep &ep)
{
    if (ep.waiting_next == nullptr) {
        return;
    }
    if (ep.waiting_next == &ep) {
        iface.waiting = nullptr;
    } else {
        ep.waiting_prev->waiting_next = ep.waiting_next;
        ep.waiting_next->waiting_prev = ep.waiting_prev;
        if (iface.waiting == &ep) {
            iface.waiting = ep.waiting_next;
        }
    }
    ep.waiting_next = ep.waiting_prev = nullptr;
}

uct_pending_req_t *pop(Ep &ep)
{
    uct_pending_req_t *request = ep.first;
    ep.first = next_of(request);
    if (ep.first == nullptr) {
        ep.last = nullptr;
    }
    return request;
}

void push_front(Ep &ep, uct_pending_req_t *request)
{
    set_next(request, ep.first);
    ep.first = request;
    if (ep.last == nullptr) {
        ep.last = request;
    }
}

// Peers that nobody leads to and that are gone: else a server would keep all it ever had.
void forget_lost(Iface &iface)
{
    std::erase_if(iface.peers, [&](auto &entry) {
        Peer &peer = *entry.second;
        if (peer.eps != nullptr ||
            (peer.connection != nullptr && !peer.connection->error().failed())) {
            return false;
        }
        if (odp::Endpoint *connection = std::exchange(peer.connection, nullptr)) {
            connection->user_data = nullptr;
            iface.context->close(*connection);
        }
        return true;
    });
}

odp::Result<Peer *> peer_of(Iface &iface, const odp::Address &address)
{
    auto &known = iface.peers[address];
    if (known == nullptr) {
        known = std::make_unique<Peer>();
        known->iface = &iface;
        known->address = address;
    }
    if (known->connection == nullptr && known->eps == nullptr) {
        auto connection = iface.context->endpoint(address);
        if (!connection) {
            iface.peers.erase(address);
            return connection.status();
        }
        known->connection = *connection;
        known->connection->user_data = known.get();
        known->error = {};
    }
    return known.get();
}

} // namespace

ucs_status_t ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p)
{
    constexpr std::uint64_t needed = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    if ((params->field_mask & needed) != needed) {
        log_line(UCS_LOG_LEVEL_ERROR, "uct_ep_create needs an interface and an interface address");
        return UCS_ERR_INVALID_PARAM;
    }
    Iface &iface = *iface_of(params->iface);
    const auto address = IfaceAddress::unpack(params->iface_addr);
    if (!address) {
        log_line(UCS_LOG_LEVEL_ERROR, address.status().text());
        return UCS_ERR_INVALID_ADDR;
    }
    try {
        forget_lost(iface);
        auto peer = peer_of(iface, address->address);
        if (!peer) {
            log_line(UCS_LOG_LEVEL_ERROR, peer.status().text());
            return ucs_status(peer.status());
        }
        Ep *ep = new Ep;
        ep->super.super.iface = params->iface;
        ep->peer = *peer;
        ep->peer_next = std::exchange((*peer)->eps, ep);
        *ep_p = &ep->super.super;
        return UCS_OK;
    } catch (const std::bad_alloc &) {
        return UCS_ERR_NO_MEMORY;
    }
}

void ep_destroy(uct_ep_h tl_ep)
{
    Ep *ep = ep_of(tl_ep);
    Iface &iface = *iface_of(tl_ep);
    stop_waiting(iface, *ep);
    if (iface.dispatching == ep) {
        iface.dispatching = nullptr;
    }
    Ep **link = &ep->peer->eps;
    while (*link != ep) {
        link = &(*link)->peer_next;
    }
    *link = ep->peer_next;
    delete ep;
    forget_lost(iface);
}

// Operations outstanding are ended; the endpoints stay, and new operations are refused.
void lose_peer(Peer &peer, const odp::Status &status)
{
    Iface &iface = *peer.iface;
    peer.error = status;
    if (odp::Endpoint *connection = std::exchange(peer.connection, nullptr)) {
        connection->user_data = nullptr;
        iface.context->close(*connection);
    }
    const ucs_status_t error = ucs_status(status);
    bool told = false;
    // UCP only notes the error in its handler and destroys endpoints later, but another user may
    // destroy this one.
    Ep *next = nullptr;
    for (Ep *ep = peer.eps; ep != nullptr; ep = next) {
        next = ep->peer_next;
        const ucs_status_t handled =
            uct_iface_handle_ep_err(&iface.super.super, &ep->super.super, error);
        if (!told) {
            log_line(handled == UCS_OK ? iface.super.config.failure_level : UCS_LOG_LEVEL_ERROR,
                     status.text());
            told = true;
        }
    }
    if (!told) {
        log_line(UCS_LOG_LEVEL_DEBUG, status.text());
    }
}

ucs_status_t check_resources(const Ep &ep) noexcept
{
    const Peer &peer = *ep.peer;
    if (peer.connection == nullptr) {
        return ucs_status(peer.error);
    }
    // What came later must not overtake what waits.
    const bool behind = ep.first != nullptr && peer.iface->dispatching != &ep;
    return behind || peer.connection->pending() >= peer.iface->max_pending ? UCS_ERR_NO_RESOURCE
                                                                           : UCS_OK;
}

ucs_status_t ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *request, unsigned)
{
    Ep &ep = *ep_of(tl_ep);
    const Peer &peer = *ep.peer;
    if (peer.connection == nullptr ||
        (ep.first == nullptr && check_resources(ep) == UCS_OK && !peer.iface->out_of_buffers())) {
        return UCS_ERR_BUSY; // try again: it works, or says why not
    }
    set_next(request, nullptr);
    if (ep.last != nullptr) {
        set_next(ep.last, request);
    } else {
        ep.first = request;
    }
    ep.last = request;
    start_waiting(*iface_of(tl_ep), ep);
    return UCS_OK;
}

void ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t callback, void *arg)
{
    Ep &ep = *ep_of(tl_ep);
    stop_waiting(*iface_of(tl_ep), ep);
    while (ep.first != nullptr) {
        uct_pending_req_t *request = pop(ep);
        if (callback != nullptr) {
            callback(request, arg);
        }
    }
}

unsigned dispatch_pending(Iface &iface)
{
    unsigned count = 0;
    // Each endpoint once at most, and none twice if they come and go meanwhile.
    Ep *const last = iface.waiting != nullptr ? iface.waiting->waiting_prev : nullptr;
    for (bool more = last != nullptr; more && iface.waiting != nullptr;) {
        Ep *ep = iface.waiting;
        more = ep != last;
        iface.dispatching = ep;
        bool blocked = false;
        while (iface.dispatching == ep && ep->first != nullptr && !blocked) {
            uct_pending_req_t *request = pop(*ep);
            const ucs_status_t status = request->func(request);
            if (status == UCS_OK) {
                ++count;
            } else if (iface.dispatching == ep) {
                push_front(*ep, request);
                blocked = true;
            }
        }
        if (iface.dispatching != ep) {
            break; // it was destroyed, `last` may have been, too
        }
        iface.dispatching = nullptr;
        if (ep->first == nullptr) {
            stop_waiting(iface, *ep);
        } else if (iface.waiting == ep) {
            iface.waiting = ep->waiting_next;
        }
    }
    return count;
}

namespace {

ucs_status_t cancel(Peer &peer)
{
    // The connection is shared. Only the last endpoint may take it down.
    const bool shared = peer.eps != nullptr && peer.eps->peer_next != nullptr;
    if (shared || peer.connection->pending() == 0) {
        return UCS_INPROGRESS;
    }
    odp::Endpoint *connection = std::exchange(peer.connection, nullptr);
    peer.error = {odp::Code::flushed, "the endpoint was flushed with UCT_FLUSH_FLAG_CANCEL"};
    connection->user_data = nullptr;
    peer.iface->context->close(*connection);
    return UCS_OK;
}

} // namespace

ucs_status_t ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *completion)
{
    Ep &ep = *ep_of(tl_ep);
    Iface &iface = *iface_of(tl_ep);
    Peer &peer = *ep.peer;
    if (peer.connection == nullptr) {
        return (flags & UCT_FLUSH_FLAG_CANCEL) != 0 ? UCS_OK : ucs_status(peer.error);
    }
    if ((flags & UCT_FLUSH_FLAG_CANCEL) != 0 && cancel(peer) == UCS_OK) {
        return UCS_OK;
    }
    if (peer.connection->quiet() || peer.connection->error().failed()) {
        return UCS_OK; // nothing was lost: an error with operations pending is no end of peace
    }
    if (completion == nullptr) {
        // Asked again and again. One empty write tells when inlined messages have arrived.
        if (peer.connection->pending() == 0) {
            const odp::Status status =
                peer.connection->put(nullptr, 0, 0, nullptr);
            return status.failed() ? ucs_status(status) : UCS_INPROGRESS;
        }
        return UCS_INPROGRESS;
    }
    Op *op = iface.take_op(completion);
    if (op == nullptr) {
        return UCS_ERR_NO_MEMORY;
    }
    const odp::Status status = peer.connection->put(nullptr, 0, 0, op);
    if (!status.in_progress()) {
        iface.give_op(op);
    }
    return ucs_status(status);
}

// Operations on a connection take effect in the order of the calls.
ucs_status_t ep_fence(uct_ep_h, unsigned)
{
    return UCS_OK;
}

ucs_status_t ep_check(uct_ep_h tl_ep, unsigned, uct_completion_t *completion)
{
    const Peer &peer = *ep_of(tl_ep)->peer;
    if (completion != nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (peer.connection == nullptr) {
        return ucs_status(peer.error);
    }
    if (peer.connection->pending() != 0) {
        return UCS_OK; // those will tell
    }
    // An error comes by the error handler.
    const odp::Status status = peer.connection->put(nullptr, 0, 0, nullptr);
    return status.failed() ? ucs_status(status) : UCS_OK;
}

} // namespace uct_odp
