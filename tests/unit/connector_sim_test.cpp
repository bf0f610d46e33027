// SPDX-License-Identifier: BSD-3-Clause
//
// Thousands of runs of the connector over bad networks. Every run is determined by its seed, which a
// failure prints.
#include "network.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace odp::test {
namespace {

using State = Connection::State;

NetworkRules bad_rules(std::mt19937_64 &random)
{
    std::uniform_real_distribution<> unit(0, 1);
    NetworkRules rules;
    rules.loss = unit(random) * 0.6;
    rules.duplicate = unit(random) * 0.5;
    rules.max_delay = std::chrono::microseconds(static_cast<int>(10 + unit(random) * 200000));
    return rules;
}

// Whoever holds a connection to be established may send on it at once: so the peer's queue pair must
// be connected to this one by then.
void expect_peer_is_ready(Node &node, Connection &connection)
{
    for (const auto &other : node.network.nodes) {
        if (other->address == connection.peer()) {
            Connection *back = other->connector->find(node.address);
            ASSERT_NE(back, nullptr);
            EXPECT_EQ(other->wired[back], connection.local_params());
        }
    }
}

TEST(ConnectorSimulation, PairsAlwaysConnect)
{
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        Network network(seed, bad_rules(random));
        Node &a = network.add(default_limits());
        Node &b = network.add(default_limits());
        a.on_established = b.on_established = expect_peer_is_ready;
        a.connect(b);
        if (seed % 3 != 0) {
            // At about the same time: before, while or after the first request is under way.
            network.run(std::chrono::milliseconds(random() % 60));
            b.connect(a);
        }
        ASSERT_TRUE(network.run(610s));
        Connection *ab = a.connector->find(b.address);
        Connection *ba = b.connector->find(a.address);
        ASSERT_NE(ab, nullptr);
        ASSERT_NE(ba, nullptr);
        ASSERT_EQ(ab->state(), State::established);
        ASSERT_EQ(ba->state(), State::established);
        ASSERT_EQ(ab->peer_params(), ba->local_params());
        ASSERT_EQ(ba->peer_params(), ab->local_params());
        ASSERT_EQ(a.prepared, 1);
        ASSERT_EQ(b.prepared, 1);
        ASSERT_EQ(a.activated, 1);
        ASSERT_EQ(b.activated, 1);
        ASSERT_EQ(a.established_count, 1);
        ASSERT_EQ(b.established_count, 1);
    }
}

TEST(ConnectorSimulation, AllToAll)
{
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        Network network(seed, bad_rules(random));
        constexpr int count = 8;
        for (int i = 0; i < count; ++i) {
            network.add(default_limits()).on_established = expect_peer_is_ready;
        }
        for (const auto &a : network.nodes) {
            for (const auto &b : network.nodes) {
                a->connect(*b);
                network.run(std::chrono::milliseconds(random() % 5));
            }
        }
        ASSERT_TRUE(network.run(610s));
        for (const auto &a : network.nodes) {
            EXPECT_EQ(a->prepared, count);
            EXPECT_EQ(a->established_count, count);
            EXPECT_TRUE(a->failures.empty());
        }
    }
}

TEST(ConnectorSimulation, ErrorsComeWithinTheBound)
{
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        NetworkRules rules = bad_rules(random);
        rules.loss = 0.8 + 0.2 * static_cast<double>(seed % 5) / 4; // up to everything
        Network network(seed, rules);
        Node &a = network.add({20ms, 1s, 5s});
        Node &b = network.add({20ms, 1s, 5s});
        a.connect(b);
        b.connect(a);
        // The limit, one delay and the answer to a refusal.
        ASSERT_TRUE(network.run(5s + 3 * rules.max_delay + 100ms));
        for (Node *node : {&a, &b}) {
            EXPECT_EQ(node->established_count + static_cast<int>(node->failures.size()), 1);
        }
    }
}

// Processes that connect, close, break and restart at random: whatever happens, everything ends.
TEST(ConnectorSimulation, ChaosEnds)
{
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        Network network(seed, bad_rules(random));
        constexpr int count = 4;
        for (int i = 0; i < count; ++i) {
            network.add({20ms, 500ms, 10s});
        }
        for (int step = 0; step < 60; ++step) {
            Node &a = *network.nodes[random() % count];
            Node &b = *network.nodes[random() % count];
            Connection *known = a.connector->find(b.address);
            switch (random() % 6) {
            case 0:
            case 1:
            case 2: a.connect(b); break;
            case 3:
                if (known != nullptr) {
                    a.connector->close(*known);
                }
                break;
            case 4:
                if (known != nullptr && known->state() == State::established) {
                    a.connector->broken(*known, {Code::peer_lost, "test"});
                }
                break;
            default:
                if (random() % 8 == 0) {
                    a.restart();
                }
                break;
            }
            network.run(std::chrono::milliseconds(random() % 40));
        }
        ASSERT_TRUE(network.run(60s));
        for (const auto &node : network.nodes) {
            ASSERT_FALSE(node->connector->waiting());
        }
        // And new processes find each other.
        network.rules = {};
        for (const auto &node : network.nodes) {
            node->restart();
        }
        Node &a = *network.nodes[0];
        Node &b = *network.nodes[1];
        a.connect(b);
        ASSERT_TRUE(network.run(1s));
        ASSERT_EQ(a.connector->find(b.address)->state(), State::established);
        ASSERT_EQ(b.connector->find(a.address)->state(), State::established);
    }
}

TEST(ConnectorSimulation, GarbageChangesNothing)
{
    Network network(1, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    Connection *ab = a.connect(b);
    ASSERT_TRUE(network.run(1s));
    Handshake message;
    message.to_session = b.address.session;
    message.from = a.address;
    message.nonce = 1;
    message.params = ab->local_params();
    Handshake::Bytes original{};
    const std::size_t used = message.encode(original);
    std::mt19937_64 random(99);
    const int before = b.prepared;
    for (int i = 0; i < 5000; ++i) {
        Handshake::Bytes bytes = original;
        std::size_t length = used;
        for (unsigned flips = random() % 6; flips > 0; --flips) {
            bytes[random() % used] = static_cast<std::byte>(random());
        }
        if (random() % 4 == 0) {
            length = random() % bytes.size();
        }
        b.connector->receive(std::span(bytes).first(length), network.now);
    }
    // Only datagrams with the right session may open a connection, and those close again.
    EXPECT_GT(b.connector->counters().malformed, 0U);
    EXPECT_GE(b.prepared, before);
    EXPECT_EQ(ab->state(), State::established);
    EXPECT_EQ(b.connector->find(a.address)->state(), State::established);
    EXPECT_TRUE(network.run(700s));
}

} // namespace
} // namespace odp::test
