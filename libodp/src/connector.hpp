// SPDX-License-Identifier: BSD-3-Clause
//
// Who is connected to whom, by a handshake over unreliable datagrams. Knows neither verbs nor the
// clock, so that tests can run it over a network that loses, repeats and reorders.
//
// One message does it, HELLO: "these are my queue pair's parameters; `accepted`: I am ready to
// receive on your connection of that number; `wants_reply`: I don't know yet whether you are ready
// for mine". It is sent again until the peer has said `accepted`, and answered whenever it wants a
// reply. Usually that makes three datagrams (request, reply, ready to use). When both sides start
// at once their requests cross and each takes the other's as the reply to its own: both use the one
// queue pair that each has made for the other, so there is one per pair without an election.
//
// A connection has a random number (nonce) on each side, a process has one (Address::session), and
// messages name both: what belongs to an earlier incarnation is recognised and refused or dropped.
// The session number isn't known to others than those who were given the address, so that a
// stranger can't open connections.
#pragma once

#include "odp/address.hpp"
#include "odp/status.hpp"

#include "clock.hpp"
#include "handshake.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

namespace odp {

class Connection {
public:
    enum class State : std::uint8_t {
        requesting,  // the peer's parameters aren't known
        accepted,    // known and in use; the peer may not be ready to receive yet
        established, // both sides are ready
        failed,      // for good; kept so that the peer's requests get an answer
    };

    [[nodiscard]] State state() const noexcept { return state_; }
    [[nodiscard]] const Address &peer() const noexcept { return peer_; }
    // Made by the peer's request, not by connect().
    [[nodiscard]] bool passive() const noexcept { return passive_; }
    [[nodiscard]] const ConnParams &local_params() const noexcept { return local_; }
    // Valid from `accepted` on.
    [[nodiscard]] const ConnParams &peer_params() const noexcept { return remote_; }

    void *user = nullptr; // the host's

private:
    friend class Connector;

    Address peer_;
    State state_ = State::requesting;
    bool passive_ = false;
    ConnParams local_;
    ConnParams remote_;
    std::uint64_t nonce_ = 0;
    std::uint64_t peer_nonce_ = 0;
    Status error_;
    unsigned sent_ = 0; // requests, for the message when nobody answers
    TimePoint started_;
    TimePoint next_; // valid while it is in Connector::timers_
    Duration interval_{};
};

// What the connector needs of its surroundings. Calls come from inside the connector's functions;
// they must not call back into it.
class ConnectorHost {
public:
    // May lose it silently.
    virtual void send_datagram(const Address &to, std::span<const std::byte> bytes) = 0;
    // A random number, never 0.
    virtual std::uint64_t nonce() = 0;
    // Makes a queue pair that could be connected, with its receives posted.
    virtual Result<ConnParams> prepare(Connection &connection) = 0;
    // Connects it: from here on it receives, and it can send once established() is called.
    virtual Status activate(Connection &connection, const ConnParams &peer) = 0;
    virtual void established(Connection &connection) = 0;
    virtual void failed(Connection &connection, const Status &why) = 0;
    virtual void log(const std::string &line) = 0;

protected:
    ~ConnectorHost() = default;
};

struct ConnectorLimits {
    Duration interval;     // until the first retransmission; doubled each time
    Duration interval_max; // up to this
    Duration timeout;      // from the first request to giving up
};

class Connector {
public:
    struct Counters {
        std::uint64_t sent = 0;
        std::uint64_t resent = 0;
        std::uint64_t malformed = 0; // datagrams that don't parse
        std::uint64_t stale = 0;     // of another incarnation of a process or connection
        std::uint64_t rejected = 0;  // requests refused
    };

    Connector(ConnectorHost &host, const Address &self, const ConnectorLimits &limits);

    // Starts connecting to `peer`, or joins the connection that there is. The pointer is valid
    // until close(). Errors: those of prepare(); that of the connection if it has failed.
    Result<Connection *> connect(const Address &peer, void *user, TimePoint now);
    [[nodiscard]] Connection *find(const Address &peer) noexcept;
    // Forgets the connection and tells a peer that is still waiting for it.
    void close(Connection &connection);
    // The connection broke after it was established: the peer's requests will be refused.
    void broken(Connection &connection, const Status &why);
    // Something arrived on the connection's queue pair: so the peer is ready.
    void traffic(Connection &connection);

    void receive(std::span<const std::byte> datagram, TimePoint now);
    // Sends again what is due and gives up what has taken too long.
    void tick(TimePoint now);
    // Something waits for a datagram or a retransmission: tick() has to be called from time to
    // time.
    [[nodiscard]] bool waiting() const noexcept { return !timers_.empty(); }

    [[nodiscard]] const Counters &counters() const noexcept { return counters_; }
    [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }

private:
    Result<Connection *> open(const Address &peer, void *user, bool passive, TimePoint now);
    void hello(Connection &connection);
    void reject(const Address &to, std::uint64_t nonce, const std::string &reason);
    void transmit(const Address &to, const Handshake &message);
    void on_hello(const Handshake &message, TimePoint now);
    void on_reject(const Handshake &message);
    bool accept(Connection &connection, const Handshake &message);
    void establish(Connection &connection);
    void fail(Connection &connection, const Status &why);
    void arm(Connection &connection, TimePoint now);
    void disarm(Connection &connection) noexcept;

    ConnectorHost &host_;
    Address self_;
    ConnectorLimits limits_;
    Counters counters_;
    std::unordered_map<Address, std::unique_ptr<Connection>> connections_;
    std::set<std::pair<TimePoint, Connection *>> timers_;
};

} // namespace odp
