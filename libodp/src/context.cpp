// SPDX-License-Identifier: BSD-3-Clause
//
// The running of a Context: endpoints, events, time.
#include "context_impl.hpp"

#include "format.hpp"
#include "random.hpp"

#include <algorithm>
#include <new>
#include <sched.h>
#include <utility>

namespace odp {

Result<Endpoint *> ContextImpl::endpoint(const Address &peer)
{
    if (guard_.in_child()) {
        return {Code::unsupported, "connections don't survive fork(): use them in the parent only"};
    }
    try {
        const auto known = by_address_.find(peer);
        ContextEndpoint *endpoint =
            known != by_address_.end() ? known->second : make_endpoint(peer);
        if (endpoint == nullptr) {
            return {Code::no_resource,
                    format("%u endpoints are open, that is the limit", WorkId::max_index + 1)};
        }
        endpoint->wanted = true;
        return endpoint;
    } catch (const std::bad_alloc &) {
        return Status(Code::no_memory);
    }
}

ContextEndpoint *ContextImpl::make_endpoint(const Address &peer)
{
    std::uint32_t index = 0;
    if (free_.empty()) {
        index = static_cast<std::uint32_t>(endpoints_.size());
        if (index > WorkId::max_index) {
            return nullptr;
        }
        endpoints_.emplace_back();
        generations_.push_back(0);
        free_.reserve(endpoints_.size()); // so that remove() doesn't allocate
    } else {
        index = free_.back();
        free_.pop_back();
    }
    const EndpointLimits limits{
        options_.send_depth, fabric_.max_inline,
        options_.max_message != 0 ? options_.max_message : device_.max_message(), region_->lkey()};
    auto endpoint = std::make_unique<ContextEndpoint>(*this, statistics_, peer, limits);
    endpoint->index = index;
    endpoint->generation = generations_[index];
    by_address_[peer] = endpoint.get();
    endpoints_[index] = std::move(endpoint);
    return endpoints_[index].get();
}

void ContextImpl::close(Endpoint &endpoint)
{
    auto &closed = static_cast<ContextEndpoint &>(endpoint);
    if (closed.closing || guard_.in_child()) {
        return;
    }
    closed.closing = true;
    ++depth_;
    closed.say_goodbye();
    closed.fail({Code::flushed, "the endpoint of " + closed.name() + " was closed"});
    if (closed.connection != nullptr) {
        connector_->close(*closed.connection);
        closed.connection = nullptr;
    }
    // A new endpoint to the same peer may be made from now on.
    by_address_.erase(closed.peer_address());
    closing_.push_back(&closed);
    if (--depth_ == 0) {
        reap();
    }
}

void ContextImpl::reap()
{
    while (!closing_.empty()) {
        ContextEndpoint *endpoint = closing_.back();
        closing_.pop_back();
        remove(*endpoint);
    }
}

void ContextImpl::remove(ContextEndpoint &endpoint) noexcept
{
    const std::uint32_t index = endpoint.index;
    std::erase(deferred_, &endpoint);
    endpoints_[index].reset();
    ++generations_[index];
    free_.push_back(index);
}

SendBuffer *ContextImpl::alloc()
{
    return guard_.in_child() ? nullptr : pool_->alloc();
}

void ContextImpl::release(SendBuffer &buffer) noexcept
{
    pool_->release(buffer);
}

void ContextImpl::set_am_handler(std::uint8_t am_id, AmHandler handler, void *arg)
{
    handlers_[am_id] = {handler, arg};
}

void ContextImpl::set_am_handler(AmHandler handler, void *arg)
{
    handlers_.fill({handler, arg});
}

void ContextImpl::set_error_handler(ErrorHandler handler, void *arg)
{
    error_handler_ = handler;
    error_arg_ = arg;
}

// EndpointHost

Status ContextImpl::start_connecting(EndpointCore &core)
{
    auto &endpoint = static_cast<ContextEndpoint &>(core);
    auto connection = connector_->connect(endpoint.peer_address(), &endpoint, Clock::now());
    statistics_.handshake_resent = connector_->counters().resent;
    return connection ? Status() : connection.status();
}

bool ContextImpl::deliver(EndpointCore &endpoint, std::uint8_t am_id,
                          std::span<const std::byte> data)
{
    const Handler handler = handlers_[am_id];
    if (handler.function == nullptr) {
        return false;
    }
    handler.function(handler.arg, endpoint, am_id, data);
    return true;
}

void ContextImpl::defer(EndpointCore &core)
{
    auto &endpoint = static_cast<ContextEndpoint &>(core);
    if (!endpoint.deferred) {
        endpoint.deferred = true;
        deferred_.push_back(&endpoint);
    }
}

void ContextImpl::endpoint_failed(EndpointCore &core, const Status &status)
{
    auto &endpoint = static_cast<ContextEndpoint &>(core);
    if (endpoint.closing) {
        return;
    }
    if (endpoint.connection != nullptr) {
        connector_->broken(*endpoint.connection, status);
    }
    if (!endpoint.wanted && !endpoint.established) {
        // A peer began to connect and went away; nobody here has heard of it.
        say(LogLevel::info, status.text());
        close(endpoint);
        return;
    }
    // Whoever handles errors decides how loud they are.
    say(error_handler_ != nullptr ? LogLevel::info : LogLevel::error, status.text());
    if (error_handler_ != nullptr) {
        error_handler_(error_arg_, endpoint, status);
    }
}

// ConnectorHost: these don't run callbacks, but defer what does.

void ContextImpl::send_datagram(const Address &to, std::span<const std::byte> bytes)
{
    const Status status = ud_->send(to, bytes);
    if (status.failed() && status.code() != Code::no_resource) {
        say(LogLevel::warning, status.text()); // the connector sends it again, until its limit
    }
}

std::uint64_t ContextImpl::nonce()
{
    return random_nonzero();
}

Result<ConnParams> ContextImpl::prepare(Connection &connection)
{
    auto *endpoint = static_cast<ContextEndpoint *>(connection.user);
    const bool made = endpoint == nullptr && !by_address_.contains(connection.peer());
    if (endpoint == nullptr) {
        endpoint = made ? make_endpoint(connection.peer()) : by_address_[connection.peer()];
    }
    if (endpoint == nullptr) {
        return {Code::no_resource, "no more endpoints can be opened"};
    }
    if (endpoint->failure().failed()) {
        return endpoint->failure();
    }
    auto wire = RcWire::create(fabric_, endpoint->index, endpoint->generation);
    if (!wire) {
        if (made) {
            by_address_.erase(connection.peer());
            remove(*endpoint);
        }
        return wire.status();
    }
    connection.user = endpoint;
    endpoint->connection = &connection;
    endpoint->wire = std::move(*wire);
    return endpoint->wire->params();
}

Status ContextImpl::activate(Connection &connection, const ConnParams &peer)
{
    return static_cast<ContextEndpoint *>(connection.user)->wire->connect(connection.peer(), peer);
}

void ContextImpl::established(Connection &connection)
{
    auto &endpoint = *static_cast<ContextEndpoint *>(connection.user);
    endpoint.established = true;
    defer(endpoint);
}

void ContextImpl::failed(Connection &connection, const Status &why)
{
    auto &endpoint = *static_cast<ContextEndpoint *>(connection.user);
    endpoint.fail_later(why);
}

// progress

void ContextImpl::make_ready(ContextEndpoint &endpoint)
{
    if (endpoint.is_ready() || endpoint.has_failed() || endpoint.connection == nullptr) {
        return;
    }
    ++statistics_.connections;
    const ConnParams &peer = endpoint.connection->peer_params();
    endpoint.ready(*endpoint.wire, peer.rkey, Credits(peer.recv_depth, options_.recv_depth));
}

void ContextImpl::run_deferred()
{
    while (!deferred_.empty()) {
        ContextEndpoint &endpoint = *deferred_.back();
        deferred_.pop_back();
        endpoint.deferred = false;
        if (endpoint.closing) {
            continue;
        }
        if (endpoint.established) {
            make_ready(endpoint);
        }
        endpoint.run_deferred();
    }
}

void ContextImpl::serve(const ibv_wc &completion)
{
    const WorkId id = WorkId::unpack(completion.wr_id);
    if (id.kind == WorkId::Kind::ud_recv || id.kind == WorkId::Kind::ud_send) {
        serve_ud(id, completion);
    } else {
        serve_rc(id, completion);
    }
}

void ContextImpl::serve_rc(const WorkId &id, const ibv_wc &completion)
{
    if (id.index >= endpoints_.size() || endpoints_[id.index] == nullptr) {
        return;
    }
    ContextEndpoint &endpoint = *endpoints_[id.index];
    if (endpoint.generation != id.generation || endpoint.has_failed()) {
        return; // left over from a queue pair that was destroyed
    }
    if (id.kind == WorkId::Kind::rc_send) {
        endpoint.on_sent(id.item, wire_result(completion));
        return;
    }
    if (completion.status != IBV_WC_SUCCESS) {
        endpoint.on_receive_error(wire_result(completion));
        return;
    }
    if (!endpoint.is_ready()) {
        // It overtook the last datagram of the handshake.
        connector_->traffic(*endpoint.connection);
        make_ready(endpoint);
    }
    endpoint.on_received(id.item, completion.byte_len);
    // A peer that came by itself and left is nobody's: else a server would keep all it ever had.
    if (endpoint.peer_left() && !endpoint.wanted && endpoint.user_data == nullptr) {
        close(endpoint);
    }
}

void ContextImpl::serve_ud(const WorkId &id, const ibv_wc &completion)
{
    if (completion.status != IBV_WC_SUCCESS && !std::exchange(datagrams_failed_, true)) {
        say(LogLevel::error,
            format("%s: a datagram request ended with %s (status %d): no more "
                   "connections can be made",
                   device_.str().c_str(), ibv_wc_status_str(completion.status), completion.status));
    }
    if (id.kind == WorkId::Kind::ud_send) {
        ud_->on_sent(id.item);
        return;
    }
    if (completion.status != IBV_WC_SUCCESS) {
        return;
    }
    try {
        connector_->receive(ud_->received(id.item, completion.byte_len), Clock::now());
    } catch (const std::bad_alloc &) {
        say(LogLevel::error, "no memory for a connection request; the peer will ask again");
    }
    if (const Status status = ud_->repost(id.item); status.failed()) {
        say(LogLevel::error, status.text());
    }
}

int ContextImpl::serve_batch()
{
    int events = 0;
    while (batch_next_ < batch_end_) {
        const ibv_wc completion = batch_[batch_next_++];
        serve(completion);
        ++events;
    }
    return events;
}

int ContextImpl::progress()
{
    if (guard_.in_child()) {
        return 0;
    }
    ++depth_;
    run_deferred();
    int events = serve_batch(); // of an outer call
    for (std::size_t i = 0; i < queues_->size(); ++i) {
        const int count = queues_->poll(i, batch_);
        if (count < 0) {
            if (!poll_failed_) {
                say(LogLevel::error, device_.str() + ": ibv_poll_cq failed");
            }
            poll_failed_ = true;
            continue;
        }
        batch_next_ = 0;
        batch_end_ = static_cast<std::size_t>(count);
        events += serve_batch();
    }
    if ((connector_->waiting() || starving_ > 0 || options_.idle_probe.count() != 0) &&
        ++calls_ % clock_interval == 0) {
        watch_time();
    }
    run_deferred();
    if (--depth_ == 0 && !closing_.empty()) {
        reap();
    }
    return events;
}

void ContextImpl::watch_time()
{
    const TimePoint now = Clock::now();
    connector_->tick(now);
    statistics_.handshake_resent = connector_->counters().resent;
    constexpr std::chrono::milliseconds interval{50};
    if (now - alive_checked_ < interval) {
        return;
    }
    alive_checked_ = now;
    for (const auto &endpoint : endpoints_) {
        if (endpoint != nullptr) {
            endpoint->check_alive(now, options_.stall_probe, options_.idle_probe);
        }
    }
}

Status ContextImpl::drain(std::chrono::milliseconds limit)
{
    const TimePoint deadline = Clock::now() + limit;
    for (;;) {
        progress();
        ContextEndpoint *waiting = nullptr;
        for (const auto &endpoint : endpoints_) {
            if (endpoint == nullptr || endpoint->has_failed() || endpoint->peer_left()) {
                continue;
            }
            if (endpoint->outstanding() == 0 && endpoint->unsignaled() != 0) {
                endpoint->probe(); // tells when the inlined messages before it have arrived
            }
            if (endpoint->outstanding() != 0 || endpoint->posted() != 0) {
                waiting = endpoint.get();
            }
        }
        if (waiting == nullptr || guard_.in_child()) {
            return {};
        }
        if (Clock::now() >= deadline) {
            return {Code::timed_out, format("after %lld ms %zu operations with %s aren't done",
                                            static_cast<long long>(limit.count()),
                                            waiting->outstanding(), waiting->name().c_str())};
        }
        sched_yield(); // the peer may need this CPU to answer
    }
}

} // namespace odp
