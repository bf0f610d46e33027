// SPDX-License-Identifier: BSD-3-Clause
#include "network.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace odp::test {
namespace {

using State = Connection::State;

void expect_paired(Node &a, Node &b)
{
    Connection *ab = a.connector->find(b.address);
    Connection *ba = b.connector->find(a.address);
    ASSERT_NE(ab, nullptr);
    ASSERT_NE(ba, nullptr);
    EXPECT_EQ(ab->state(), State::established);
    EXPECT_EQ(ba->state(), State::established);
    EXPECT_EQ(ab->peer_params(), ba->local_params());
    EXPECT_EQ(ba->peer_params(), ab->local_params());
    EXPECT_EQ(a.wired[ab], ba->local_params());
    EXPECT_EQ(b.wired[ba], ab->local_params());
}

TEST(Connector, ThreeDatagramsConnect)
{
    Network network(1, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    a.connect(b);
    ASSERT_TRUE(network.run(1s));
    expect_paired(a, b);
    EXPECT_EQ(network.delivered, 3U);
    EXPECT_FALSE(a.connector->find(b.address)->passive());
    EXPECT_TRUE(b.connector->find(a.address)->passive());
    EXPECT_EQ(a.established_count, 1);
    EXPECT_EQ(b.established_count, 1);
}

TEST(Connector, CrossingRequestsMakeOneQueuePairEach)
{
    Network network(2, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    a.connect(b);
    b.connect(a);
    ASSERT_TRUE(network.run(1s));
    expect_paired(a, b);
    EXPECT_EQ(a.prepared, 1);
    EXPECT_EQ(b.prepared, 1);
    EXPECT_EQ(a.activated, 1);
    EXPECT_EQ(b.activated, 1);
}

TEST(Connector, SecondConnectJoinsTheFirst)
{
    Network network(3, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    Connection *first = a.connect(b);
    EXPECT_EQ(a.connect(b), first);
    ASSERT_TRUE(network.run(1s));
    EXPECT_EQ(a.connect(b), first);
    EXPECT_EQ(a.prepared, 1);
}

TEST(Connector, ToItselfWithoutDatagram)
{
    Network network(4, {});
    Node &a = network.add(default_limits());
    Connection *self = a.connect(a);
    ASSERT_NE(self, nullptr);
    EXPECT_EQ(self->state(), State::established);
    EXPECT_EQ(self->peer_params(), self->local_params());
    EXPECT_FALSE(a.connector->waiting());
}

TEST(Connector, NobodyAnswers)
{
    Network network(5, {.loss = 1});
    Node &a = network.add({20ms, 1s, 10s});
    Node &b = network.add(default_limits());
    a.connect(b);
    ASSERT_TRUE(network.run(11s));
    ASSERT_EQ(a.failures.size(), 1U);
    EXPECT_EQ(a.failures[0].code(), Code::timed_out);
    EXPECT_NE(std::string(a.failures[0].text()).find(b.address.str()), std::string::npos)
        << a.failures[0].text();
    EXPECT_NE(std::string(a.failures[0].text()).find("15 requests in 10.0 s"), std::string::npos)
        << a.failures[0].text();
    // Backing off: 20 40 80 160 320 640 ms, then every second.
    EXPECT_EQ(a.connector->counters().sent, 15U);
    EXPECT_FALSE(a.connector->connect(b.address, nullptr, network.now));
}

TEST(Connector, PeerThatComputesIsWaitedFor)
{
    Network network(6, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    b.deaf = true;
    a.connect(b);
    EXPECT_FALSE(network.run(120s));
    EXPECT_EQ(a.lines.size(), 1U); // says once that it is taking long
    b.deaf = false;
    ASSERT_TRUE(network.run(2s));
    expect_paired(a, b);
    EXPECT_EQ(b.prepared, 1); // whatever number of requests had piled up
}

TEST(Connector, LastDatagramLostIsMadeUpByTraffic)
{
    Network network(7, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    a.on_established = [&](Node &, Connection &) { network.rules.loss = 1; };
    a.connect(b);
    EXPECT_FALSE(network.run(100ms));
    Connection *ba = b.connector->find(a.address);
    ASSERT_NE(ba, nullptr);
    EXPECT_EQ(ba->state(), State::accepted);
    b.connector->traffic(*ba);
    EXPECT_EQ(ba->state(), State::established);
    EXPECT_TRUE(network.run(1s));
}

TEST(Connector, LastDatagramLostIsAskedForAgain)
{
    Network network(8, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    a.on_established = [&](Node &, Connection &) { network.rules.loss = 1; };
    a.connect(b);
    EXPECT_FALSE(network.run(100ms));
    network.rules.loss = 0;
    ASSERT_TRUE(network.run(2s));
    expect_paired(a, b);
}

TEST(Connector, RefusalNamesTheReason)
{
    Network network(9, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    b.prepare_result = {Code::no_memory, "ulimit -l is 64 KiB"};
    a.connect(b);
    ASSERT_TRUE(network.run(1s));
    ASSERT_EQ(a.failures.size(), 1U);
    EXPECT_EQ(a.failures[0].code(), Code::rejected);
    EXPECT_NE(std::string(a.failures[0].text()).find("ulimit -l is 64 KiB"), std::string::npos);
    EXPECT_EQ(b.connector->connections(), 0U);
}

TEST(Connector, ActivationThatFailsEndsBothSides)
{
    Network network(10, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    b.activate_result = {Code::system, "to RTR: Invalid argument"};
    a.connect(b);
    ASSERT_TRUE(network.run(1s));
    ASSERT_EQ(a.failures.size(), 1U);
    ASSERT_EQ(b.failures.size(), 1U);
    EXPECT_EQ(a.failures[0].code(), Code::rejected);
    EXPECT_EQ(b.failures[0].code(), Code::system);
    EXPECT_EQ(a.established_count + b.established_count, 0);
}

TEST(Connector, DifferentRoomIsRefusedOnBothSides)
{
    Network network(11, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    b.payload_room = 4096;
    a.connect(b);
    ASSERT_TRUE(network.run(1s));
    ASSERT_EQ(a.failures.size(), 1U);
    EXPECT_EQ(a.failures[0].code(), Code::rejected);
    EXPECT_NE(std::string(a.failures[0].text()).find("8192"), std::string::npos);
    EXPECT_NE(std::string(a.failures[0].text()).find("4096"), std::string::npos);
}

TEST(Connector, DatagramsForAnEarlierProcessAreDropped)
{
    Network network(12, {});
    Node &a = network.add({20ms, 1s, 5s});
    Node &b = network.add(default_limits());
    const Address before = b.address;
    b.restart();
    (void)a.connector->connect(before, nullptr, network.now);
    ASSERT_TRUE(network.run(6s));
    EXPECT_EQ(b.prepared, 0);
    EXPECT_GT(b.connector->counters().stale, 0U);
    ASSERT_EQ(a.failures.size(), 1U);
    EXPECT_EQ(a.failures[0].code(), Code::timed_out);
}

TEST(Connector, RestartedProcessConnectsAnew)
{
    Network network(13, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    a.connect(b);
    ASSERT_TRUE(network.run(1s));
    b.restart();
    a.connect(b); // its new address
    ASSERT_TRUE(network.run(1s));
    expect_paired(a, b);
    EXPECT_EQ(a.connector->connections(), 2U); // the one with the dead process too
}

TEST(Connector, LateRepetitionAfterCloseIsRefused)
{
    Network network(14, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    std::vector<std::byte> request;
    a.connect(b);
    // Record the request by connecting from a twin of the same address and random numbers.
    ASSERT_TRUE(network.run(1s));
    Connection *ab = a.connector->find(b.address);
    ASSERT_NE(ab, nullptr);
    b.connector->close(*b.connector->find(a.address));
    Handshake late;
    late.to_session = b.address.session;
    late.from = a.address;
    late.nonce = 4711; // of a connection that a has no more
    late.wants_reply = true;
    late.params = ab->local_params();
    Handshake::Bytes bytes{};
    const auto used = late.encode(bytes);
    b.connector->receive(std::span(bytes).first(used), network.now);
    ASSERT_TRUE(network.run(1s));
    EXPECT_EQ(ab->state(), State::established);
    ASSERT_EQ(b.failures.size(), 1U);
    EXPECT_EQ(b.failures[0].code(), Code::rejected);
}

TEST(Connector, FailedConnectionRefusesWithItsReason)
{
    Network network(15, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    a.connect(b);
    ASSERT_TRUE(network.run(1s));
    b.connector->broken(*b.connector->find(a.address), {Code::remote_fault, "put to 0x10 failed"});
    a.connector->close(*a.connector->find(b.address));
    a.connect(b);
    ASSERT_TRUE(network.run(1s));
    ASSERT_EQ(a.failures.size(), 1U);
    EXPECT_NE(std::string(a.failures[0].text()).find("put to 0x10 failed"), std::string::npos);
}

TEST(Connector, CloseTellsAPeerThatStillWaits)
{
    Network network(16, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    a.on_established = [&](Node &, Connection &) { network.rules.loss = 1; };
    a.connect(b);
    EXPECT_FALSE(network.run(50ms)); // b waits for the last datagram
    network.rules.loss = 0;
    a.connector->close(*a.connector->find(b.address));
    ASSERT_TRUE(network.run(3s));
    ASSERT_EQ(b.failures.size(), 1U);
    EXPECT_EQ(b.failures[0].code(), Code::rejected);
}

TEST(Connector, OtherVersionIsRefusedWithAReason)
{
    Network network(17, {});
    Node &a = network.add(default_limits());
    Node &b = network.add(default_limits());
    Connection *ab = a.connect(b);
    Handshake hello;
    hello.to_session = b.address.session;
    hello.from = a.address;
    hello.nonce = 99;
    hello.params = ab->local_params();
    Handshake::Bytes bytes{};
    const auto used = hello.encode(bytes);
    bytes[4] = std::byte{2};
    b.connector->receive(std::span(bytes).first(used), network.now);
    EXPECT_EQ(b.prepared, 0);
    EXPECT_EQ(b.connector->counters().malformed, 1U);
    EXPECT_EQ(b.connector->counters().sent, 1U); // the refusal
}

} // namespace
} // namespace odp::test
