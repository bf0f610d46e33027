// SPDX-License-Identifier: BSD-3-Clause
// RC data transfer: each operation with each of its options, contents checked byte by byte.
#include "verbs_endpoint.hpp"

#include <array>

namespace vt {
namespace {

// A pair with a pinned source and sink of the same size.
struct Bench : Pair {
    Memory from;
    Memory to;
    Region source;
    Region sink;

    explicit Bench(size_t size, EndpointConfig config = {})
        : Pair(config),
          from(size),
          to(size),
          source(device.pinned(pd.get(), from.bytes())),
          sink(device.pinned(pd.get(), to.bytes()))
    {
    }
    Work::Sges out(size_t offset, size_t length) const
    {
        return {source.sge(from.bytes(offset, length))};
    }
    Work::Sges in(size_t offset, size_t length) const
    {
        return {sink.sge(to.bytes(offset, length))};
    }
};

void check_wc(const ibv_wc &wc, ibv_wc_opcode opcode, uint64_t id)
{
    expect_eq(static_cast<int>(wc.opcode), static_cast<int>(opcode), "opcode of a completion");
    expect_eq(wc.wr_id, id, "wr_id of a completion");
}

const Register send_recv{
    "rc.send", "SEND/RECV of 0 B to 128 KiB", [] {
        Bench t(128 * kib);
        uint64_t round = 0;
        for (size_t size : {0, 1, 7, 64, 100, 4095, 4096, 4097, 65536, 131072}) {
            fill(t.from.bytes(0, size), ++round);
            t.b.post_receive(t.in(0, t.to.size()), 1000 + round);
            t.a.post(Work::send(t.out(0, size)).id(round));
            check_wc(t.a.sent().wait_ok(), IBV_WC_SEND, round);
            ibv_wc wc = t.b.received().wait_ok();
            check_wc(wc, IBV_WC_RECV, 1000 + round);
            expect_eq(wc.byte_len, size, "byte_len");
            expect_eq(wc.qp_num, t.b.qp()->qp_num, "qp_num of the receive completion");
            expect_eq(wc.wc_flags & IBV_WC_WITH_IMM, 0U, "immediate flag");
            expect_pattern(t.to.bytes(0, size), round, "received");
        }
        t.b.post_receive({});
        t.a.post(Work::send({})); // no SGE at all
        t.a.sent().wait_ok();
        expect_eq(t.b.received().wait_ok().byte_len, 0U, "byte_len of an empty message");
    }};

const Register send_imm{"rc.send_imm", "SEND with immediate data", [] {
                            Bench t(page_size);
                            fill(t.from.bytes(), 5);
                            t.b.post_receive(t.in(0, page_size));
                            t.a.post(Work::send_imm(t.out(0, 33), 0x12345678));
                            t.a.sent().wait_ok();
                            ibv_wc wc = t.b.received().wait_ok();
                            expect_eq(wc.wc_flags & IBV_WC_WITH_IMM, unsigned{IBV_WC_WITH_IMM},
                                      "immediate flag");
                            expect_eq(wc.imm_data, 0x12345678U, "immediate data");
                            expect_pattern(t.to.bytes(0, 33), 5, "received");
                        }};

const Register scatter{
    "rc.scatter", "gather and scatter lists of odd lengths", [] {
        Bench t(64 * kib);
        fill(t.from.bytes(0, 10000), 9);
        // The same 10000 bytes, cut differently on the two sides and laid out with holes.
        const std::array<size_t, 4> cut_out{1, 4096, 17, 5886};
        const std::array<size_t, 4> cut_in{5000, 3, 4996, 1};
        Work::Sges out;
        Work::Sges in;
        size_t at = 0;
        for (size_t length : cut_out) {
            out.push_back(t.source.sge(t.from.bytes(at, length)));
            at += length;
        }
        at = 100;
        for (size_t length : cut_in) {
            in.push_back(t.sink.sge(t.to.bytes(at, length)));
            at += length + 100;
        }
        t.b.post_receive(in);
        t.a.post(Work::send(out));
        t.a.sent().wait_ok();
        expect_eq(t.b.received().wait_ok().byte_len, 10000U, "byte_len");
        Memory joined(12 * kib);
        at = 100;
        size_t done = 0;
        for (size_t length : cut_in) {
            std::memcpy(joined.data() + done, t.to.data() + at, length);
            expect_all(t.to.bytes(at - 100, 100), 0, "the hole before an SGE");
            at += length + 100;
            done += length;
        }
        expect_pattern(joined.bytes(0, 10000), 9, "received");
        // RDMA gathers and scatters as well.
        t.a.post(Work::write(out, t.to.address() + 20000, t.sink.rkey()));
        t.a.sent().wait_ok();
        expect_pattern(t.to.bytes(20000, 10000), 9, "written from four pieces");
        Memory back(32 * kib);
        Region mine = t.device.pinned(t.pd.get(), back.bytes());
        t.a.post(Work::read({mine.sge(back.bytes(0, 3)), mine.sge(back.bytes(3, 9990)),
                             mine.sge(back.bytes(9993, 7))},
                            t.to.address() + 20000, t.sink.rkey()));
        t.a.sent().wait_ok();
        expect_pattern(back.bytes(0, 10000), 9, "read into three pieces");
    }};

const Register too_long{
    "rc.recv_too_short", "a message longer than the receive: errors, no overrun", [] {
        Bench t(page_size);
        fill(t.from.bytes(), 1);
        t.b.post_receive(t.in(0, 100));
        t.a.post(Work::send(t.out(0, 101)));
        // The specification's NAK for it is "invalid request"; rxe answers "remote operation
        // error".
        ibv_wc wc = t.a.sent().wait();
        expect(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_OP_ERR,
               str("the sender got ", ibv_wc_status_str(wc.status)));
        t.b.received().wait_status(IBV_WC_LOC_LEN_ERR);
        expect_all(t.to.bytes(100, page_size - 100), 0, "memory behind the receive buffer");
        expect_device_works();
    }};

const Register write{
    "rc.write", "RDMA WRITE of 0 B to 128 KiB, invisible to the receive queue", [] {
        Bench t(160 * kib);
        t.b.post_receive(t.in(0, 64));
        uint64_t round = 0;
        for (size_t size : {0, 1, 8, 255, 4096, 5000, 131072}) {
            fill(t.from.bytes(3, size), ++round);
            t.a.post(Work::write(t.out(3, size), t.to.address() + 777, t.sink.rkey()).id(round));
            check_wc(t.a.sent().wait_ok(), IBV_WC_RDMA_WRITE, round);
            expect_pattern(t.to.bytes(777, size), round, "written");
            expect_eq(std::to_integer<int>(t.to.data()[776]), 0, "the byte before");
            expect_eq(std::to_integer<int>(t.to.data()[777 + 131072]), 0, "the byte behind");
        }
        t.b.received().expect_empty("a WRITE consumes no receive");
    }};

const Register write_imm{
    "rc.write_imm", "RDMA WRITE with immediate consumes a receive", [] {
        Bench t(64 * kib);
        for (uint32_t size : {0, 1, 4096, 20000}) {
            fill(t.from.bytes(0, size), size + 1);
            t.b.post_receive({}, 77);
            t.a.post(Work::write_imm(t.out(0, size), t.to.address(), t.sink.rkey(), ~size));
            t.a.sent().wait_ok();
            ibv_wc wc = t.b.received().wait_ok();
            check_wc(wc, IBV_WC_RECV_RDMA_WITH_IMM, 77);
            expect_eq(wc.byte_len, size, "byte_len");
            expect_eq(wc.imm_data, ~size, "immediate data");
            expect_eq(wc.wc_flags & IBV_WC_WITH_IMM, unsigned{IBV_WC_WITH_IMM}, "immediate flag");
            expect_pattern(t.to.bytes(0, size), size + 1, "written");
        }
    }};

const Register read{
    "rc.read", "RDMA READ of 0 B to 128 KiB", [] {
        Bench t(160 * kib);
        uint64_t round = 0;
        for (size_t size : {0, 1, 8, 255, 4096, 5000, 131072}) {
            fill(t.to.bytes(1001, size), ++round);
            t.a.post(Work::read(t.out(5, size), t.to.address() + 1001, t.sink.rkey()).id(round));
            ibv_wc wc = t.a.sent().wait_ok();
            check_wc(wc, IBV_WC_RDMA_READ, round);
            expect_pattern(t.from.bytes(5, size), round, "read");
            expect_eq(std::to_integer<int>(t.from.data()[5 + 131072]), 0, "the byte behind");
        }
    }};

const Register inlined{
    "rc.inline", "inline data: the buffer may change after posting, needs no key", [] {
        constexpr size_t most = 256;
        EndpointConfig config;
        config.max_inline = most;
        Bench t(page_size, config);
        std::vector<std::byte> local(most); // not registered
        for (size_t size : {size_t{0}, size_t{1}, size_t{63}, most}) {
            fill(local, size);
            t.b.post_receive(t.in(0, page_size));
            ibv_sge sge{reinterpret_cast<uintptr_t>(local.data()), static_cast<uint32_t>(size), 0};
            t.a.post(Work::send({sge}).add(IBV_SEND_INLINE));
            std::fill(local.begin(), local.end(), std::byte{0xee});
            t.a.sent().wait_ok();
            expect_eq(t.b.received().wait_ok().byte_len, size, "byte_len");
            expect_pattern(t.to.bytes(0, size), size, "received");
        }
        fill(local, 3);
        ibv_sge first{reinterpret_cast<uintptr_t>(local.data()), 10, 0};
        ibv_sge second{reinterpret_cast<uintptr_t>(local.data()) + 10, 90, 0};
        t.a.post(
            Work::write({first, second}, t.to.address() + 512, t.sink.rkey()).add(IBV_SEND_INLINE));
        t.a.sent().wait_ok();
        expect_pattern(t.to.bytes(512, 100), 3, "written inline from two pieces");
    }};

const Register chain{
    "rc.chain", "a chain of work requests: in order, unsignalled and fenced ones too", [] {
        Bench t(64 * kib);
        fill(t.to.bytes(0, 4096), 1);
        fill(t.from.bytes(8192, 4096), 2);
        // READ remote -> local, then (fenced) WRITE what was read back to another place.
        t.a.post({Work::read(t.out(0, 4096), t.to.address(), t.sink.rkey()).id(1).unsignalled(),
                  Work::write(t.out(0, 4096), t.to.address() + 4096, t.sink.rkey())
                      .id(2)
                      .unsignalled()
                      .add(IBV_SEND_FENCE),
                  Work::write(t.out(8192, 4096), t.to.address() + 8192, t.sink.rkey()).id(3)});
        expect_eq(t.a.sent().wait_ok().wr_id, 3U, "wr_id of the only signalled one");
        t.a.sent().expect_empty("two of three were unsignalled");
        expect_pattern(t.to.bytes(4096, 4096), 1, "written after the fenced read");
        expect_pattern(t.to.bytes(8192, 4096), 2, "written last");
    }};

const Register signal_all{
    "rc.sq_sig_all", "sq_sig_all completes every request", [] {
        EndpointConfig config;
        config.signal_all = true;
        Bench t(page_size, config);
        for (uint64_t id = 1; id <= 5; ++id) {
            t.a.post(Work::write(t.out(0, 64), t.to.address(), t.sink.rkey()).id(id).unsignalled());
        }
        for (uint64_t id = 1; id <= 5; ++id) {
            expect_eq(t.a.sent().wait_ok().wr_id, id, "wr_id");
        }
    }};

const Register wrap{
    "rc.wrap", "the queues wrap around many times, data and order stay right", [] {
        constexpr uint64_t count = 1000;
        constexpr uint64_t window = 6;
        EndpointConfig config;
        config.send_depth = 7;
        config.recv_depth = 7;
        config.cq_depth = 13;
        Bench t(64 * kib, config);
        auto slot = [](uint64_t n) { return n % window * 128; };
        uint64_t posted = 0;
        uint64_t sent = 0;
        uint64_t received = 0;
        while (received < count) {
            while (posted < count && posted - received < window && posted - sent < window) {
                t.b.post_receive(t.in(slot(posted), 128), posted);
                fill(t.from.bytes(slot(posted), 100), posted);
                t.a.post(Work::send(t.out(slot(posted), 100)).id(posted));
                ++posted;
            }
            expect_eq(t.a.sent().wait_ok().wr_id, sent++, "order of the sends");
            expect_eq(t.b.received().wait_ok().wr_id, received, "order of the receives");
            expect_pattern(t.to.bytes(slot(received), 100), received, "received");
            ++received;
        }
    }};

const Register full{"rc.queue_full", "a full send queue: ENOMEM, nothing lost", [] {
                        EndpointConfig config;
                        config.send_depth = 16;
                        Bench t(page_size, config);
                        // No receive is posted, so the sends stay (RNR) and the queue fills.
                        uint64_t posted = 0;
                        while (posted < 10000 &&
                               t.a.try_post({Work::send(t.out(0, 8)).id(posted)}) == 0) {
                            ++posted;
                        }
                        expect(posted >= 16, str("only ", posted, " of 16 requests fit"));
                        expect(posted < 10000, "the send queue never fills");
                        uint64_t got = 0;
                        uint64_t in_rq = 0;
                        while (got < posted) {
                            while (in_rq < posted && in_rq - got < 16) {
                                t.b.post_receive(t.in(0, 64), in_rq++);
                            }
                            expect_eq(t.b.received().wait_ok().wr_id, got, "order of the receives");
                            expect_eq(t.a.sent().wait_ok().wr_id, got, "order of the sends");
                            ++got;
                        }
                    }};

const Register self{"rc.loopback_qp", "a QP connected to itself", [] {
                        Device device;
                        Pd pd = device.pd();
                        Endpoint qp(device, pd.get());
                        qp.connect(qp.address());
                        Memory memory(2 * page_size);
                        Region region = device.pinned(pd.get(), memory.bytes());
                        fill(memory.bytes(0, 3000), 4);
                        qp.post_receive({region.sge(memory.bytes(page_size, page_size))});
                        qp.post(Work::send({region.sge(memory.bytes(0, 3000))}));
                        qp.sent().wait_ok();
                        qp.received().wait_ok();
                        expect_pattern(memory.bytes(page_size, 3000), 4, "received from itself");
                    }};

const Register atomics{
    "rc.atomics", "fetch-and-add and compare-and-swap", [] {
        Bench t(page_size);
        if (t.device.attributes().orig_attr.atomic_cap == IBV_ATOMIC_NONE) {
            throw Skip(str(Device::name(), " has no atomics"));
        }
        Region sink =
            t.device.pinned(t.pd.get(), t.to.bytes(), all_access | IBV_ACCESS_REMOTE_ATOMIC);
        auto *target = reinterpret_cast<uint64_t *>(t.to.data());
        auto *old = reinterpret_cast<uint64_t *>(t.from.data());
        *target = 100;
        t.a.post(Work::fetch_add(t.out(0, 8), t.to.address(), sink.rkey(), 5));
        t.a.sent().wait_ok();
        expect_eq(*old, 100U, "value before the add");
        expect_eq(*target, 105U, "value after the add");
        t.a.post(Work::compare_swap(t.out(0, 8), t.to.address(), sink.rkey(), 1, 2));
        t.a.sent().wait_ok();
        expect_eq(*old, 105U, "value that did not compare equal");
        expect_eq(*target, 105U, "value after a failed swap");
        t.a.post(Work::compare_swap(t.out(0, 8), t.to.address(), sink.rkey(), 105, 2));
        t.a.sent().wait_ok();
        expect_eq(*target, 2U, "value after the swap");
        // librxe refuses a misaligned address itself; the kernel's own check is in hostile.*.
        expect_eq(t.a.try_post({Work::fetch_add(t.out(0, 8), t.to.address() + 4, sink.rkey(), 1)}),
                  EINVAL, "posting an atomic on a misaligned address");
    }};

} // namespace
} // namespace vt
