// SPDX-License-Identifier: BSD-3-Clause
// Rings and doorbells in the hands of an unprivileged attacker. Whatever is in there, the request
// ends in a completion or the QP in an error, in bounded time; the kernel log stays clean (the
// runner looks) and nothing outside the registered buffer changes.
#include "verbs_process.hpp"
#include "verbs_ring.hpp"

#include <array>
#include <atomic>
#include <random>
#include <thread>

namespace vt {
namespace {

// Seeded, so that a failure can be repeated.
class Dice {
public:
    uint64_t any() { return engine_(); }
    uint64_t below(uint64_t limit) { return engine_() % limit; }
    // Values near the ends of the ranges that code tends to check wrongly.
    uint32_t nasty()
    {
        static constexpr std::array<uint32_t, 14> values{
            0,      1,          2,          15,         16,         255,        256,
            0x8000, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0, 0xffffffff, 0x10000000};
        return below(4) == 0 ? static_cast<uint32_t>(any()) : values[below(values.size())];
    }
    uint64_t nasty64()
    {
        static constexpr std::array<uint64_t, 8> values{
            0, 0x7ffffffff000,    0x800000000000, 0xffff888000000000, UINT64_MAX, UINT64_MAX - 4095,
            1, 0xffffffff81000000};
        return below(4) == 0 ? any() : values[below(values.size())];
    }

private:
    std::mt19937_64 engine_{20240607};
};

// A connected pair of endpoints whose rings are open to us, with a buffer between canaries.
struct Arena {
    Device device;
    Pd pd = device.pd();
    std::pair<std::unique_ptr<Endpoint>, Rings> a = endpoint_with_rings(device, pd.get(), config());
    std::pair<std::unique_ptr<Endpoint>, Rings> b = endpoint_with_rings(device, pd.get(), config());
    Memory memory{6 * page_size};
    Region region = device.pinned(pd.get(), memory.bytes(2 * page_size, 2 * page_size));

