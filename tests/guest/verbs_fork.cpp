// SPDX-License-Identifier: BSD-3-Clause
// fork() of a process whose memory a peer works on. The rule is that of copy-on-write: the child
// keeps the memory as it was at the fork, all that the peer writes goes to the parent.
#include "verbs_process.hpp"
#include "verbs_remote.hpp"

#include <sys/wait.h>

#include <atomic>
#include <thread>

namespace vt {
namespace {

constexpr size_t pages = 16;
constexpr size_t size = pages * page_size;

struct Target {
    Address endpoint;
    uint64_t address;
    uint32_t rkey;
};

// The writer process: on each request WRITEs the pattern of that seed; seed 0 ends it.
void serve_writes(Channel &channel)
{
    Device device;
    Pd pd = device.pd();
    Endpoint qp(device, pd.get());
    Memory source(size);
    Region region = device.pinned(pd.get(), source.bytes());
    channel.put(qp.address());
    auto target = channel.get<Target>();
    qp.connect(target.endpoint);
    channel.barrier(1);
    while (auto seed = channel.get<uint64_t>()) {
        fill(source.bytes(), seed);
        qp.post(Work::write({region.sge(source.bytes())}, target.address, target.rkey));
        qp.sent().wait_ok();
        channel.put(seed);
    }
}

// The owner of the memory, with the writer in another process.
struct Owner {
    Child writer{serve_writes};
    Device device;
    Pd pd = device.pd();
    Endpoint qp{device, pd.get()};
    Memory memory{size};
    Region region = device.on_demand(pd.get(), memory.bytes());

