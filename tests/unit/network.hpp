// SPDX-License-Identifier: BSD-3-Clause
//
// A network of connectors in one process, with its own clock and a seeded random number generator:
// it loses, repeats, delays and reorders datagrams as told.
#pragma once

#include "connector.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace odp::test {

struct NetworkRules {
    double loss = 0;      // probability, each way
    double duplicate = 0; // probability of a second copy
    Duration min_delay = std::chrono::microseconds(10);
    Duration max_delay = std::chrono::microseconds(10); // more than min: reordering
};

class Network;

class Node final : public ConnectorHost {
public:
    Node(Network &network, std::uint32_t qpn, const ConnectorLimits &limits);

    void send_datagram(const Address &to, std::span<const std::byte> bytes) override;
    std::uint64_t nonce() override;
    Result<ConnParams> prepare(Connection &connection) override;
    Status activate(Connection &connection, const ConnParams &peer) override;
    void established(Connection &connection) override;
    void failed(Connection &connection, const Status &why) override;
    void log(const std::string &line) override { lines.push_back(line); }

    Connection *connect(const Node &peer);
    // The process ends and another takes its place at the same queue pair number.
    void restart();

    Network &network;
    ConnectorLimits limits;
    Address address;
    std::unique_ptr<Connector> connector;
    std::uint32_t payload_room = 8192;
    Status prepare_result;
    Status activate_result;
    int prepared = 0;
    int activated = 0;
    int established_count = 0;
    std::vector<Status> failures;
    std::vector<std::string> lines;
    // What each connection's queue pair was connected with.
    std::map<const Connection *, ConnParams> wired;
    // Called at the moment of each establishment.
    std::function<void(Node &, Connection &)> on_established;
    bool deaf = false; // the process computes: datagrams wait for it
};

class Network {
public:
    Network(std::uint64_t seed, const NetworkRules &rules) : rules(rules), random(seed) {}

    Node &add(const ConnectorLimits &limits);
    void transmit(const Address &to, std::span<const std::byte> bytes);
    // Until nobody waits and nothing is under way, or until `limit` has passed. True: all quiet.
    bool run(Duration limit);
    [[nodiscard]] double chance() { return std::uniform_real_distribution<>(0, 1)(random); }

    NetworkRules rules;
    std::mt19937_64 random;
    TimePoint now{};
    std::vector<std::unique_ptr<Node>> nodes;
    std::uint64_t delivered = 0;

private:
    struct Packet {
        std::uint32_t qpn = 0;
        std::vector<std::byte> bytes;
    };
    void put(const Address &to, std::span<const std::byte> bytes);
    std::multimap<TimePoint, Packet> packets_;
};

inline ConnectorLimits default_limits()
{
    return {std::chrono::milliseconds(20), std::chrono::seconds(1), std::chrono::seconds(600)};
}

} // namespace odp::test
