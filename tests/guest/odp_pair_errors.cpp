// SPDX-License-Identifier: BSD-3-Clause
//
// libodp on a real device: what goes wrong ends in a status, once, and nothing hangs.
#include "odp_pair.hpp"

#include <csignal>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pair_test {
namespace {

// A dead peer is noticed soon.
odp::Options impatient()
{
    odp::Options options = basic();
    options.timeout = 14; // 67 ms
    options.stall_probe = std::chrono::milliseconds(100);
    return options;
}

void ignore_messages(odp::Context &context)
{
    context.set_am_handler([](void *, odp::Endpoint &, std::uint8_t, std::span<const std::byte>) {},
                           nullptr);
}

struct Errors {
    explicit Errors(odp::Context &context)
    {
        context.set_error_handler(
            [](void *arg, odp::Endpoint &, const odp::Status &status) {
                ++static_cast<Errors *>(arg)->calls;
                static_cast<Errors *>(arg)->last = status;
            },
            this);
    }
    int calls = 0;
    odp::Status last;
};

void connect_both(Process &me)
{
    odp::Endpoint &peer = me.endpoint(1 - me.rank());
    expect_good(peer.connect());
    me.until([&] { return peer.connected(); }, "the connection");
    me.barrier();
}

bool mentions(const odp::Status &status, const std::string &what)
{
    return std::strstr(status.text(), what.c_str()) != nullptr;
}

const Register bad_remote{
    "error.bad_remote", "put and get at an unmapped remote address: remote_fault, with the address",
    [] {
        for (const bool put : {true, false}) {
            run(2, impatient(), [put](Process &me) {
                ignore_messages(me.context());
                Errors errors(me.context());
                connect_both(me);
                odp::Endpoint &peer = me.endpoint(1 - me.rank());
                if (me.rank() == 0) {
                    const std::uint64_t remote = me.hear(1);
                    Mapping local(8192);
                    const auto status = put ? me.put(peer, local.bytes().data(), remote, 8192)
                                            : me.get(peer, local.bytes().data(), remote, 8192);
                    expect(status.code() == odp::Code::remote_fault, status.text());
                    char address[32];
                    std::snprintf(address, sizeof(address), "0x%llx",
                                  static_cast<unsigned long long>(remote));
                    expect(mentions(status, address) && mentions(status, "8192 bytes"),
                           status.text());
                    // From now on everything is refused, at once and with the reason.
                    const auto next = peer.put(local.bytes().data(), remote, 1, nullptr);
                    expect(next.code() == odp::Code::remote_fault, next.text());
                    expect(errors.calls == 1, "the error handler is called once");
                    me.tell(1, 0);
                } else {
                    const auto target = std::make_unique<Mapping>(16384);
                    munmap(target->bytes().data() + 4096, 12288);
                    me.tell(0, target->address());
                    me.hear(0);
                    me.until([&] { return errors.calls == 1; }, "notice of the broken connection");
                    expect(errors.last.code() == odp::Code::peer_lost, errors.last.text());
                }
                me.barrier();
            });
        }
    }};

const Register bad_local{
    "error.bad_local", "put from and get to an unmapped local address: local_fault", [] {
        for (const bool put : {true, false}) {
            run(2, impatient(), [put](Process &me) {
                ignore_messages(me.context());
                connect_both(me);
                odp::Endpoint &peer = me.endpoint(1 - me.rank());
                Mapping memory(8192);
                if (me.rank() == 0) {
                    const std::uint64_t remote = me.hear(1);
                    munmap(memory.bytes().data() + 4096, 4096);
                    const auto status = put ? me.put(peer, memory.bytes().data(), remote, 8192)
                                            : me.get(peer, memory.bytes().data(), remote, 8192);
                    expect(status.code() == odp::Code::local_fault, status.text());
                } else {
                    me.tell(0, memory.address());
                }
                me.barrier();
            });
        }
    }};

const Register read_only{
    "error.read_only", "put from read-only memory works, into it doesn't", [] {
        run(2, impatient(), [](Process &me) {
            ignore_messages(me.context());
            connect_both(me);
            odp::Endpoint &peer = me.endpoint(1 - me.rank());
            Mapping memory(4096);
            fill(memory.bytes(), 3);
            mprotect(memory.bytes().data(), 4096, PROT_READ);
            if (me.rank() == 0) {
                const std::uint64_t writable = me.hear(1);
                const std::uint64_t fixed = me.hear(1);
                expect_good(me.put(peer, memory.bytes().data(), writable, 4096));
                me.tell(1, 0);
                const auto status = me.put(peer, memory.bytes().data(), fixed, 4096);
                expect(status.code() == odp::Code::remote_fault, status.text());
            } else {
                Mapping target(4096);
                me.tell(0, target.address());
                me.tell(0, memory.address());
                me.hear(0);
                expect(matches(target.bytes(), 3), "contents");
            }
            me.barrier();
        });
    }};

const Register wraps{"error.wraps", "ranges that pass the end of the address space are refused",
                     [] {
                         run(2, impatient(), [](Process &me) {
                             odp::Endpoint &peer = me.endpoint(1 - me.rank());
                             char byte = 0;
                             Count count;
                             expect(peer.put(&byte, UINT64_MAX - 10, 100, &count).code() ==
                                        odp::Code::invalid_argument,
                                    "refused");
                             expect(count.calls == 0, "no completion");
                             expect(peer.error().ok(), "the endpoint goes on");
                             me.barrier();
                         });
                     }};

// The peer dies with operations of every kind outstanding and queued.
void peer_dies(Process &me, bool starving)
{
    ignore_messages(me.context());
    Errors errors(me.context());
    connect_both(me);
    odp::Endpoint &peer = me.endpoint(1 - me.rank());
    if (me.rank() == 1) {
        Mapping memory(4096);
        me.tell(0, memory.address());
        if (starving) {
            me.hear(0);
        } else {
            me.until([&] { return me.context().statistics().messages_received > 100; }, "messages");
        }
        raise(SIGKILL);
    }
    const std::uint64_t remote = me.hear(1);
    constexpr int limit = 1000;
    std::vector<std::unique_ptr<Count>> counts;
    std::vector<odp::SendBuffer *> buffers;
    Mapping local(4096);
    const auto operate = [&] {
        auto count = std::make_unique<Count>();
        odp::SendBuffer *buffer = nullptr;
        odp::Status status;
        if (counts.size() % 3 == 0) {
            status = peer.put(local.bytes().data(), remote, 4096, count.get());
        } else {
            buffer = me.context().alloc();
            expect(buffer != nullptr, "a buffer");
            status = peer.send(*buffer, 1, 2000, count.get());
        }
        if (!status.in_progress()) {
            if (buffer != nullptr) {
                me.context().release(*buffer);
            }
            return;
        }
        buffers.push_back(buffer);
        counts.push_back(std::move(count));
    };
    if (starving) {
        for (int i = 0; i < limit; ++i) {
            operate();
        }
        expect(peer.pending() > 0, "operations wait for credits");
        me.tell(1, 0);
        me.until([&] { return errors.calls == 1; }, "notice of the peer's death");
    } else {
        me.until(
            [&] {
                if (counts.size() < limit) {
                    operate();
                }
                return errors.calls == 1;
            },
            "notice of the peer's death");
    }
    // A process that dies loses its memory before its queue pairs: an operation may come between.
    const odp::Code how = errors.last.code();
    expect(how == odp::Code::peer_lost || how == odp::Code::remote_fault, errors.last.text());
    expect(mentions(errors.last, peer.str()), errors.last.text());
    expect(peer.pending() == 0, "nothing is pending");
    bool first = true;
    for (const auto &count : counts) {
        expect(count->calls == 1, "each operation ends once");
        if (count->status.failed()) {
            expect(first ? true : count->status.code() == odp::Code::flushed, count->status.text());
            first = false;
        }
    }
    for (odp::SendBuffer *buffer : buffers) {
        if (buffer != nullptr) {
            me.context().release(*buffer);
        }
    }
    const auto refused = peer.put(local.bytes().data(), remote, 1, nullptr);
    expect(refused.code() == how, "operations are refused from now on");
}

const Register killed{"error.peer_killed", "SIGKILL of the peer in mid-transfer",
                      [] { run(2, impatient(), [](Process &me) { peer_dies(me, false); }, 1); }};

const Register killed_starving{
    "error.peer_killed_idle", "SIGKILL of a peer that owes credits: what waits for them ends",
    [] { run(2, impatient(), [](Process &me) { peer_dies(me, true); }, 1); }};

const Register killed_idle{
    "error.peer_killed_probe", "with idle_probe the death of a peer is noticed without traffic",
    [] {
        odp::Options options = impatient();
        options.idle_probe = std::chrono::milliseconds(100);
        run(
            2, options,
            [](Process &me) {
                Errors errors(me.context());
                connect_both(me);
                if (me.rank() == 1) {
                    raise(SIGKILL);
                }
                me.until([&] { return errors.calls == 1; }, "notice of the peer's death");
                expect(errors.last.code() == odp::Code::peer_lost, errors.last.text());
            },
            1);
    }};

const Register nobody{
    "error.no_answer", "an address whose process is gone: timed_out after connect_timeout", [] {
        odp::Options options = impatient();
        options.connect_timeout = std::chrono::milliseconds(700);
        run(2, options, [](Process &me) {
            if (me.rank() == 1) {
                me.destroy();
                me.barrier_idle();
                return;
            }
            me.barrier_idle();
            Errors errors(me.context());
            odp::Endpoint &peer = me.endpoint(1);
            Count first;
            Count second;
            char byte = 0;
            const auto start = Clock::now();
            expect(peer.put(&byte, 0, 1, &first).in_progress(), "queued");
            expect(peer.get(&byte, 0, 1, &second).in_progress(), "queued");
            me.until([&] { return second.calls == 1; }, "the error");
            const auto took = Clock::now() - start;
            expect(first.calls == 1 && first.status.code() == odp::Code::timed_out,
                   first.status.text());
            expect(second.status.code() == odp::Code::flushed, second.status.text());
            expect(mentions(first.status, me.address(1).str()), first.status.text());
            expect(took >= std::chrono::milliseconds(700) && took < std::chrono::seconds(20),
                   "within the limit");
            expect(errors.calls == 1, "the error handler is called once");
        });
    }};

const Register closing{
    "error.close", "close() with operations queued: each ends once, flushed", [] {
        run(2, impatient(), [](Process &me) {
            ignore_messages(me.context());
            connect_both(me);
            odp::Endpoint &peer = me.endpoint(1 - me.rank());
            if (me.rank() == 0) {
                std::vector<Count> counts(200);
                Mapping local(4096);
                const std::uint64_t remote = me.hear(1);
                for (Count &count : counts) {
                    expect(peer.put(local.bytes().data(), remote, 4096, &count).in_progress(),
                           "accepted");
                }
                me.context().close(peer);
                int flushed = 0;
                for (const Count &count : counts) {
                    expect(count.calls == 1, "each operation ends once");
                    flushed += count.status.code() == odp::Code::flushed ? 1 : 0;
                }
                expect(flushed > 0, "some didn't get their turn");
            } else {
                Mapping memory(4096);
                me.tell(0, memory.address());
                me.barrier();
                return;
            }
            me.barrier();
        });
    }};

const Register orderly{"close.quiet", "a peer that closes is no failure, even with idle_probe", [] {
                           odp::Options options = impatient();
                           options.idle_probe = std::chrono::milliseconds(20);
                           run(2, options, [](Process &me) {
                               ignore_messages(me.context());
                               Errors errors(me.context());
                               connect_both(me);
                               odp::Endpoint &peer = me.endpoint(1 - me.rank());
                               me.send(peer, 1, 8, 1);
                               expect_good(me.context().drain(patience));
                               me.barrier();
                               if (me.rank() == 1) {
                                   me.destroy();
                                   me.tell(0, 0);
                                   return;
                               }
                               me.hear(1);
                               const auto end = Clock::now() + std::chrono::milliseconds(300);
                               me.until([&] { return Clock::now() > end; }, "several probes' time");
                               expect(errors.calls == 0, errors.last.text());
                               expect(!peer.connected(), "not connected");
                               char byte = 0;
                               expect(peer.put(&byte, 0, 1, nullptr).code() == odp::Code::peer_lost,
                                      "refused");
                               expect(errors.calls == 0, errors.last.text());
                           });
                       }};

const Register forked{
    "fork.child", "a child that uses and destroys the context leaves the parent's alone", [] {
        run(2, impatient(), [](Process &me) {
            ignore_messages(me.context());
            connect_both(me);
            odp::Endpoint &peer = me.endpoint(1 - me.rank());
            constexpr std::size_t size = 300000;
            Mapping memory(size);
            if (me.rank() == 1) {
                me.tell(0, memory.address());
                for (std::uint64_t i = 0; i < 20; ++i) {
                    me.hear(0);
                    expect(matches(memory.bytes(), i), "contents after fork()");
                    me.tell(0, 0);
                }
                me.barrier();
                return;
            }
            const std::uint64_t remote = me.hear(1);
            for (std::uint64_t i = 0; i < 20; ++i) {
                fill(memory.bytes(), i);
                Count count;
                expect(peer.put(memory.bytes().data(), remote, size, &count).in_progress(), "put");
                const pid_t pid = fork();
                expect(pid >= 0, "fork");
                if (pid == 0) {
                    bool good = me.context().progress() == 0 && count.calls == 0;
                    good = good && me.context().alloc() == nullptr;
                    good = good && peer.put(memory.bytes().data(), remote, 1, nullptr).code() ==
                                       odp::Code::unsupported;
                    std::memset(memory.bytes().data(), 0xff, size); // the child's own copy
                    me.context().close(peer);
                    me.destroy();
                    _exit(good ? 0 : 1);
                }
                int status = 0;
                expect(waitpid(pid, &status, 0) == pid, "waitpid");
                expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                       "the child could use the parent's connection");
                me.until([&] { return count.calls == 1; }, "the put");
                expect_good(count.status);
                expect(matches(memory.bytes(), i), "the parent's own bytes");
                me.send(peer, 1, 1000, i);
                me.tell(1, 0);
                me.hear(1);
            }
            me.barrier();
        });
    }};

} // namespace
} // namespace pair_test
