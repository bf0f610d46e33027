// SPDX-License-Identifier: BSD-3-Clause
// What may be relied on between requests: order, fences, atomics beside the CPU's own, addresses
// that aren't the memory's, and a post that doesn't wait for its transfer.
#include "verbs_endpoint.hpp"
#include "verbs_process.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace vt {
namespace {

constexpr unsigned every_access = all_access | IBV_ACCESS_REMOTE_ATOMIC;

// More than the driver moves within a doorbell, so that a worker takes part.
constexpr size_t large = 4 * mib;

// A pair with regions of one kind on both sides.
struct Bench : Pair {
    MrKind kind;
    Memory from;
    Memory to;
    Region source;
    Region sink;

    Bench(MrKind kind, size_t size)
        : kind(kind),
          from(size),
          to(size),
          source(device.region(kind, pd.get(), from.bytes(), every_access)),
          sink(device.region(kind, pd.get(), to.bytes(), every_access))
    {
    }
    // The device knows no translation of either buffer; the contents of `from` stay.
    void cool() const
    {
        if (kind != MrKind::pinned) {
            expect_sys(mprotect(from.data(), from.size(), PROT_READ), "mprotect");
            expect_sys(mprotect(from.data(), from.size(), PROT_READ | PROT_WRITE), "mprotect");
            expect_sys(madvise(to.data(), to.size(), MADV_DONTNEED), "madvise");
        }
    }
    Work::Sges out(size_t offset, size_t length) const
    {
        return {source.sge(from.bytes(offset, length))};
    }
    Work write(size_t offset, size_t length) const
    {
        return Work::write(out(offset, length), to.address() + offset, sink.rkey());
    }
    Work read(size_t offset, size_t length) const
    {
        return Work::read(out(offset, length), to.address() + offset, sink.rkey());
    }
};

const Register write_send{
    "order.write_send", "when the receive of a SEND completes, the WRITE before it is there", [] {
        uint64_t seed = 0;
        for (MrKind const kind : mr_kinds) {
            for (size_t const size : {size_t{8}, size_t{5000}, large}) {
                Bench t(kind, size);
                for (int round = 0; round < 4; ++round) {
                    fill(t.from.bytes(), ++seed);
                    t.cool();
                    t.b.post_receive({}, seed);
                    auto receiver = std::async(std::launch::async, [&] {
                        std::optional<ibv_wc> wc;
                        auto const end = Clock::now() + patience;
                        while (!wc && Clock::now() < end) { // without a pause
                            wc = t.b.received().poll();
                        }
                        expect(wc.has_value(), "no receive completion");
                        expect_pattern(t.to.bytes(), seed, str(size, " bytes, ", name(kind)));
                        expect_eq(wc->wr_id, seed, "wr_id");
                    });
                    t.a.post({t.write(0, size).unsignalled(), Work::send({})});
                    receiver.get();
                    t.a.sent().wait_ok();
                }
            }
        }
    }};

const Register write_write{
    "order.same_place", "WRITEs, an atomic and a READ of the same bytes: each sees the one before",
    [] {
        for (MrKind const kind : mr_kinds) {
            Bench t(kind, 2 * large);
            for (size_t const size : {size_t{64}, large}) {
                fill(t.from.bytes(0, size), 1);
                fill(t.from.bytes(large, size), 2);
                t.cool();
                uint64_t first = 0;
                std::memcpy(&first, t.from.data() + large, sizeof(first));
                auto at = t.to.address();
                t.a.post({Work::write(t.out(0, size), at, t.sink.rkey()).unsignalled(),
                          Work::write(t.out(large, size), at, t.sink.rkey()).unsignalled(),
                          Work::fetch_add(t.out(0, 8), at, t.sink.rkey(), 5).unsignalled(),
                          Work::read(t.out(8, size - 8), at + 8, t.sink.rkey()).unsignalled(),
                          Work::read(t.out(large, 8), at, t.sink.rkey())});
                t.a.sent().wait_ok();
                uint64_t old = 0;
                uint64_t now = 0;
                std::memcpy(&old, t.from.data(), sizeof(old));
                std::memcpy(&now, t.from.data() + large, sizeof(now));
                expect_eq(old, first, "what the atomic found");
                expect_eq(now, first + 5, "what the last READ found");
                std::memcpy(t.from.data(), &first, sizeof(first));
                expect_pattern(t.from.bytes(0, size), 2, str("read back, ", name(kind)));
            }
        }
    }};

const Register fence{
    "order.fence", "fenced WRITE and SEND use what the READ before them brought", [] {
        uint64_t seed = 0;
        for (MrKind const kind : mr_kinds) {
            for (size_t const size : {size_t{8}, size_t{5000}, large}) {
                Bench t(kind, 3 * large);
                auto const first = t.to.bytes(0, size);
                auto const written = t.to.bytes(large, size);
                auto const sent = t.to.bytes(2 * large, size);
                t.cool();
                fill(first, ++seed);
                t.b.post_receive({t.sink.sge(sent)});
                t.a.post(
                    {t.read(0, size).unsignalled(),
                     Work::write(t.out(0, size), t.to.address() + large, t.sink.rkey())
                         .unsignalled()
                         .add(IBV_SEND_FENCE),
                     Work::fetch_add(t.out(0, 8), t.to.address(), t.sink.rkey(), 1).unsignalled(),
                     Work::send(t.out(0, size)).add(IBV_SEND_FENCE)});
                t.a.sent().wait_ok();
                t.b.received().wait_ok();
                // the atomic's old value is what was there, so nothing else shows in the message
                expect_pattern(written, seed, str("WRITE behind a READ, ", name(kind)));
                expect_pattern(sent, seed, str("SEND behind a READ, ", name(kind)));
            }
        }
    }};

const Register completions{
    "order.completions", "requests of all kinds and sizes complete in the order of posting", [] {
        constexpr uint64_t count = 48;
        constexpr std::array<size_t, 4> sizes{large / 4, 8, 3 * page_size, 0};
        for (MrKind const kind : mr_kinds) {
            Bench t(kind, 2 * mib);
            t.cool();
            std::vector<Work> chain;
            std::vector<uint64_t> signalled;
            std::vector<uint64_t> receives;
            for (uint64_t id = 0; id < count; ++id) {
                size_t const size = sizes[id / 5 % sizes.size()];
                auto const at = t.to.address();
                Work work = id % 5 == 0   ? Work::write(t.out(0, size), at, t.sink.rkey())
                            : id % 5 == 1 ? Work::read(t.out(mib, size), at, t.sink.rkey())
                            : id % 5 == 2 ? Work::send(t.out(0, size))
                            : id % 5 == 3 ? Work::fetch_add(t.out(0, 8), at, t.sink.rkey(), 1)
                                          : Work::write_imm(t.out(0, size), at, t.sink.rkey(), 1);
                work.id(id);
                if (id % 3 == 1 && id + 1 < count) {
                    work.unsignalled();
                } else {
                    signalled.push_back(id);
                }
                if (id % 5 == 2 || id % 5 == 4) {
                    receives.push_back(id);
                    t.b.post_receive({t.sink.sge(t.to.bytes(mib, mib))}, id);
                }
                chain.push_back(std::move(work));
            }
            t.a.post(std::move(chain));
            for (uint64_t const id : signalled) {
                expect_eq(t.a.sent().wait_ok().wr_id, id, str("requests, ", name(kind)));
            }
            for (uint64_t const id : receives) {
                expect_eq(t.b.received().wait_ok().wr_id, id, str("receives, ", name(kind)));
            }
            t.a.sent().expect_empty("all have completed");
        }
    }};

// ------------------------------------------------------------------ atomics

struct Word {
    Address endpoint;
    uint64_t address;
    uint32_t rkey;
};

struct Added {
    uint64_t fetch_add;
    uint64_t compare_swap;
};

constexpr uint64_t adds = 300; // by each process, each way

// Increments the word of the other process by both atomics until it has done its part.
void increment(Channel &channel)
{
    Device device;
    Pd pd = device.pd();
    Endpoint qp(device, pd.get());
    Memory memory(page_size);
    Region region = device.pinned(pd.get(), memory.bytes());
    auto *old = reinterpret_cast<volatile uint64_t *>(memory.data());
    auto run = [&](Work work) {
        qp.post(std::move(work));
        qp.sent().wait_ok();
        return *old;
    };
    channel.put(qp.address());
    auto const word = channel.get<Word>();
    qp.connect(word.endpoint);
    channel.barrier(1);
    Work::Sges const result{region.sge(memory.bytes(0, 8))};
    uint64_t seen = 0;
    for (uint64_t i = 0; i < adds; ++i) {
        uint64_t const before = run(Work::fetch_add(result, word.address, word.rkey, 1));
        expect(i == 0 || before > seen, "the word went back");
        seen = before;
        for (;;) { // others add meanwhile: what was found is what to expect next
            uint64_t const found =
                run(Work::compare_swap(result, word.address, word.rkey, seen, seen + 1));
            expect(found >= seen, "the word went back");
            if (std::exchange(seen, found) == found) {
                break;
            }
        }
    }
    channel.put(Added{adds, adds});
    channel.barrier(2);
}

const Register atomics{
    "order.atomics", "4 processes and the owner's CPU add to one word: no update is lost", [] {
        constexpr size_t processes = 4;
        for (MrKind const kind : {MrKind::pinned, MrKind::implicit}) {
            std::vector<std::unique_ptr<Child>> children;
            for (size_t i = 0; i < processes; ++i) {
                children.push_back(std::make_unique<Child>(increment));
            }
            Device device;
            if (device.attributes().orig_attr.atomic_cap != IBV_ATOMIC_GLOB) {
                throw Skip(str(Device::name(), " has no atomics that hold for the CPU"));
            }
            Pd pd = device.pd();
            Memory memory(page_size);
            auto *word = reinterpret_cast<uint64_t *>(memory.data()) + 3;
            Region region = device.region(kind, pd.get(), memory.bytes(), every_access);
            std::vector<std::unique_ptr<Endpoint>> ends;
            for (auto &child : children) {
                auto const peer = child->channel().get<Address>();
                Endpoint &end = *ends.emplace_back(std::make_unique<Endpoint>(device, pd.get()));
                end.connect(peer);
                child->channel().put(
                    Word{end.address(), reinterpret_cast<uintptr_t>(word), region.rkey()});
            }
            for (auto &child : children) {
                child->channel().barrier(1);
            }
            std::atomic<bool> done{false};
            auto cpu = std::async(std::launch::async, [&] {
                uint64_t count = 0;
                uint64_t last = 0;
                while (!done) {
                    // after somebody else's turn, so that compare-and-swap has a chance
                    if (__atomic_load_n(word, __ATOMIC_RELAXED) == last) {
                        std::this_thread::yield();
                        continue;
                    }
                    for (int i = 0; i < 64; ++i, ++count) {
                        last = __atomic_add_fetch(word, 1, __ATOMIC_RELAXED);
                    }
                }
                return count;
            });
            uint64_t want = 0;
            for (auto &child : children) {
                try {
                    auto const added = child->channel().get<Added>();
                    want += added.fetch_add + added.compare_swap;
                } catch (...) {
                    done = true;
                    throw;
                }
            }
            done = true;
            uint64_t const by_cpu = cpu.get();
            expect(by_cpu > adds, str("the CPU added only ", by_cpu));
            want += by_cpu;
            expect_eq(__atomic_load_n(word, __ATOMIC_SEQ_CST), want, str("the sum, ", name(kind)));
            for (auto &child : children) {
                child->channel().barrier(2);
                child->join();
            }
        }
    }};

// ------------------------------------------------------------------ addresses

const Register iova{
    "order.iova", "an iova that isn't the address: every operation goes by it, and only by it", [] {
        constexpr size_t length = 4 * page_size;
        constexpr size_t shift = 100; // uverbs wants it the same in the page
        constexpr std::array<uint64_t, 4> iovas{0, page_size, 0x123456000, UINT64_MAX - 0xffff};
        for (MrKind const kind : {MrKind::pinned, MrKind::explicit_odp}) {
            for (uint64_t const base : iovas) {
                Pair t;
                Memory memory(length + 2 * page_size);
                Memory near_memory(length);
                Region near = t.device.pinned(t.pd.get(), near_memory.bytes());
                auto const target = memory.bytes(page_size + shift, length - 2 * shift);
                uint64_t const first = base + shift;
                unsigned const odp = kind == MrKind::pinned ? 0 : IBV_ACCESS_ON_DEMAND;
                if (odp != 0 && !t.device.has_odp()) {
                    throw Skip(str(Device::name(), " has no on-demand paging"));
                }
                ibv_mr *mr = ibv_reg_mr_iova(t.pd.get(), target.data(), target.size(), first,
                                             every_access | odp);
                expect(mr != nullptr, str("ibv_reg_mr_iova: ", std::strerror(errno)));
                Region region(mr);
                std::string const what = str(name(kind), " at iova 0x", std::hex, first);
                ibv_sge const all{first, static_cast<uint32_t>(target.size()), region.lkey()};
                auto const buffer = near_memory.bytes(0, target.size());
                Work::Sges const sges{near.sge(buffer)};

                fill(buffer, 1);
                t.a.post(Work::write(sges, first, region.rkey()));
                t.a.sent().wait_ok();
                expect_pattern(target, 1, str("WRITE to ", what));
                fill(target, 2);
                t.a.post(Work::read(sges, first, region.rkey()));
                t.a.sent().wait_ok();
                expect_pattern(buffer, 2, str("READ from ", what));
                fill(buffer, 3);
                t.b.post_receive({all});
                t.a.post(Work::send(sges));
                t.a.sent().wait_ok();
                t.b.received().wait_ok();
                expect_pattern(target, 3, str("RECV into ", what));
                fill(target, 4);
                t.a.post(Work::write({all}, near_memory.address(), near.rkey()));
                t.a.sent().wait_ok();
                expect_pattern(buffer, 4, str("WRITE from ", what));
                // the last byte, by its iova
                near_memory.data()[0] = std::byte{0x5a};
                t.a.post(Work::write({near.sge(near_memory.bytes(0, 1))}, first + target.size() - 1,
                                     region.rkey()));
                t.a.sent().wait_ok();
                expect_eq(std::to_integer<int>(target.back()), 0x5a, str("last byte, ", what));

                for (uint64_t const wrong :
                     {first - 1, first + target.size(),
                      static_cast<uint64_t>(reinterpret_cast<uintptr_t>(target.data()))}) {
                    Pair other;
                    Region spare = other.device.pinned(other.pd.get(), near_memory.bytes());
                    mr = ibv_reg_mr_iova(other.pd.get(), target.data(), target.size(), first,
                                         every_access | odp);
                    expect(mr != nullptr, str("ibv_reg_mr_iova: ", std::strerror(errno)));
                    Region again(mr);
                    other.a.post(
                        Work::write({spare.sge(near_memory.bytes(0, 1))}, wrong, again.rkey()));
                    other.a.sent().wait_status(IBV_WC_REM_ACCESS_ERR);
                }
                expect_all(memory.bytes(0, page_size + shift), 0, str("before, ", what));
                expect_all(memory.bytes(page_size + shift + target.size(),
                                        memory.size() - page_size - shift - target.size()),
                           0, str("behind, ", what));
            }
        }
    }};

// ------------------------------------------------------------------ asynchrony

const Register overlap{
    "order.overlap", "posting 64 MiB returns long before the transfer ends; the CPU is free", [] {
        constexpr size_t size = 64 * mib;
        constexpr int rounds = 5;
        for (MrKind const kind : {MrKind::pinned, MrKind::implicit}) {
            Bench t(kind, size);
            std::memset(t.from.data(), 1, size);
            double best = 1;
            for (int round = 0; round < rounds; ++round) {
                auto const start = Clock::now();
                t.a.post(t.write(0, size));
                auto const posted = Clock::now();
                uint64_t computed = 0; // what the caller gets done meanwhile
                std::optional<ibv_wc> wc;
                while (!wc && Clock::now() < posted + patience) {
                    ++computed;
                    wc = t.a.sent().poll();
                }
                auto const end = Clock::now();
                expect(wc && wc->status == IBV_WC_SUCCESS, "the WRITE of 64 MiB failed");
                auto ms = [](Clock::duration d) {
                    return std::chrono::duration<double, std::milli>(d).count();
                };
                double const share = ms(posted - start) / ms(end - start);
                std::printf("%s: post %.2f ms of %.2f ms, %llu polls meanwhile\n", name(kind),
                            ms(posted - start), ms(end - start),
                            static_cast<unsigned long long>(computed));
                if (computed > 1) {
                    best = std::min(best, share);
                }
            }
            // the caller may lose its CPU in any one round, but hardly in each
            expect(best < 0.25,
                   str("posting took ", best * 100, " % of the transfer at best, ", name(kind)));
            std::memset(t.from.data(), 0, size);
            expect_all(t.to.bytes(0, size), 1, "what was written");
        }
    }};

} // namespace
} // namespace vt
