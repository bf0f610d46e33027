// SPDX-License-Identifier: BSD-3-Clause
#include "fake_wire.hpp"

#include "message.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace odp::test {
namespace {

constexpr EndpointLimits usual{.send_depth = 16, .max_inline = 64, .max_message = 1000, .lkey = 3};

struct Pair {
    explicit Pair(const EndpointLimits &limits = usual, std::uint32_t recv_depth = 8)
        : a(limits, recv_depth, 256, 200),
          b(limits, recv_depth, 256, 200)
    {
        for (FakeSide *side : {&a, &b}) {
            side->handler = [](std::uint8_t, std::span<const std::byte>) { return true; };
        }
    }
    void settle()
    {
        while (a.wire.execute() || b.wire.execute() || a.progress() || b.progress()) {
        }
    }
    FakeSide a;
    FakeSide b;
};

Status send(FakeSide &side, std::size_t length, Completion *completion, std::uint8_t fill = 1)
{
    SendBuffer *buffer = side.pool.alloc();
    std::memset(buffer->payload().data(), fill, length);
    return side.endpoint.do_send(*buffer, 7, length, completion);
}

Status put(FakeSide &side, const void *from, void *to, std::size_t length, Completion *completion)
{
    return side.endpoint.do_rdma(OpKind::put, reinterpret_cast<std::uint64_t>(from),
                                 reinterpret_cast<std::uint64_t>(to), length, completion);
}

TEST(Endpoint, SmallMessageIsDoneAtOnce)
{
    Pair pair;
    join(pair.a, pair.b);
    Counted done;
    SendBuffer *buffer = pair.a.pool.alloc();
    const Status status = pair.a.endpoint.do_send(*buffer, 7, 10, &done);
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(pair.a.pool.in_use(), 1U); // the caller's again
    pair.settle();
    EXPECT_EQ(done.calls, 0);
    EXPECT_EQ(pair.b.statistics.messages_received, 1U);
}

TEST(Endpoint, LargerMessageCompletesLater)
{
    Pair pair;
    join(pair.a, pair.b);
    Counted done;
    EXPECT_TRUE(send(pair.a, 200, &done).in_progress());
    EXPECT_EQ(done.calls, 0);
    EXPECT_EQ(pair.a.endpoint.outstanding(), 1U);
    pair.settle();
    EXPECT_EQ(done.calls, 1);
    EXPECT_TRUE(done.status.ok());
    EXPECT_EQ(pair.a.endpoint.outstanding(), 0U);
}

// Nothing but inlined messages goes out, and the peer takes many more than there are slots.
TEST(Endpoint, SilentMessagesGiveTheirSlotsBack)
{
    Pair pair(usual, 128);
    join(pair.a, pair.b);
    for (int i = 0; i < 1000; ++i) {
        EXPECT_FALSE(send(pair.a, 8, nullptr).failed());
        if (i % 100 == 99) {
            pair.settle();
        }
    }
    EXPECT_EQ(pair.b.statistics.messages_received, 1000U);
    EXPECT_EQ(pair.a.wire.violation, "");
}

TEST(Endpoint, LibraryReleasesBuffersWithoutCompletion)
{
    Pair pair;
    join(pair.a, pair.b);
    EXPECT_TRUE(send(pair.a, 10, nullptr).ok());
    EXPECT_TRUE(send(pair.a, 200, nullptr).in_progress());
    EXPECT_EQ(pair.a.pool.in_use(), 1U);
    pair.settle();
    EXPECT_EQ(pair.a.pool.in_use(), 0U);
}

TEST(Endpoint, TooLongIsRefusedWithTheLimit)
{
    Pair pair;
    join(pair.a, pair.b);
    SendBuffer *buffer = pair.a.pool.alloc();
    const Status status = pair.a.endpoint.do_send(*buffer, 7, 257, nullptr);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(std::string(status.text()).find("256"), std::string::npos) << status.text();
    EXPECT_EQ(pair.a.pool.in_use(), 1U);
}

TEST(Endpoint, QueuesUntilConnected)
{
    Pair pair;
    std::vector<Counted> done(30);
    std::vector<std::uint8_t> arrived;
    pair.b.handler = [&](std::uint8_t, std::span<const std::byte> data) {
        arrived.push_back(std::to_integer<std::uint8_t>(data[0]));
        return true;
    };
    for (std::uint8_t i = 0; i < 30; ++i) {
        EXPECT_TRUE(send(pair.a, i % 2 == 0 ? 8 : 100, &done[i], i).in_progress());
    }
    EXPECT_EQ(pair.a.wire.doorbells, 0U);
    join(pair.a, pair.b);
    pair.settle();
    ASSERT_EQ(arrived.size(), 30U);
    for (std::uint8_t i = 0; i < 30; ++i) {
        EXPECT_EQ(arrived[i], i);
        EXPECT_EQ(done[i].calls, 1);
    }
    EXPECT_EQ(pair.a.wire.violation, "");
}

TEST(Endpoint, QueuedRequestsShareDoorbells)
{
    Pair pair({.send_depth = 64, .max_inline = 64, .max_message = 1000, .lkey = 3}, 64);
    for (int i = 0; i < 32; ++i) {
        EXPECT_TRUE(send(pair.a, 8, nullptr).in_progress());
    }
    join(pair.a, pair.b);
    EXPECT_EQ(pair.a.wire.doorbells, 2U);
}

TEST(Endpoint, ConnectThatFailsIsReportedOnce)
{
    Pair pair;
    pair.a.connect_result = {Code::no_memory, "no queue pair"};
    Counted done;
    SendBuffer *buffer = pair.a.pool.alloc();
    EXPECT_EQ(pair.a.endpoint.do_send(*buffer, 1, 8, &done).code(), Code::no_memory);
    EXPECT_EQ(pair.a.endpoint.do_send(*buffer, 1, 8, &done).code(), Code::no_memory);
    while (pair.a.progress()) {
    }
    EXPECT_EQ(pair.a.endpoint.do_send(*buffer, 1, 8, &done).code(), Code::no_memory);
    EXPECT_EQ(pair.a.failures.size(), 1U);
    EXPECT_EQ(done.calls, 0);
}

TEST(Endpoint, PutIsSplitAndCompletesOnce)
{
    Pair pair;
    join(pair.a, pair.b);
    for (const std::size_t length : {0UL, 1UL, 999UL, 1000UL, 1001UL, 2000UL, 50000UL}) {
        std::vector<char> from(length + 1, 'x');
        std::vector<char> to(length + 1, '-');
        Counted done;
        EXPECT_TRUE(put(pair.a, from.data(), to.data(), length, &done).in_progress());
        pair.settle();
        EXPECT_EQ(done.calls, 1);
        EXPECT_TRUE(done.status.ok());
        EXPECT_EQ(std::string(to.begin(), to.end()), std::string(length, 'x') + "-");
    }
    EXPECT_EQ(pair.a.wire.violation, "");
    EXPECT_EQ(pair.a.wire.executed, 1U + 1U + 1U + 1U + 2U + 2U + 50U);
}

TEST(Endpoint, MessageBehindAPutThatWaitsStaysBehindIt)
{
    Pair pair;
    join(pair.a, pair.b);
    std::vector<char> from(30000, 'x');
    std::vector<char> to(30000, '-');
    char last = 0;
    pair.b.handler = [&](std::uint8_t, std::span<const std::byte>) {
        last = to.back();
        return true;
    };
    EXPECT_TRUE(put(pair.a, from.data(), to.data(), from.size(), nullptr).in_progress());
    EXPECT_TRUE(send(pair.a, 8, nullptr).in_progress());
    pair.settle();
    EXPECT_EQ(last, 'x');
}

TEST(Endpoint, ErrorNamesWhatFailed)
{
    Pair pair;
    join(pair.a, pair.b);
    std::vector<char> memory(64);
    Counted first;
    Counted failing;
    Counted behind;
    Counted queued;
    EXPECT_TRUE(put(pair.a, memory.data(), memory.data(), 10, &first).in_progress());
    EXPECT_TRUE(pair.a.wire.execute());
    EXPECT_TRUE(put(pair.a, memory.data(), memory.data(), 20, &failing).in_progress());
    EXPECT_TRUE(put(pair.a, memory.data(), memory.data(), 30, &behind).in_progress());
    for (int i = 0; i < 20; ++i) {
        (void)send(pair.a, 100, nullptr);
    }
    EXPECT_TRUE(send(pair.a, 100, &queued).in_progress());
    pair.a.wire.fail_next = Code::remote_fault;
    pair.settle();
    EXPECT_TRUE(first.status.ok());
    EXPECT_EQ(failing.status.code(), Code::remote_fault);
    const std::string text = failing.status.text();
    for (const char *part : {"put of 20 bytes", "lid 9 qpn 0x1234", "fake0:1", "injected",
                             "status 10", "0x77", "peer's process"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
    EXPECT_EQ(behind.status.code(), Code::flushed);
    EXPECT_EQ(queued.status.code(), Code::flushed);
    for (const Counted *done : {&first, &failing, &behind, &queued}) {
        EXPECT_EQ(done->calls, 1);
    }
    EXPECT_EQ(pair.a.pool.in_use(), 1U); // the queued one's, which its caller keeps
    ASSERT_EQ(pair.a.failures.size(), 1U);
    ASSERT_EQ(pair.b.failures.size(), 1U);
    EXPECT_EQ(pair.b.failures[0].code(), Code::peer_lost);
    EXPECT_TRUE(pair.a.wire.stopped);
    EXPECT_EQ(put(pair.a, memory.data(), memory.data(), 1, nullptr).code(), Code::remote_fault);
}

TEST(Endpoint, MessageWithoutHandlerIsAnError)
{
    Pair pair;
    pair.b.handler = nullptr;
    join(pair.a, pair.b);
    (void)send(pair.a, 8, nullptr);
    pair.settle();
    ASSERT_EQ(pair.b.failures.size(), 1U);
    EXPECT_EQ(pair.b.failures[0].code(), Code::protocol);
}

TEST(Endpoint, StarvingEndpointAsksForASignOfLife)
{
    Pair pair;
    join(pair.a, pair.b);
    for (int i = 0; i < 10; ++i) {
        (void)send(pair.a, 8, nullptr);
    }
    while (pair.a.wire.execute() || pair.a.progress()) {
    }
    EXPECT_TRUE(pair.a.endpoint.starving());
    EXPECT_EQ(pair.a.starvers, 1);
    using namespace std::chrono_literals;
    const TimePoint start{};
    const auto executed = pair.a.wire.executed;
    pair.a.endpoint.check_alive(start, 1s, 0s);
    pair.a.endpoint.check_alive(start + 900ms, 1s, 0s);
    EXPECT_FALSE(pair.a.wire.execute());
    pair.a.endpoint.check_alive(start + 1s, 1s, 0s);
    pair.a.endpoint.check_alive(start + 2s, 1s, 0s); // one at a time
    EXPECT_TRUE(pair.a.wire.execute());
    EXPECT_EQ(pair.a.wire.executed, executed + 1);
    // The peer comes back to life: credits, and nothing starves.
    pair.settle();
    EXPECT_FALSE(pair.a.endpoint.starving());
    EXPECT_EQ(pair.a.starvers, 0);
    EXPECT_EQ(pair.b.statistics.messages_received, 10U);
}

TEST(Endpoint, StarvingEndpointNoticesThatThePeerIsGone)
{
    Pair pair;
    join(pair.a, pair.b);
    std::vector<Counted> done(10);
    for (Counted &one : done) {
        (void)send(pair.a, 100, &one);
    }
    while (pair.a.wire.execute() || pair.a.progress()) {
    }
    ASSERT_TRUE(pair.a.endpoint.starving());
    pair.b.wire.stop();
    using namespace std::chrono_literals;
    pair.a.endpoint.check_alive(TimePoint{}, 1s, 0s);
    pair.a.endpoint.check_alive(TimePoint{} + 1s, 1s, 0s);
    while (pair.a.wire.execute() || pair.a.progress()) {
    }
    ASSERT_EQ(pair.a.failures.size(), 1U);
    EXPECT_EQ(pair.a.failures[0].code(), Code::peer_lost);
    for (const Counted &one : done) {
        EXPECT_EQ(one.calls, 1);
    }
    EXPECT_EQ(pair.a.starvers, 0);
}

TEST(Endpoint, IdleEndpointAsksAfterSilentMessages)
{
    using namespace std::chrono_literals;
    Pair pair;
    join(pair.a, pair.b);
    EXPECT_TRUE(send(pair.a, 8, nullptr).ok());
    pair.settle();
    pair.a.endpoint.check_alive(TimePoint{}, 1s, 1s);
    pair.a.endpoint.check_alive(TimePoint{} + 1s, 1s, 1s);
    EXPECT_TRUE(pair.a.wire.execute());
    pair.settle();
    EXPECT_EQ(pair.a.endpoint.posted(), 0U);
}

TEST(Endpoint, GoodbyeIsNoFailure)
{
    using namespace std::chrono_literals;
    Pair pair;
    join(pair.a, pair.b);
    pair.b.endpoint.say_goodbye();
    EXPECT_TRUE(pair.b.wire.execute());
    // Crosses the goodbye: the peer's queue pair is gone when it arrives.
    pair.a.endpoint.probe();
    pair.b.endpoint.fail({Code::flushed, "closed"});
    pair.settle();
    pair.a.endpoint.check_alive(TimePoint{}, 1s, 1s);
    pair.a.endpoint.check_alive(TimePoint{} + 2s, 1s, 1s);
    EXPECT_FALSE(pair.a.wire.execute());
    EXPECT_TRUE(pair.a.failures.empty());
    EXPECT_FALSE(pair.a.endpoint.connected());
    char byte = 0;
    const Status status = put(pair.a, &byte, &byte, 1, nullptr);
    EXPECT_EQ(status.code(), Code::peer_lost);
    EXPECT_NE(std::string(status.text()).find("closed the connection"), std::string::npos);
    pair.a.endpoint.fail({Code::flushed, "closed"});
    EXPECT_EQ(pair.a.wire.violation, "");
}

TEST(Endpoint, GoodbyeEndsWhatIsPending)
{
    Pair pair;
    join(pair.a, pair.b);
    std::vector<Counted> done(20);
    for (Counted &one : done) {
        (void)send(pair.a, 100, &one);
    }
    while (pair.a.wire.execute() || pair.a.progress()) {
    }
    ASSERT_TRUE(pair.a.endpoint.starving());
    pair.b.endpoint.say_goodbye();
    EXPECT_TRUE(pair.b.wire.execute());
    pair.b.endpoint.fail({Code::flushed, "closed"});
    pair.settle();
    ASSERT_EQ(pair.a.failures.size(), 1U);
    EXPECT_EQ(pair.a.failures[0].code(), Code::peer_lost);
    for (const Counted &one : done) {
        EXPECT_EQ(one.calls, 1);
    }
    EXPECT_EQ(pair.a.starvers, 0);
}

TEST(Endpoint, HostilePeer)
{
    const auto fails_with = [](std::span<const std::byte> message, const char *what) {
        Pair pair;
        join(pair.a, pair.b);
        WorkRequest request;
        request.signaled = true;
        request.inlined = true;
        request.local = reinterpret_cast<std::uint64_t>(message.data());
        request.length = static_cast<std::uint32_t>(message.size());
        EXPECT_TRUE(pair.a.wire.post({&request, 1}).ok());
        pair.a.wire.execute();
        while (pair.b.progress()) {
        }
        ASSERT_EQ(pair.b.failures.size(), 1U) << what;
        EXPECT_EQ(pair.b.failures[0].code(), Code::protocol) << what;
    };
    std::array<std::byte, MessageHeader::size> bytes{};
    fails_with(std::span(bytes).first(0), "empty");
    fails_with(std::span(bytes).first(3), "short");
    fails_with(bytes, "zeros");
    MessageHeader header;
    header.length = 1;
    header.encode(bytes);
    fails_with(bytes, "length beyond the message");
    header.length = 0;
    header.credits = 7; // more than the 6 there can be, all of which are unused
    header.encode(bytes);
    fails_with(bytes, "credits out of nothing");
    header.kind = MessageHeader::Kind::credits;
    header.credits = 0;
    header.encode(bytes);
    fails_with(bytes, "a return of no credits");
}

TEST(Endpoint, CompletionOfWhatIsNotPosted)
{
    Pair pair;
    join(pair.a, pair.b);
    pair.a.endpoint.on_sent(5, {});
    ASSERT_EQ(pair.a.failures.size(), 1U);
    EXPECT_EQ(pair.a.failures[0].code(), Code::protocol);
}

TEST(Endpoint, ChildOfForkIsRefused)
{
    Pair pair;
    join(pair.a, pair.b);
    pair.a.child = true;
    EXPECT_EQ(send(pair.a, 8, nullptr).code(), Code::unsupported);
    EXPECT_EQ(pair.a.wire.doorbells, 0U);
}

TEST(Endpoint, CompletionMaySend)
{
    Pair pair;
    join(pair.a, pair.b);
    int left = 500;
    Counted done;
    done.then = [&] {
        if (--left > 0) {
            (void)put(pair.a, &left, &left, 0, &done);
        }
    };
    EXPECT_TRUE(put(pair.a, &left, &left, 0, &done).in_progress());
    pair.settle();
    EXPECT_EQ(done.calls, 500);
}

} // namespace
} // namespace odp::test
