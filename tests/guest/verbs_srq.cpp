// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues: several QPs, limit events, and what becomes of a QP in error.
#include "verbs_remote.hpp"

#include <set>

namespace vt {
namespace {

using SrqPtr = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;

constexpr size_t slot_size = 64;

// Several connections into one queue of b's.
struct Shared {
    static constexpr size_t num_pairs = 4;
    static constexpr uint32_t depth = 64;

    Device device;
    Pd pd = device.pd();
    Memory memory{4 * page_size};
    Memory near_memory{page_size};
    Region region = device.on_demand(pd.get(), memory.bytes());
    Region near = device.pinned(pd.get(), near_memory.bytes());
    SrqPtr srq;
    std::vector<std::unique_ptr<Endpoint>> from;
    std::vector<std::unique_ptr<Endpoint>> to;

    Shared()
    {
        ibv_srq_init_attr init{};
        init.attr = {depth, 1, 0};
        srq.reset(ibv_create_srq(pd.get(), &init));
        expect(srq != nullptr, str("ibv_create_srq: ", std::strerror(errno)));
        expect(init.attr.max_wr >= depth, "the queue is shorter than asked for");
        EndpointConfig with_srq;
        with_srq.srq = srq.get();
        for (size_t i = 0; i < num_pairs; i++) {
            from.push_back(std::make_unique<Endpoint>(device, pd.get()));
            to.push_back(std::make_unique<Endpoint>(device, pd.get(), with_srq));
            from[i]->connect(to[i]->address());
            to[i]->connect(from[i]->address());
        }
    }
    void post(uint64_t id)
    {
        ibv_sge sge = region.sge(memory.bytes(id * slot_size, slot_size));
        ibv_recv_wr wr{id, nullptr, &sge, 1};
        ibv_recv_wr *bad = nullptr;
        expect_zero(ibv_post_srq_recv(srq.get(), &wr, &bad), "ibv_post_srq_recv");
    }
    void send(size_t pair)
    {
        from[pair]->post(Work::send({near.sge(near_memory.bytes(0, slot_size))}));
    }
    void limit(uint32_t number)
    {
        ibv_srq_attr attr{0, 0, number};
        expect_zero(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
    }
};

constexpr std::chrono::milliseconds soon{50}; // only to show that nothing comes

const Register once{"srq.once", "4 QPs, one queue: each receive is used once, in any order", [] {
                        Shared t;
                        std::set<uint64_t> used;
                        for (uint64_t id = 0; id < Shared::depth; id++) {
                            t.post(id);
                        }
                        for (uint64_t id = 0; id < Shared::depth; id++) {
                            fill(t.near_memory.bytes(0, slot_size), id);
                            size_t const pair = id % Shared::num_pairs;
                            t.send(pair);
                            t.from[pair]->sent().wait_ok();
                            ibv_wc const wc = t.to[pair]->received().wait_ok();
                            expect_eq(wc.qp_num, t.to[pair]->qp()->qp_num, "the QP");
                            expect(used.insert(wc.wr_id).second, "a receive was used twice");
                            expect_pattern(t.memory.bytes(wc.wr_id * slot_size, slot_size), id,
                                           "the message");
                        }
                    }};

const Register empty{"srq.empty", "an empty queue: the sender waits until one is posted", [] {
                         Shared t;
                         t.send(0);
                         t.from[0]->sent().expect_empty("without a receive");
                         t.post(3);
                         t.from[0]->sent().wait_ok();
                         expect_eq(t.to[0]->received().wait_ok().wr_id, 3U, "the receive");
                     }};

const Register limit{"srq.limit", "one event when fewer are left than asked for, armed again", [] {
                         Shared t;
                         for (uint64_t id = 0; id < 4; id++) {
                             t.post(id);
                         }
                         t.limit(3);
                         t.send(0);
                         t.from[0]->sent().wait_ok();
                         expect(!t.device.event(soon), "an event with 3 left, the limit being 3");
                         t.send(1);
                         t.from[1]->sent().wait_ok();
                         t.device.expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, t.srq.get(), "2 left");
                         t.send(2);
                         t.from[2]->sent().wait_ok();
                         expect(!t.device.event(soon), "a second event although it was armed once");
                         ibv_srq_attr attr{};
                         expect_zero(ibv_query_srq(t.srq.get(), &attr), "ibv_query_srq");
                         expect_eq(attr.srq_limit, 0U, "the limit after its event");
                         t.post(9);
                         t.post(10);
                         t.limit(3);
                         t.send(3);
                         t.from[3]->sent().wait_ok();
                         t.device.expect_event(IBV_EVENT_SRQ_LIMIT_REACHED, t.srq.get(),
                                               "armed again");
                     }};

const Register last_wqe{
    "srq.last_wqe", "a QP in error says so, and leaves the queue to others", [] {
        Shared t;
        t.post(1);
        expect_zero(t.to[0]->to(IBV_QPS_ERR), "to the error state");
        t.device.expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, t.to[0]->qp(), "an SRQ's QP in error");
        t.to[0]->received().expect_empty("a receive that it never had");
        t.send(1);
        t.from[1]->sent().wait_ok();
        expect_eq(t.to[1]->received().wait_ok().wr_id, 1U, "the receive");
    }};

const Register taken{
    "srq.error_midway", "the receive of a message that fails is completed", [] {
        Shared t;
        t.post(5);
        ibv_sge sge = t.near.sge(t.near_memory.bytes(0, slot_size));
        ibv_sge bad = sge;
        bad.lkey ^= 0x100;
        // the first half arrives, then the sender fails
        t.from[0]->post(Work::send({{sge.addr, 32, sge.lkey}, {sge.addr, 32, bad.lkey}}));
        t.from[0]->sent().wait_status(IBV_WC_LOC_PROT_ERR);
        expect_zero(t.to[0]->to(IBV_QPS_ERR), "to the error state");
        ibv_wc const wc = t.to[0]->received().wait_status(IBV_WC_WR_FLUSH_ERR);
        expect_eq(wc.wr_id, 5U, "the receive");
        t.device.expect_event(IBV_EVENT_QP_LAST_WQE_REACHED, t.to[0]->qp(), "an SRQ's QP in error");
    }};

} // namespace
} // namespace vt