    Owner()
    {
        qp.connect(writer.channel().get<Address>());
        writer.channel().put(Target{qp.address(), memory.address(), region.rkey()});
        writer.channel().barrier(1);
    }
    void peer_writes(uint64_t seed)
    {
        writer.channel().put(seed);
        expect_eq(writer.channel().get<uint64_t>(), seed, "answer of the writer");
    }
    void end()
    {
        writer.channel().put(uint64_t{0});
        writer.join();
    }
};

const Register frozen{
    "fork.child_frozen", "child keeps its view, parent gets every write, 10 forks", [] {
        Owner owner;
        for (uint64_t round = 1; round <= 10; ++round) {
            uint64_t before = 2 * round;
            owner.peer_writes(before); // warm: the device holds a writable translation
            Child child([&](Channel &channel) {
                expect_pattern(owner.memory.bytes(), before, "the child's memory at the fork");
                channel.barrier(1);
                channel.barrier(2); // the peer has written to the parent
                expect_pattern(owner.memory.bytes(), before, "the child's memory after the write");
                fill(owner.memory.bytes(), 999); // goes to the child's own copy
                channel.barrier(3);
            });
            child.channel().barrier(1);
            owner.peer_writes(before + 1);
            expect_pattern(owner.memory.bytes(), before + 1, "the parent's memory");
            child.channel().barrier(2);
            child.channel().barrier(3);
            expect_pattern(owner.memory.bytes(), before + 1, "the parent's after the child wrote");
            child.join();
            owner.peer_writes(before + 1);
            expect_pattern(owner.memory.bytes(), before + 1, "the parent's after the child ended");
        }
        owner.end();
    }};

const Register child_writes_first{
    "fork.child_writes_first", "the child breaks the sharing first, then peer and parent write",
    [] {
        Owner owner;
        owner.peer_writes(1);
        Child child([&](Channel &channel) {
            fill(owner.memory.bytes(), 50);
            channel.barrier(1);
            channel.barrier(2);
            expect_pattern(owner.memory.bytes(), 50, "the child's memory");
        });
        child.channel().barrier(1);
        expect_pattern(owner.memory.bytes(), 1, "the parent's memory");
        owner.peer_writes(2);
        expect_pattern(owner.memory.bytes(), 2, "the parent's memory after the peer's write");
        fill(owner.memory.bytes(), 3);
        child.channel().barrier(2);
        child.join();
        expect_pattern(owner.memory.bytes(), 3, "the parent's memory after its own write");
        owner.end();
    }};

const Register while_writing{
    "fork.while_writing", "30 forks while a peer writes all the time: no write is lost", [] {
        // The peer counts up in the first word of each page, one WRITE a page, and is never behind
        // itself: the parent, polling those words, must see each page's counter only grow, and the
        // last value at the end; a child must see each of its words stay what it was.
        Child writer([](Channel &channel) {
            Device device;
            Pd pd = device.pd();
            Endpoint qp(device, pd.get());
            Memory source(page_size);
            Region region = device.pinned(pd.get(), source.bytes());
            auto *counter = reinterpret_cast<uint64_t *>(source.data());
            auto *stop = reinterpret_cast<volatile uint64_t *>(source.data() + 64);
            channel.put(qp.address());
            auto target = channel.get<Target>();
            qp.connect(target.endpoint);
            channel.barrier(1);
            while (*stop == 0) {
                ++*counter;
                std::vector<Work> chain;
                for (size_t page = 0; page < pages; ++page) {
                    chain.push_back(Work::write({region.sge(source.bytes(0, 8))},
                                                target.address + page * page_size, target.rkey)
                                        .unsignalled());
                }
                // The parent's "stop" word comes by READ, so that no socket is needed in the loop.
                chain.push_back(Work::read({region.sge(source.bytes(64, 8))},
                                           target.address + page_size / 2, target.rkey));
                qp.post(std::move(chain));
                qp.sent().wait_ok();
            }
            channel.put(*counter);
        });
        Device device;
        Pd pd = device.pd();
        Endpoint qp(device, pd.get());
        Memory memory(size);
        Region region = device.on_demand(pd.get(), memory.bytes());
        auto word = [&](size_t page) {
            return *reinterpret_cast<volatile uint64_t *>(memory.data() + page * page_size);
        };
        qp.connect(writer.channel().get<Address>());
        writer.channel().put(Target{qp.address(), memory.address(), region.rkey()});
        writer.channel().barrier(1);
        uint64_t own = 0;
        for (int round = 0; round < 30; ++round) {
            uint64_t start = word(0);
            expect(wait_until([&] { return word(0) > start; }), "the peer's writes don't arrive");
            // The parent writes to the same pages as well, which breaks their sharing with
            // children.
            ++own;
            for (size_t page = 0; page < pages; ++page) {
                std::memcpy(memory.data() + page * page_size + 1024, &own, sizeof(own));
            }
            Child child([&](Channel &channel) {
                std::vector<uint64_t> seen;
                for (size_t page = 0; page < pages; ++page) {
                    seen.push_back(word(page));
                }
                channel.barrier(1);
                channel.barrier(2); // the parent has seen further writes meanwhile
                for (size_t page = 0; page < pages; ++page) {
                    expect_eq(word(page), seen[page], "a word of the child's memory");
                }
            });
            child.channel().barrier(1);
            for (size_t page = 0; page < pages; ++page) {
                uint64_t now = word(page);
                expect(wait_until([&] { return word(page) > now; }),
                       str("after fork ", round, " page ", page, " gets no more writes"));
                expect_eq(*reinterpret_cast<uint64_t *>(memory.data() + page * page_size + 1024),
                          own, "the parent's own word");
            }
            child.channel().barrier(2);
            child.join();
        }
        uint64_t stop = 1;
        std::memcpy(memory.data() + page_size / 2, &stop, sizeof(stop));
        auto last = writer.channel().get<uint64_t>();
        for (size_t page = 0; page < pages; ++page) {
            expect_eq(word(page), last, str("last value in page ", page));
        }
        writer.join();
    }};

const Register exec{"fork.exec", "the child runs a program, the parent's transfers go on", [] {
                        Memory target(size);
                        Remote t(target);
                        t.write_checked(0, size, 1, "before");
                        for (uint64_t round = 2; round < 8; ++round) {
                            pid_t pid = expect_sys(fork(), "fork");
                            if (pid == 0) {
                                execl("/bin/true", "true", nullptr);
                                _exit(127);
                            }
                            t.write_checked(0, size, round, "while the child executes a program");
                            int status = 0;
                            expect_eq(waitpid(pid, &status, 0), pid, "waitpid");
                            expect_eq(status, 0, "status of the child");
                        }
                    }};

const Register inherits{"fork.child_doorbell",
                        "a child that rings its parent's doorbell does no harm", [] {
                            Memory target(size);
                            Remote t(target);
                            t.write_checked(0, size, 1, "before");
                            Child child([&](Channel &) {
                                // Refused (other credentials) or executed on the parent's memory:
                                // either is allowed, a crash or a write to the child's memory
                                // isn't.
                                t.a.try_post({Work::read({t.near().sge(t.local().bytes(0, 64))},
                                                         target.address(), t.region().rkey())});
                                expect_pattern(target.bytes(), 1, "the child's memory");
                            });
                            child.join();
                            expect_pattern(target.bytes(), 1, "the parent's memory");
                            expect_device_works();
                        }};

} // namespace
} // namespace vt