    Arena()
    {
        fill(memory.bytes(0, 2 * page_size), 1);
        fill(memory.bytes(4 * page_size, 2 * page_size), 2);
        a.first->connect(b.first->address());
        b.first->connect(a.first->address());
    }
    static EndpointConfig config()
    {
        EndpointConfig config;
        config.rnr_retry = 1;
        config.retry = 1;
        config.timeout = 8;
        config.max_inline = 64;
        return config;
    }
    uint64_t buffer() const { return memory.address() + 2 * page_size; }
    ibv_sge sge(size_t length) const { return region.sge(memory.data() + 2 * page_size, length); }
    int doorbell() const { return ring_doorbell(device.get(), a.first->qp()->handle); }
    void drain()
    {
        while (a.first->sent().poll()) {
        }
        while (b.first->received().poll()) {
        }
    }
    void check_canaries(const Location &at = Location::current()) const
    {
        expect_pattern(memory.bytes(0, 2 * page_size), 1, "memory before the region", at);
        expect_pattern(memory.bytes(4 * page_size, 2 * page_size), 2, "memory behind it", at);
    }
    // A valid send WQE in this slot, to be spoilt by the caller.
    rxe_send_wqe &valid(uint32_t index, uint32_t opcode = IBV_WR_RDMA_WRITE) const
    {
        rxe_send_wqe &wqe = a.second.send.send_wqe(index);
        std::memset(&wqe, 0, a.second.send.element_size());
        wqe.wr.opcode = opcode;
        wqe.wr.send_flags = IBV_SEND_SIGNALED;
        wqe.wr.wr.rdma.remote_addr = buffer() + page_size;
        wqe.iova = wqe.wr.wr.rdma.remote_addr; // librxe sets both
        wqe.wr.wr.rdma.rkey = region.rkey();
        wqe.dma.length = 64;
        wqe.dma.resid = 64;
        wqe.dma.num_sge = 1;
        wqe.dma.sge[0] = {buffer(), 64, region.lkey()};
        return wqe;
    }
    // Publishes `count` slots from the producer index on and rings the doorbell.
    int submit(uint32_t count = 1) const
    {
        const Ring &ring = a.second.send;
        auto &producer = ring.header().producer_index;
        uint32_t next = (producer + count) & ring.mask();
        __atomic_store_n(&producer, next, __ATOMIC_RELEASE);
        return doorbell();
    }
    uint32_t producer() const { return a.second.send.header().producer_index; }
};

// Every doorbell must come back quickly; a second is for ever here.
void expect_quick(Clock::time_point since, std::string_view what)
{
    auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
    expect(took < std::chrono::seconds(5), str(what, " took ", took.count(), " ms"));
}

void as_nobody(const std::function<void()> &body)
{
    in_child([&] {
        drop_privileges();
        body();
        expect_device_works();
    });
    expect_device_works();
}

const Register plain{"hostile.control", "a WQE written by hand into the ring does work", [] {
                         as_nobody([] {
                             Arena t;
                             fill(t.memory.bytes(2 * page_size, 64), 7);
                             t.valid(t.producer()).wr.wr_id = 5;
                             expect_zero(t.submit(), "doorbell");
                             expect_eq(t.a.first->sent().wait_ok().wr_id, 5U, "wr_id");
                             expect_pattern(t.memory.bytes(3 * page_size, 64), 7, "written");
                         });
                     }};

const Register spoilt{
    "hostile.wqe_fields", "valid WQEs with one or two spoilt fields, 40 QPs", [] {
        as_nobody([] {
            Dice dice;
            for (int qp = 0; qp < 40; ++qp) {
                Arena t;
                t.b.first->post_receive({t.sge(128)});
                for (int i = 0; i < 8; ++i) {
                    static constexpr std::array<uint32_t, 9> opcodes{0, 1, 2, 3, 4, 5, 6, 8, 9};
                    rxe_send_wqe &wqe = t.valid(t.producer(), opcodes[dice.below(opcodes.size())]);
                    for (uint64_t n = 1 + dice.below(2); n > 0; --n) {
                        switch (dice.below(11)) {
                        case 0:
                            wqe.wr.opcode = dice.nasty();
                            break;
                        case 1:
                            wqe.dma.num_sge = dice.nasty();
                            break;
                        case 2:
                            wqe.dma.sge[0].length = dice.nasty();
                            break;
                        case 3:
                            wqe.dma.sge[0].addr = dice.nasty64();
                            break;
                        case 4:
                            wqe.dma.sge[0].lkey = dice.nasty();
                            break;
                        case 5:
                            wqe.wr.wr.rdma.remote_addr = dice.nasty64();
                            break;
                        case 6:
                            wqe.wr.wr.rdma.rkey = dice.nasty();
                            break;
                        case 7:
                            wqe.dma.length = wqe.dma.resid = dice.nasty();
                            break;
                        case 8:
                            wqe.wr.send_flags = dice.nasty();
                            break;
                        case 9:
                            wqe.dma.cur_sge = wqe.dma.sge_offset = dice.nasty();
                            break;
                        case 10:
                            wqe.state = wqe.mask = dice.nasty();
                            break;
                        }
                    }
                    auto since = Clock::now();
                    t.submit();
                    expect_quick(since, "a doorbell");
                    t.drain();
                }
                t.check_canaries();
            }
        });
    }};

const Register noise{
    "hostile.wqe_noise", "send and receive queues full of random bytes, 30 QPs", [] {
        as_nobody([] {
            Dice dice;
            for (int qp = 0; qp < 30; ++qp) {
                Arena t;
                for (const Ring *ring : {&t.a.second.send, &t.b.second.receive}) {
                    for (std::byte &byte : ring->data()) {
                        byte = static_cast<std::byte>(dice.any());
                    }
                }
                t.b.second.receive.header().producer_index = t.b.second.receive.mask();
                for (int i = 0; i < 4; ++i) {
                    // Half of them get a small opcode, to come further than the first check.
                    t.a.second.send.send_wqe(t.producer()).wr.opcode = dice.below(16);
                    auto since = Clock::now();
                    t.submit();
                    expect_quick(since, "a doorbell");
                    t.drain();
                }
                t.check_canaries();
            }
        });
    }};

const Register indices{
    "hostile.indices", "producer, consumer, mask and element size overwritten", [] {
        as_nobody([] {
            Dice dice;
            for (int qp = 0; qp < 40; ++qp) {
                Arena t;
                auto &header = t.a.second.send.header();
                for (uint32_t slot = 0; slot <= t.a.second.send.mask() && slot < 64; ++slot) {
                    t.valid(slot);
                }
                rxe_queue_buf saved = header;
                switch (qp % 4) {
                case 0:
                    header.producer_index = dice.nasty();
                    break;
                case 1:
                    header.consumer_index = dice.nasty();
                    break;
                case 2:
                    header.index_mask = dice.nasty();
                    break;
                case 3:
                    header.log2_elem_size = dice.nasty();
                    break;
                }
                auto since = Clock::now();
                t.doorbell();
                expect_quick(since, "a doorbell with a forged ring header");
                header.index_mask = saved.index_mask;
                header.log2_elem_size = saved.log2_elem_size;
                t.doorbell();
                t.drain();
                t.check_canaries();
            }
        });
    }};

const Register cq_indices{
    "hostile.cq", "completion queue headers forged while messages arrive", [] {
        as_nobody([] {
            Dice dice;
            for (int round = 0; round < 30; ++round) {
                Arena t;
                for (int i = 0; i < 5; ++i) {
                    t.b.first->post_receive({t.sge(64)});
                }
                for (const Ring *ring : {&t.a.second.send_cq, &t.a.second.receive_cq,
                                         &t.b.second.send_cq, &t.b.second.receive_cq}) {
                    switch (round % 4) {
                    case 0:
                        ring->header().producer_index = dice.nasty();
                        break;
                    case 1:
                        ring->header().consumer_index = dice.nasty();
                        break;
                    case 2:
                        ring->header().index_mask = dice.nasty();
                        break;
                    case 3:
                        ring->header().log2_elem_size = dice.nasty();
                        break;
                    }
                }
                for (int i = 0; i < 5; ++i) {
                    t.valid(t.producer(), IBV_WR_SEND);
                    auto since = Clock::now();
                    t.submit();
                    expect_quick(since, "a doorbell");
                }
                t.check_canaries(); // polling would read the forged header: not done
            }
        });
    }};

const Register racing{
    "hostile.racing_wqe", "a thread scribbles on the WQEs while they are executed", [] {
        as_nobody([] {
            Arena t;
            t.b.first->post_receive({t.sge(64)});
            std::atomic<bool> stop{false};
            std::thread scribbler([&] {
                Dice dice;
                while (!stop) {
                    for (uint32_t slot = 0; slot < 4; ++slot) {
                        rxe_send_wqe &wqe = t.a.second.send.send_wqe(slot);
                        uint64_t even = dice.any();
                        wqe.dma.num_sge = (even & 1) != 0 ? 1 : 0xffff;
                        wqe.dma.sge[0].length = (even & 2) != 0 ? 64 : 0x7fffffff;
                        wqe.dma.sge[0].addr = (even & 4) != 0 ? t.buffer() : t.memory.address();
                        wqe.wr.wr.rdma.remote_addr = (even & 8) != 0 ? t.buffer() : UINT64_MAX - 8;
                        wqe.wr.send_flags = (even & 16) != 0 ? 2 : 10;
                        wqe.dma.length = (even & 32) != 0 ? 64 : UINT32_MAX;
                    }
                }
            });
            std::string problem;
            try {
                Address to_b = t.b.first->address();
                Address to_a = t.a.first->address();
                for (int round = 0; round < 60; ++round) {
                    for (int i = 0; i < 4; ++i) {
                        auto since = Clock::now();
                        ring_doorbell(t.device.get(), t.a.first->qp()->handle);
                        t.a.second.send.header().producer_index =
                            (t.producer() + 1) & t.a.second.send.mask() & 3;
                        ring_doorbell(t.device.get(), t.a.first->qp()->handle);
                        expect_quick(since, "two doorbells");
                    }
                    t.drain();
                    if (t.a.first->state() != IBV_QPS_RTS || t.b.first->state() != IBV_QPS_RTS) {
                        t.a.first->to(IBV_QPS_RESET);
                        t.b.first->to(IBV_QPS_RESET);
                        t.drain();
                        t.a.first->connect(to_b);
                        t.b.first->connect(to_a);
                    }
                    t.check_canaries();
                }
            } catch (const Failure &failure) {
                problem = failure.what();
            }
            stop = true;
            scribbler.join();
            expect(problem.empty(), problem);
        });
    }};

const Register unmapped_ring{
    "hostile.unmapped_ring", "the rings unmapped before the doorbell", [] {
        as_nobody([] {
            Device device;
            Pd pd = device.pd();
            auto before = uverbs_mappings().size();
            Endpoint qp(device, pd.get());
            Endpoint peer(device, pd.get());
            qp.connect(peer.address());
            peer.connect(qp.address());
            qp.post(Work::send({})); // waits for a receive
            auto rings = uverbs_mappings();
            expect(rings.size() >= before + 8, "rings of two endpoints");
            for (auto ring : rings) {
                // Replaced, so that the library's own accesses at destruction find some memory.
                expect(mmap(ring.data(), ring.size(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED,
                       "mmap over a ring");
            }
            auto since = Clock::now();
            ring_doorbell(device.get(), qp.qp()->handle);
            expect_quick(since, "a doorbell without rings");
        });
    }};

const Register doorbells{"hostile.doorbells", "doorbells with bad handles, counts and sizes", [] {
                             as_nobody([] {
                                 Arena t;
                                 Dice dice;
                                 expect(ring_doorbell(t.device.get(), 0xdead) != 0,
                                        "a doorbell for a QP that isn't there");
                                 // A PD's or CQ's handle isn't a QP's. (Handles are numbered over
                                 // all types.)
                                 expect(ring_doorbell(t.device.get(), t.pd->handle) != 0,
                                        "a doorbell for a PD");
                                 for (int i = 0; i < 200; ++i) {
                                     auto since = Clock::now();
                                     ring_doorbell(t.device.get(), t.a.first->qp()->handle,
                                                   dice.nasty(), dice.nasty(), dice.nasty());
                                     ring_doorbell(t.device.get(), dice.nasty());
                                     expect_quick(since, "two doorbells");
                                 }
                                 t.check_canaries();
                             });
                         }};

const Register mappings{
    "hostile.mmap", "mmap of the device at offsets and sizes that aren't ours", [] {
        as_nobody([] {
            Device other; // its rings must not be reachable through the context below
            Pd other_pd = other.pd();
            Endpoint other_qp(other, other_pd.get());
            Device device;
            for (uint64_t page = 0; page < 64; ++page) {
                for (size_t size : {page_size, size_t{1} * mib}) {
                    void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                    device.get()->cmd_fd, static_cast<off_t>(page * page_size));
                    if (at != MAP_FAILED) {
                        fail(str("mmap of ", size, " bytes at page ", page,
                                 " of a context that has "
                                 "no queue"));
                    }
                }
            }
            Pd pd = device.pd();
            Endpoint qp(device, pd.get()); // now there is something at some offset
            for (uint64_t page = 0; page < 4096; ++page) {
                void *at = mmap(nullptr, 64 * mib, PROT_READ | PROT_WRITE, MAP_SHARED,
                                device.get()->cmd_fd, static_cast<off_t>(page * page_size));
                expect(at == MAP_FAILED, str("mmap of 64 MiB at page ", page));
            }
        });
    }};

const Register theft{
    "hostile.third_party", "a QP aimed at somebody else's connected QP gets nothing", [] {
        Pair pair;
        Memory memory(2 * page_size);
        Region region = pair.device.pinned(pair.pd.get(), memory.bytes());
        fill(memory.bytes(0, page_size), 3);
        pair.b.post_receive({region.sge(memory.bytes(page_size, 64))}, 1);
        EndpointConfig quick = Arena::config();
        Endpoint thief(pair.device, pair.pd.get(), quick);
        thief.connect(pair.b.address());
        thief.post(Work::write({region.sge(memory.bytes(0, 64))}, memory.address() + page_size,
                               region.rkey()));
        ibv_wc wc = thief.sent().wait();
        expect(wc.status == IBV_WC_RETRY_EXC_ERR, str("got ", ibv_wc_status_str(wc.status)));
        expect_all(memory.bytes(page_size, page_size), 0, "the victim's memory");
        pair.a.post(Work::send({region.sge(memory.bytes(0, 64))})); // the connection is unharmed
        pair.a.sent().wait_ok();
        expect_eq(pair.b.received().wait_ok().wr_id, 1U, "wr_id");
    }};

const Register atomics{
    "hostile.bad_atomics", "a misaligned atomic, and one with a short result buffer, by hand", [] {
        as_nobody([] {
            auto status = [](uint64_t shift, uint32_t length) {
                Arena t;
                rxe_send_wqe &wqe = t.valid(t.producer(), IBV_WR_ATOMIC_FETCH_AND_ADD);
                wqe.wr.wr.atomic.remote_addr = t.buffer() + shift;
                wqe.wr.wr.atomic.compare_add = 1;
                wqe.wr.wr.atomic.rkey = t.region.rkey();
                wqe.dma.length = wqe.dma.resid = 8;
                wqe.dma.sge[0].length = length;
                expect_zero(t.submit(), "doorbell");
                ibv_wc_status const got = t.a.first->sent().wait().status;
                expect_all(t.memory.bytes(2 * page_size, page_size), 0, "its target");
                return got;
            };
            expect_eq(status(4, 8), IBV_WC_REM_INV_REQ_ERR, "the status of a misaligned one");
            expect_eq(status(0, 4), IBV_WC_LOC_LEN_ERR, "the status with a buffer of 4 bytes");
        });
    }};

} // namespace
} // namespace vt
