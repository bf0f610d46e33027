// SPDX-License-Identifier: BSD-3-Clause
// UC: what arrives is right, what can't is lost without a word, and the next message is a new one.
#include "verbs_remote.hpp"

namespace vt {
namespace {

EndpointConfig unreliable()
{
    EndpointConfig config;
    config.type = IBV_QPT_UC;
    return config;
}

struct Uc : Pair {
    Memory memory{4 * mib};
    Memory near_memory{4 * mib};
    Region region = device.on_demand(pd.get(), memory.bytes());
    Region near = device.pinned(pd.get(), near_memory.bytes());

    Uc() : Pair(unreliable()) {}
    void write(uint64_t address, size_t length, uint32_t rkey)
    {
        a.post(Work::write({near.sge(near_memory.bytes(0, length))}, address, rkey));
        a.sent().wait_ok();
    }
    void send(size_t length)
    {
        a.post(Work::send({near.sge(near_memory.bytes(0, length))}));
        a.sent().wait_ok();
    }
    void expect_in_order()
    {
        expect_eq(static_cast<int>(a.state()), static_cast<int>(IBV_QPS_RTS), "the sender's state");
        expect_eq(static_cast<int>(b.state()), static_cast<int>(IBV_QPS_RTS),
                  "the receiver's state");
        fill(near_memory.bytes(0, 100), 99);
        b.post_receive({region.sge(memory.bytes(0, 100))}, 99);
        send(100);
        ibv_wc const wc = b.received().wait_ok();
        expect_eq(wc.wr_id, 99U, "which receive the next message took");
        expect_pattern(memory.bytes(0, 100), 99, "the next message");
    }
};

const Register carried{"uc.carried", "SEND and WRITE, with immediate too, of sizes to 4 MiB", [] {
                           Uc t;
                           for (size_t const size : {size_t{1}, size_t{4097}, mib, 4 * mib}) {
                               fill(t.near_memory.bytes(), size);
                               t.memory.replace();
                               t.write(t.memory.address(), size, t.region.rkey());
                               // no acknowledgement says that it is there; a message behind it does
                               t.b.post_receive({});
                               t.a.post(
                                   Work::write_imm({}, t.memory.address(), t.region.rkey(), 5));
                               ibv_wc wc = t.b.received().wait_ok();
                               t.a.sent().wait_ok();
                               expect_eq(wc.imm_data, 5U, "the immediate data");
                               expect_pattern(t.memory.bytes(0, size), size, "a WRITE");
                               t.memory.replace();
                               t.b.post_receive({t.region.sge(t.memory.bytes(0, size))});
                               t.send(size);
                               wc = t.b.received().wait_ok();
                               expect_eq(wc.byte_len, size, "the length");
                               expect_pattern(t.memory.bytes(0, size), size, "a SEND");
                           }
                           t.expect_in_order();
                       }};

const Register lost{
    "uc.lost", "no receive, bad key, bad range, too long: lost, and both go on", [] {
        Uc t;
        t.send(64); // nobody receives
        t.b.received().expect_empty("without a receive");
        t.expect_in_order();
        t.write(t.memory.address(), 64, t.region.rkey() ^ 0x100);
        t.expect_in_order();
        t.write(0x1000, 64, t.region.rkey());
        t.expect_in_order();
        // too long for it: the receive is there for the next message
        t.b.post_receive({t.region.sge(t.memory.bytes(0, 10))}, 7);
        t.send(64);
        t.b.received().expect_empty("for a message that is too long");
        t.send(10);
        expect_eq(t.b.received().wait_ok().wr_id, 7U, "the receive that was too short before");
        t.expect_in_order();
    }};

const Register local{"uc.local_error", "the sender's own errors are told", [] {
                         Uc t;
                         ibv_sge sge = t.near.sge(t.near_memory.bytes(0, 64));
                         sge.lkey ^= 0x100;
                         t.a.post(Work::write({sge}, t.memory.address(), t.region.rkey()));
                         t.a.sent().wait_status(IBV_WC_LOC_PROT_ERR);
                     }};

const Register no_reads{
    "uc.no_reads", "READ and atomics don't exist", [] {
        for (bool const read : {true, false}) {
            Uc t;
            std::vector<ibv_sge> const sge{t.near.sge(t.near_memory.bytes(0, 8))};
            Work const work = read ? Work::read(sge, t.memory.address(), t.region.rkey())
                                   : Work::fetch_add(sge, t.memory.address(), t.region.rkey(), 1);
            // librxe refuses some, the device the rest
            if (t.a.try_post({work}) == 0) {
                t.a.sent().wait_status(IBV_WC_LOC_QP_OP_ERR);
            }
            expect_all(t.memory.bytes(0, 8), 0, "the memory");
        }
    }};

} // namespace
} // namespace vt
