// SPDX-License-Identifier: BSD-3-Clause
//
// Random traffic over endpoints with small rings, with and without injected errors: order is kept,
// bytes are right, no ring overruns, and every operation ends exactly once.
#include "fake_wire.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

namespace odp::test {
namespace {

// An operation, with all that it must be checked against.
struct Tracked : Counted {
    bool accepted = false; // in_progress: completion due
    SendBuffer *buffer = nullptr;
    std::vector<unsigned char> from;
    std::vector<unsigned char> to;
};

struct Traffic {
    FakeSide &side;
    std::mt19937_64 &random;
    std::vector<std::unique_ptr<Tracked>> operations;
    std::uint64_t next_out = 0;
    std::uint64_t next_in = 0;
    std::uint64_t silent = 0; // messages without a completion

    void start()
    {
        auto tracked = std::make_unique<Tracked>();
        const bool watched = random() % 3 != 0;
        if (random() % 3 == 0) {
            const std::size_t length = random() % 3000;
            tracked->from.resize(length + 1);
            tracked->to.resize(length + 1);
            for (auto &byte : tracked->from) {
                byte = static_cast<unsigned char>(random());
            }
            const bool put = random() % 2 == 0;
            const void *source = tracked->from.data();
            void *target = tracked->to.data();
            const Status status = side.endpoint.do_rdma(
                put ? OpKind::put : OpKind::get,
                reinterpret_cast<std::uint64_t>(put ? source : target),
                reinterpret_cast<std::uint64_t>(put ? target : source), length, tracked.get());
            ASSERT_FALSE(status.ok());
            tracked->accepted = status.in_progress();
        } else {
            SendBuffer *buffer = side.pool.alloc();
            if (buffer == nullptr) {
                return;
            }
            const std::size_t length = 8 + random() % 240;
            std::memset(buffer->payload().data(), static_cast<int>(next_out % 251), length);
            std::memcpy(buffer->payload().data(), &next_out, sizeof(next_out));
            const Status status =
                side.endpoint.do_send(*buffer, 3, length, watched ? tracked.get() : nullptr);
            if (!status.failed()) {
                ++next_out;
            }
            tracked->accepted = status.in_progress() && watched;
            tracked->buffer = buffer;
            if (status.failed() || (status.ok() && watched)) {
                side.pool.release(*buffer);
                tracked->buffer = nullptr;
            } else if (!watched) {
                tracked->buffer = nullptr; // the library's
                ++silent;
            }
        }
        Tracked &kept = *tracked;
        tracked->then = [this, &kept] {
            if (kept.buffer != nullptr) {
                side.pool.release(*std::exchange(kept.buffer, nullptr));
            }
            if (random() % 4 == 0) {
                start(); // callbacks may call back
            }
        };
        operations.push_back(std::move(tracked));
    }

    void listen()
    {
        side.handler = [this](std::uint8_t id, std::span<const std::byte> data) {
            EXPECT_EQ(id, 3);
            std::uint64_t number = 0;
            std::memcpy(&number, data.data(), sizeof(number));
            EXPECT_EQ(number, next_in++) << "order";
            for (const std::byte byte : data.subspan(sizeof(number))) {
                EXPECT_EQ(std::to_integer<unsigned>(byte), number % 251);
            }
            if (random() % 3 == 0) {
                start(); // a handler answers
            }
            return true;
        };
    }
};

void simulate(std::uint64_t seed, bool errors)
{
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const EndpointLimits limits{.send_depth = static_cast<std::uint32_t>(16 + random() % 20),
                                .max_inline = static_cast<std::uint32_t>(8 + random() % 120),
                                .max_message = static_cast<std::uint32_t>(100 + random() % 1000),
                                .lkey = 3};
    // Not the same on both sides.
    FakeSide a(limits, static_cast<std::uint32_t>(5 + random() % 12), 256, 40);
    FakeSide b(limits, static_cast<std::uint32_t>(5 + random() % 12), 256, 40);
    Traffic ta{a, random, {}};
    Traffic tb{b, random, {}};
    ta.listen();
    tb.listen();
    if (random() % 2 == 0) {
        ta.start();
    }
    join(a, b);
    const std::uint64_t error_at = errors ? random() % 400 : UINT64_MAX;
    for (std::uint64_t step = 0; step < 600; ++step) {
        Traffic &traffic = random() % 2 == 0 ? ta : tb;
        FakeSide &side = traffic.side;
        if (step == error_at) {
            constexpr Code codes[] = {Code::local_fault, Code::remote_fault, Code::peer_lost,
                                      Code::system};
            switch (random() % 4) {
            case 0:
                side.wire.posts_until_failure = static_cast<int>(random() % 3);
                break;
            case 1:
                side.endpoint.fail({Code::flushed, "closed"});
                break;
            default:
                side.wire.fail_next = codes[random() % 4];
                break;
            }
        }
        switch (random() % 4) {
        case 0:
            traffic.start();
            break;
        case 1:
            side.wire.execute();
            break;
        default:
            side.progress();
            break;
        }
    }
    // Then everything runs to its end.
    for (bool busy = true; busy;) {
        busy = a.wire.execute() || b.wire.execute() || a.progress() || b.progress();
        if (!busy && errors) {
            // A side without requests finds out by the sign of life that it asks for.
            a.endpoint.probe();
            b.endpoint.probe();
            busy = a.wire.execute() || b.wire.execute() || a.progress() || b.progress();
            if (a.failures.empty() && b.failures.empty()) {
                break; // the error never came to pass
            }
            busy = busy && !(a.endpoint.has_failed() && b.endpoint.has_failed());
        }
    }
    EXPECT_EQ(a.wire.violation, "");
    EXPECT_EQ(b.wire.violation, "");
    for (Traffic *traffic : {&ta, &tb}) {
        FakeSide &side = traffic->side;
        for (const auto &operation : traffic->operations) {
            ASSERT_EQ(operation->calls, operation->accepted ? 1 : 0);
            if (operation->accepted && operation->status.ok() && !operation->from.empty()) {
                ASSERT_EQ(std::memcmp(operation->from.data(), operation->to.data(),
                                      operation->from.size() - 1),
                          0);
            }
        }
        EXPECT_EQ(side.endpoint.outstanding(), 0U);
        EXPECT_EQ(side.pool.in_use(), 0U) << "buffers leaked or released twice";
        EXPECT_EQ(side.starvers, 0);
        EXPECT_LE(side.failures.size(), 1U);
        EXPECT_EQ(side.failures.empty(), !side.endpoint.has_failed());
    }
    if (!errors) {
        EXPECT_EQ(ta.next_in, tb.next_out);
        EXPECT_EQ(tb.next_in, ta.next_out);
        EXPECT_TRUE(a.failures.empty() && b.failures.empty());
    }
}

TEST(EndpointSimulation, RandomTraffic)
{
    for (std::uint64_t seed = 1; seed <= 1500 && !testing::Test::HasFailure(); ++seed) {
        simulate(seed, false);
    }
}

TEST(EndpointSimulation, EverythingEndsOnceWhateverFails)
{
    for (std::uint64_t seed = 1; seed <= 3000 && !testing::Test::HasFailure(); ++seed) {
        simulate(seed, true);
    }
}

} // namespace
} // namespace odp::test
