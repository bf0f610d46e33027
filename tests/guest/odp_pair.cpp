// SPDX-License-Identifier: BSD-3-Clause
//
// libodp on a real device: messages, put and get, connecting.
#include "odp_pair.hpp"

#include <cstring>
#include <deque>

namespace pair_test {
namespace {

// Keeps the messages of each kind in the order of arrival.
struct Inbox {
    struct Message {
        odp::Endpoint *from;
        std::uint8_t id;
        std::vector<std::byte> data;
    };
    explicit Inbox(odp::Context &context)
    {
        context.set_am_handler(
            [](void *arg, odp::Endpoint &from, std::uint8_t id, std::span<const std::byte> data) {
                static_cast<Inbox *>(arg)->messages.push_back(
                    {&from, id, {data.begin(), data.end()}});
            },
            this);
    }
    std::deque<Message> messages;
};

const Register ping_pong{
    "am.pingpong", "messages of 0 B to the limit both ways, contents checked", [] {
        run(2, basic(), [](Process &me) {
            Inbox inbox(me.context());
            odp::Endpoint &peer = me.endpoint(1 - me.rank());
            const std::size_t sizes[] = {0,   1,   7,   8,    64,   240,  248,
                                         249, 256, 257, 1000, 4096, 8184, 8192};
            std::uint64_t seed = 0;
            for (int round = 0; round < 200; ++round) {
                for (const std::size_t size : sizes) {
                    ++seed;
                    if (me.rank() == 0) {
                        me.send(peer, 5, size, seed);
                    }
                    me.until([&] { return !inbox.messages.empty(); }, "a message");
                    const auto &message = inbox.messages.front();
                    expect(message.id == 5, "message id");
                    expect(message.data.size() == size, "message length");
                    expect(matches(message.data, seed), "message contents");
                    expect(message.from == &peer, "message's endpoint");
                    inbox.messages.pop_front();
                    if (me.rank() == 1) {
                        me.send(peer, 5, size, seed);
                    }
                }
            }
            expect(me.context().statistics().connections == 1, "one connection");
            me.barrier();
        });
    }};

// With few receives and a short send queue, everything runs into the limits all the time.
void flood(Process &me, int messages)
{
    Inbox inbox(me.context());
    odp::Endpoint &peer = me.endpoint(1 - me.rank());
    int sent = 0;
    int got = 0;
    while (sent < messages || got < messages) {
        if (sent < messages) {
            me.send(peer, 1, static_cast<std::size_t>(sent * 37 % 700), sent);
            ++sent;
        }
        me.context().progress();
        while (!inbox.messages.empty()) {
            const auto &message = inbox.messages.front();
            expect(message.data.size() == static_cast<std::size_t>(got * 37 % 700) &&
                       matches(message.data, got),
                   "message " + std::to_string(got) + " in its place");
            inbox.messages.pop_front();
            ++got;
        }
        if (sent == messages) {
            me.until([&] { return !inbox.messages.empty() || got == messages; }, "a message");
        }
    }
    expect_good(me.context().drain(patience));
    me.barrier();
}

const Register flood_both{
    "am.flood", "5000 messages both ways at once with 5 receives: order, credits, no deadlock", [] {
        odp::Options options = basic();
        options.recv_depth = 5;
        options.send_depth = 16;
        options.max_send_buffers = 64;
        run(2, options, [](Process &me) {
            flood(me, 5000);
            expect(me.context().statistics().waited > 0, "nothing had to wait");
        });
    }};

const Register flood_one_way{
    "am.one_way", "5000 messages one way: credits come back by messages of their own", [] {
        run(2, basic(), [](Process &me) {
            Inbox inbox(me.context());
            if (me.rank() == 0) {
                odp::Endpoint &peer = me.endpoint(1);
                for (int i = 0; i < 5000; ++i) {
                    me.send(peer, 9, 100, i);
                }
                expect_good(me.context().drain(patience));
            } else {
                for (int i = 0; i < 5000; ++i) {
                    me.until([&] { return !inbox.messages.empty(); }, "a message");
                    expect(matches(inbox.messages.front().data, i), "message in its place");
                    inbox.messages.pop_front();
                }
                expect(me.context().statistics().credit_messages > 0, "credits were returned");
            }
            me.barrier();
        });
    }};

const Register receiver_away{
    "am.receiver_computes", "a receiver that doesn't call progress: the sender's messages wait",
    [] {
        run(2, basic(), [](Process &me) {
            Inbox inbox(me.context());
            odp::Endpoint &peer = me.endpoint(1 - me.rank());
            if (me.rank() == 0) {
                for (int i = 0; i < 500; ++i) {
                    me.send(peer, 1, 1000, i);
                }
                me.context().progress();
                expect(peer.pending() > 0, "500 messages for 62 credits");
                me.barrier_idle();
                expect_good(me.context().drain(patience));
            } else {
                me.barrier_idle();
                me.until([&] { return inbox.messages.size() == 500; }, "500 messages");
                for (int i = 0; i < 500; ++i) {
                    expect(matches(inbox.messages[i].data, i), "message in its place");
                }
            }
            me.barrier();
        });
    }};

void rdma_sizes(Process &me, std::size_t largest)
{
    odp::Endpoint &peer = me.endpoint(1 - me.rank());
    std::uint64_t seed = 1;
    for (std::size_t size = 1; size <= largest; size = size < 16 ? size + 1 : size * 2 + size % 3) {
        // Fresh memory each time: no page of it is present at the device, on either side.
        Mapping mine(size + 100);
        const auto target = mine.bytes().subspan(33, size);
        const std::uint64_t target_address = mine.address() + 33;
        if (me.rank() == 0) {
            const std::uint64_t remote = me.hear(1);
            Mapping source(size + 64);
            fill(source.bytes().subspan(7, size), seed);
            expect_good(me.put(peer, source.bytes().data() + 7, remote, size));
            me.tell(1, 0);
            expect_good(me.get(peer, target.data(), remote, size));
            expect(matches(target, seed), "contents read, " + std::to_string(size) + " bytes");
        } else {
            std::fill(mine.bytes().begin(), mine.bytes().end(), std::byte{0x5a});
            me.tell(0, target_address);
            me.hear(0);
            expect(matches(target, seed), "contents written, " + std::to_string(size) + " bytes");
            expect(mine.bytes()[32] == std::byte{0x5a} &&
                       mine.bytes()[33 + size] == std::byte{0x5a},
                   "bytes beside the target");
        }
        me.barrier();
        ++seed;
    }
}

const Register rdma{
    "rdma.sizes", "put and get of 1 B to 16 MiB on fresh memory, contents checked",
    [] { run(2, basic(), [](Process &me) { rdma_sizes(me, std::size_t{16} << 20U); }); }};

const Register split{"rdma.split", "put and get in pieces of 4096 B with a short send queue", [] {
                         odp::Options options = basic();
                         options.max_message = 4096;
                         options.send_depth = 16;
                         run(2, options,
                             [](Process &me) { rdma_sizes(me, std::size_t{1} << 20U); });
                     }};

const Register order{
    "rdma.then_message", "a message sent after a put finds the bytes there", [] {
        run(2, basic(), [](Process &me) {
            Inbox inbox(me.context());
            odp::Endpoint &peer = me.endpoint(1 - me.rank());
            constexpr std::size_t size = 100000;
            Mapping memory(size);
            if (me.rank() == 0) {
                const std::uint64_t remote = me.hear(1);
                for (std::uint64_t i = 0; i < 300; ++i) {
                    fill(memory.bytes(), i);
                    Count count;
                    const auto status = peer.put(memory.bytes().data(), remote, size, &count);
                    expect_good(status);
                    me.send(peer, 1, 8, i);
                    me.until([&] { return count.calls == 1 && !inbox.messages.empty(); }, "echo");
                    expect_good(count.status);
                    inbox.messages.clear();
                }
            } else {
                me.tell(0, memory.address());
                for (std::uint64_t i = 0; i < 300; ++i) {
                    me.until([&] { return !inbox.messages.empty(); }, "a message");
                    inbox.messages.clear();
                    expect(matches(memory.bytes(), i), "bytes are there before the message");
                    me.send(peer, 1, 8, i);
                }
            }
            me.barrier();
        });
    }};

const Register simultaneous{
    "connect.simultaneous", "both sides send first, 20 times: one queue pair per pair", [] {
        run(2, basic(), [](Process &me) {
            for (std::uint64_t i = 0; i < 20; ++i) {
                if (i != 0) {
                    me.barrier();
                    me.destroy();
                    me.open();
                }
                Inbox inbox(me.context());
                me.barrier();
                odp::Endpoint &peer = me.endpoint(1 - me.rank());
                me.send(peer, 1, 100, i);
                me.until([&] { return inbox.messages.size() == 1; }, "the message");
                expect(matches(inbox.messages[0].data, i), "contents");
                expect(inbox.messages[0].from == &peer, "one endpoint for both ways");
                expect_good(me.context().drain(patience));
                expect(me.context().statistics().connections == 1, "one connection");
            }
            me.barrier();
        });
    }};

const Register mesh{
    "connect.mesh", "6 processes, everybody with everybody and itself", [] {
        run(6, basic(), [](Process &me) {
            Inbox inbox(me.context());
            for (int other = 0; other < me.size(); ++other) {
                for (int i = 0; i < 20; ++i) {
                    me.send(me.endpoint(other), static_cast<std::uint8_t>(me.rank()), 500,
                            static_cast<std::uint64_t>(i));
                }
            }
            me.until([&] { return inbox.messages.size() == 120; }, "120 messages");
            std::vector<std::uint64_t> next(6, 0);
            for (const auto &message : inbox.messages) {
                expect(matches(message.data, next[message.id]++), "contents in order");
                expect(message.from == &me.endpoint(message.id), "the sender's endpoint");
            }
            expect_good(me.context().drain(patience));
            me.barrier();
        });
    }};

const Register many{
    "connect.queues", "30 contexts of one process to a peer: more completion queues are made", [] {
        odp::Options options = basic();
        options.cq_depth = 600;
        options.recv_depth = 16;
        run(2, options, [options](Process &me) {
            Inbox inbox(me.context());
            if (me.rank() == 0) {
                me.until([&] { return inbox.messages.size() == 30; }, "30 messages");
                expect(me.context().statistics().connections == 30, "30 connections");
                me.barrier();
                return;
            }
            std::vector<std::unique_ptr<odp::Context>> contexts;
            for (std::uint64_t i = 0; i < 30; ++i) {
                auto context = odp::Context::create(options);
                expect_good(context.status());
                auto endpoint = (*context)->endpoint(me.address(0));
                expect_good(endpoint.status());
                odp::SendBuffer *buffer = (*context)->alloc();
                expect(buffer != nullptr, "a buffer");
                fill(buffer->payload().first(8), i);
                expect_good((*endpoint)->send(*buffer, 1, 8, nullptr));
                contexts.push_back(std::move(*context));
            }
            for (auto &context : contexts) {
                expect_good(context->drain(patience));
            }
            me.barrier();
        });
    }};

} // namespace
} // namespace pair_test
