// SPDX-License-Identifier: BSD-3-Clause
#include "connector.hpp"

#include "format.hpp"

#include <algorithm>

namespace odp {

namespace {

using State = Connection::State;

double seconds(Duration duration) noexcept
{
    return std::chrono::duration<double>(duration).count();
}

} // namespace

Connector::Connector(ConnectorHost &host, const Address &self, const ConnectorLimits &limits)
    : host_(host),
      self_(self),
      limits_(limits)
{
}

Connection *Connector::find(const Address &peer) noexcept
{
    const auto at = connections_.find(peer);
    return at == connections_.end() ? nullptr : at->second.get();
}

Result<Connection *> Connector::open(const Address &peer, void *user, bool passive, TimePoint now)
{
    auto owned = std::make_unique<Connection>();
    Connection &connection = *owned;
    connection.user = user;
    connection.peer_ = peer;
    connection.passive_ = passive;
    connection.nonce_ = host_.nonce();
    connection.started_ = now;
    connection.interval_ = limits_.interval;
    auto params = host_.prepare(connection);
    if (!params) {
        return params.status();
    }
    connection.local_ = *params;
    connections_.emplace(peer, std::move(owned));
    return &connection;
}

Result<Connection *> Connector::connect(const Address &peer, void *user, TimePoint now)
{
    if (Connection *known = find(peer)) {
        if (known->state_ == State::failed) {
            return known->error_;
        }
        return known;
    }
    auto opened = open(peer, user, false, now);
    if (!opened) {
        return opened;
    }
    Connection &connection = **opened;
    if (peer == self_) {
        // Both ends are this queue pair: there is nothing to exchange.
        connection.peer_nonce_ = connection.nonce_;
        connection.remote_ = connection.local_;
        if (const Status status = host_.activate(connection, connection.remote_); status.failed()) {
            connections_.erase(peer);
            return status;
        }
        establish(connection);
        return &connection;
    }
    hello(connection);
    arm(connection, now);
    return &connection;
}

void Connector::close(Connection &connection)
{
    disarm(connection);
    if (connection.state_ == State::accepted) {
        reject(connection.peer_, connection.peer_nonce_, "the peer has closed the connection");
    }
    const Address peer = connection.peer_; // erase() destroys the one in the connection
    connections_.erase(peer);
}

void Connector::broken(Connection &connection, const Status &why)
{
    disarm(connection);
    connection.state_ = State::failed;
    connection.error_ = why;
}

void Connector::traffic(Connection &connection)
{
    if (connection.state_ == State::accepted) {
        establish(connection);
    }
}

void Connector::receive(std::span<const std::byte> datagram, TimePoint now)
{
    Handshake::Refusal refusal;
    auto message = Handshake::decode(datagram, refusal);
    if (!message) {
        ++counters_.malformed;
        if (refusal.other_version && refusal.to_session == self_.session) {
            reject(refusal.from, refusal.nonce,
                   format("it speaks handshake version %u, the peer %u: use one version of libodp",
                          refusal.version, Handshake::version));
        }
        return;
    }
    if (message->to_session != self_.session) {
        ++counters_.stale; // meant for a process that had this queue pair number before
        return;
    }
    if (message->type == Handshake::Type::reject) {
        on_reject(*message);
    } else {
        on_hello(*message, now);
    }
}

void Connector::on_hello(const Handshake &message, TimePoint now)
{
    Connection *connection = find(message.from);
    if (connection == nullptr) {
        if (message.accepted != 0) {
            // An answer to a connection that was closed here meanwhile.
            ++counters_.stale;
            if (message.wants_reply) {
                reject(message.from, message.nonce, "the peer has closed the connection");
            }
            return;
        }
        auto opened = open(message.from, nullptr, true, now);
        if (!opened) {
            ++counters_.rejected;
            reject(message.from, message.nonce, opened.status().text());
            return;
        }
        connection = *opened;
    }
    if (connection->state_ == State::failed) {
        ++counters_.rejected;
        if (message.wants_reply) {
            reject(message.from, message.nonce,
                   format("its connection has failed: %s", connection->error_.text()));
        }
        return;
    }
    if (message.accepted != 0 && message.accepted != connection->nonce_) {
        ++counters_.stale; // the answer to a connection that was closed here
        if (message.wants_reply) {
            reject(message.from, message.nonce, "the peer has closed that connection");
        }
        return;
    }
    if (connection->peer_nonce_ == 0) {
        if (!accept(*connection, message)) {
            return;
        }
        arm(*connection, now);
    } else if (connection->peer_nonce_ != message.nonce) {
        ++counters_.stale;
        // Either a late duplicate, whose sender ignores a refusal, or a peer that gave up the
        // connection and tries anew. If this side is still asking the peer to confirm, it will hear
        // that the connection is closed, and the peer asks again; else it can't know.
        if (message.wants_reply && connection->state_ == State::established) {
            reject(message.from, message.nonce, "the peer still has an earlier connection");
        }
        return;
    }
    if (message.accepted != 0) {
        establish(*connection);
    }
    if (message.wants_reply) {
        hello(*connection);
    }
}

// Takes the peer's parameters. False if that failed; both sides know then.
bool Connector::accept(Connection &connection, const Handshake &message)
{
    Status status;
    if (message.params.payload_room != connection.local_.payload_room) {
        status = {Code::rejected,
                  format("room for %u bytes in a message on one side and %u on the other: set the "
                         "same payload_room (eager limit) in all processes",
                         message.params.payload_room, connection.local_.payload_room)};
    } else {
        status = host_.activate(connection, message.params);
    }
    if (status.failed()) {
        ++counters_.rejected;
        reject(message.from, message.nonce, status.text());
        fail(connection, status);
        return false;
    }
    connection.peer_nonce_ = message.nonce;
    connection.remote_ = message.params;
    connection.state_ = State::accepted;
    return true;
}

void Connector::on_reject(const Handshake &message)
{
    Connection *connection = find(message.from);
    if (connection == nullptr || connection->nonce_ != message.nonce ||
        connection->state_ == State::established || connection->state_ == State::failed) {
        ++counters_.stale;
        return;
    }
    fail(*connection,
         {Code::rejected, format("peer %s refused the connection: %s",
                                 connection->peer_.str().c_str(), message.reason.c_str())});
}

void Connector::tick(TimePoint now)
{
    while (!timers_.empty() && timers_.begin()->first <= now) {
        Connection &connection = *timers_.begin()->second;
        const Duration waited = now - connection.started_;
        if (waited >= limits_.timeout) {
            fail(connection,
                 {Code::timed_out,
                  format("no answer from peer %s after %u requests in %.1f s (limit %.1f s, "
                         "connect_timeout): its process has ended, or it doesn't call the library",
                         connection.peer_.str().c_str(), connection.sent_, seconds(waited),
                         seconds(limits_.timeout))});
            continue;
        }
        ++counters_.resent;
        connection.interval_ = std::min(connection.interval_ * 2, limits_.interval_max);
        hello(connection);
        arm(connection, now);
        if (connection.sent_ == 32) {
            host_.log(format("still no answer from peer %s after %.1f s; going on for up to %.1f s",
                             connection.peer_.str().c_str(), seconds(waited),
                             seconds(limits_.timeout)));
        }
    }
}

void Connector::establish(Connection &connection)
{
    if (connection.state_ == State::established) {
        return;
    }
    disarm(connection);
    connection.state_ = State::established;
    host_.established(connection);
}

void Connector::fail(Connection &connection, const Status &why)
{
    broken(connection, why);
    host_.failed(connection, why);
}

void Connector::hello(Connection &connection)
{
    Handshake message;
    message.to_session = connection.peer_.session;
    message.from = self_;
    message.nonce = connection.nonce_;
    message.accepted = connection.peer_nonce_;
    message.wants_reply = connection.state_ != State::established;
    message.params = connection.local_;
    ++connection.sent_;
    transmit(connection.peer_, message);
}

void Connector::reject(const Address &to, std::uint64_t nonce, const std::string &reason)
{
    Handshake message;
    message.type = Handshake::Type::reject;
    message.to_session = to.session;
    message.from = self_;
    message.nonce = nonce;
    message.reason = reason;
    transmit(to, message);
}

void Connector::transmit(const Address &to, const Handshake &message)
{
    Handshake::Bytes bytes{};
    const std::size_t used = message.encode(bytes);
    ++counters_.sent;
    host_.send_datagram(to, std::span(bytes).first(used));
}

// Not beyond the limit: a connection is given up then, not one interval later.
void Connector::arm(Connection &connection, TimePoint now)
{
    disarm(connection);
    if (connection.state_ == State::established || connection.state_ == State::failed) {
        return;
    }
    connection.next_ = std::min(now + connection.interval_, connection.started_ + limits_.timeout);
    timers_.emplace(connection.next_, &connection);
}

void Connector::disarm(Connection &connection) noexcept
{
    timers_.erase({connection.next_, &connection});
}

} // namespace odp
