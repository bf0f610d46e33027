// SPDX-License-Identifier: BSD-3-Clause
// Completion events, receiver-not-ready, queue pair states, teardown with work outstanding.
#include "verbs_endpoint.hpp"

#include <fcntl.h>
#include <poll.h>

#include <memory>

namespace vt {
namespace {

constexpr unsigned event_flag = IBV_SEND_SOLICITED;

// A pair with completion channels for both endpoints' CQs and a small pinned buffer on each side.
struct Events {
    Device device;
    ChannelPtr channel{ibv_create_comp_channel(device.get())};
    Pd pd = device.pd();
    Endpoint a{device, pd.get()};
    Endpoint b{device, pd.get(), with(channel.get())};
    Memory memory{4 * page_size};
    Region region = device.pinned(pd.get(), memory.bytes());

    Events()
    {
        a.connect(b.address());
        b.connect(a.address());
        int flags = fcntl(channel->fd, F_GETFL);
        expect_sys(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK), "O_NONBLOCK");
    }
    static EndpointConfig with(ibv_comp_channel *channel)
    {
        EndpointConfig config;
        config.channel = channel;
        return config;
    }
    void arm(bool solicited_only) const
    {
        expect_zero(ibv_req_notify_cq(b_cq(), solicited_only ? 1 : 0), "ibv_req_notify_cq");
    }
    ibv_cq *b_cq() const { return const_cast<Events *>(this)->b.received().get(); }
    // True when an event came; acknowledges it.
    bool event(std::chrono::milliseconds limit)
    {
        pollfd wait{channel->fd, POLLIN, 0};
        if (poll(&wait, 1, static_cast<int>(limit.count())) != 1) {
            return false;
        }
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        expect_zero(ibv_get_cq_event(channel.get(), &cq, &context), "ibv_get_cq_event");
        expect_eq(cq, b_cq(), "the CQ of the event");
        ibv_ack_cq_events(cq, 1);
        return true;
    }
    void message(unsigned flags)
    {
        b.post_receive({region.sge(memory.bytes(page_size, 64))});
        a.post(Work::send({region.sge(memory.bytes(0, 8))}).add(flags));
        a.sent().wait_ok();
    }
};

constexpr std::chrono::milliseconds soon{50}; // only to show that nothing comes

const Register armed{"cq.armed", "an armed CQ gives one event, an unarmed one none", [] {
                         Events t;
                         t.message(0);
                         t.b.received().wait_ok();
                         expect(!t.event(soon), "an event although the CQ was never armed");
                         t.arm(false);
                         expect(!t.event(soon), "an event without a completion");
                         t.message(0);
                         expect(t.event(patience), "no event although the CQ was armed");
                         t.b.received().wait_ok();
                         t.message(0);
                         t.b.received().wait_ok();
                         expect(!t.event(soon), "a second event although the CQ was armed once");
                     }};

const Register solicited{"cq.solicited", "armed for solicited only: others give no event", [] {
                             Events t;
                             t.arm(true);
                             t.message(0);
                             t.b.received().wait_ok();
                             expect(!t.event(soon), "an event for an unsolicited message");
                             t.message(event_flag);
                             expect(t.event(patience), "no event for a solicited message");
                             t.b.received().wait_ok();
                         }};

const Register error_event{"cq.error_event", "a flushed receive is a solicited event", [] {
                               Events t;
                               t.b.post_receive({t.region.sge(t.memory.bytes(0, 64))});
                               t.arm(true);
                               expect_zero(t.b.to(IBV_QPS_ERR), "RTS -> ERR");
                               expect(t.event(patience), "no event for a completion in error");
                               t.b.received().wait_status(IBV_WC_WR_FLUSH_ERR);
                           }};

const Register blocked{"cq.blocking_wait", "ibv_get_cq_event wakes up 200 times in a row", [] {
                           Events t;
                           for (int round = 0; round < 200; ++round) {
                               t.arm(false);
                               t.message(0);
                               expect(t.event(patience), str("no event in round ", round));
                               t.b.received().wait_ok();
                           }
                       }};

const Register overrun{
    "cq.overrun", "more completions than the CQ holds: an error, no overwriting", [] {
        EndpointConfig small;
        small.cq_depth = 1;
        Pair pair(EndpointConfig{}, small);
        // The provider may round the depth up; go well beyond what it says.
        int depth = pair.b.received().get()->cqe;
        if (depth >= 100) {
            throw Skip(str("the smallest CQ has ", depth, " entries, the receive queue 128"));
        }
        for (int i = 0; i < depth + 20; ++i) {
            pair.b.post_receive({}, static_cast<uint64_t>(i));
        }
        for (int i = 0; i < depth + 20; ++i) {
            if (pair.a.try_post({Work::send({})}) != 0) {
                break;
            }
        }
        // Which error the sender sees is up to the driver; that each request ends is not.
        pair.a.sent().wait();
        uint64_t next = 0;
        while (auto wc = pair.b.received().poll()) {
            expect_eq(wc->wr_id, next++, "order of what is in the CQ");
        }
        expect(next >= 1, "the CQ is empty");
        expect_device_works();
    }};

const Register rnr{"rnr.late_receive", "a SEND waits for a receive posted later", [] {
                       Pair pair;
                       Memory memory(2 * page_size);
                       Region region = pair.device.pinned(pair.pd.get(), memory.bytes());
                       for (uint64_t round = 0; round < 20; ++round) {
                           fill(memory.bytes(0, 1000), round);
                           pair.a.post(Work::send({region.sge(memory.bytes(0, 1000))}));
                           pair.a.sent().expect_empty("no receive is posted yet");
                           pair.b.post_receive({region.sge(memory.bytes(page_size, 1000))});
                           pair.a.sent().wait_ok();
                           pair.b.received().wait_ok();
                           expect_pattern(memory.bytes(page_size, 1000), round, "received");
                       }
                   }};

const Register rnr_order{
    "rnr.order", "what is behind a waiting SEND waits too", [] {
        Pair pair;
        Memory memory(4 * page_size);
        Region region = pair.device.pinned(pair.pd.get(), memory.bytes());
        fill(memory.bytes(0, page_size), 1);
        pair.a.post({Work::send({region.sge(memory.bytes(0, 64))}).id(1),
                     Work::write({region.sge(memory.bytes(0, page_size))},
                                 memory.address() + 2 * page_size, region.rkey())
                         .id(2)});
        expect(!wait_until([&] { return pair.a.sent().poll().has_value(); }, soon),
               "a completion although the first request can't go");
        expect_all(memory.bytes(2 * page_size, page_size), 0,
                   "target of the WRITE behind the SEND");
        pair.b.post_receive({region.sge(memory.bytes(page_size, 64))});
        expect_eq(pair.a.sent().wait_ok().wr_id, 1U, "first completion");
        expect_eq(pair.a.sent().wait_ok().wr_id, 2U, "second completion");
        expect_pattern(memory.bytes(2 * page_size, page_size), 1, "written");
    }};

const Register rnr_exceeded{
    "rnr.retry_exceeded", "rnr_retry runs out: RNR_RETRY_EXC_ERR, QP in error", [] {
        EndpointConfig few;
        few.rnr_retry = 2;
        Pair pair(few, EndpointConfig{});
        pair.a.post({Work::send({}).id(1), Work::send({}).id(2)});
        expect_eq(pair.a.sent().wait_status(IBV_WC_RNR_RETRY_EXC_ERR).wr_id, 1U, "wr_id");
        expect_eq(pair.a.sent().wait_status(IBV_WC_WR_FLUSH_ERR).wr_id, 2U, "wr_id");
        pair.a.wait_state(IBV_QPS_ERR);
    }};

const Register transitions{"state.wrong_transitions", "forbidden transitions are refused", [] {
                               Device device;
                               Pd pd = device.pd();
                               Endpoint qp(device, pd.get());
                               Address own = qp.address();
                               expect_eq(qp.state(), IBV_QPS_RESET, "state of a new QP");
                               expect(qp.to_rtr(own) != 0, "RESET -> RTR was accepted");
                               expect(qp.to_rts() != 0, "RESET -> RTS was accepted");
                               expect_zero(qp.to_init(), "RESET -> INIT");
                               expect(qp.to_rts() != 0, "INIT -> RTS was accepted");
                               expect_zero(qp.to_rtr(own), "INIT -> RTR");
                               expect(qp.to_init() != 0, "RTR -> INIT was accepted");
                               expect_zero(qp.to_rts(), "RTR -> RTS");
                               expect(qp.to_rtr(own) != 0, "RTS -> RTR was accepted");
                               expect_eq(qp.state(), IBV_QPS_RTS,
                                         "state after refused transitions");
                               ibv_qp_attr attr{};
                               attr.qp_state = IBV_QPS_INIT;
                               attr.port_num = 2;
                               expect_zero(qp.to(IBV_QPS_RESET), "RTS -> RESET");
                               expect(ibv_modify_qp(qp.qp(), &attr,
                                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                                        IBV_QP_ACCESS_FLAGS) != 0,
                                      "port 2 of a one-port device was accepted");
                               expect(ibv_modify_qp(qp.qp(), &attr, IBV_QP_STATE) != 0,
                                      "RESET -> INIT without its required attributes was accepted");
                               // And it works after all that.
                               qp.connect(own);
                               qp.post_receive({});
                               qp.post(Work::send({}));
                               qp.sent().wait_ok();
                           }};

const Register reset{"state.reset_reuse", "RESET forgets old work; the QP can be used again", [] {
                         Pair pair;
                         pair.b.post_receive({}, 1);
                         expect_zero(pair.a.to(IBV_QPS_RESET), "-> RESET");
                         expect_zero(pair.b.to(IBV_QPS_RESET), "-> RESET");
                         pair.a.connect(pair.b.address());
                         pair.b.connect(pair.a.address());
                         pair.b.post_receive({}, 2);
                         pair.a.post(Work::send({}));
                         pair.a.sent().wait_ok();
                         expect_eq(pair.b.received().wait_ok().wr_id, 2U,
                                   "wr_id, 1 was forgotten by the RESET");
                     }};

const Register flush{
    "state.flush", "ERR flushes both queues in order", [] {
        Pair pair;
        for (uint64_t i = 0; i < 5; ++i) {
            pair.b.post_receive({}, i);
        }
        expect_zero(pair.b.to(IBV_QPS_ERR), "RTS -> ERR");
        for (uint64_t i = 0; i < 5; ++i) {
            expect_eq(pair.b.received().wait_status(IBV_WC_WR_FLUSH_ERR).wr_id, i, "wr_id");
        }
        expect_zero(pair.b.try_post({Work::send({}).id(9)}), "posting on a QP in error");
        expect_eq(pair.b.sent().wait_status(IBV_WC_WR_FLUSH_ERR).wr_id, 9U, "wr_id");
    }};

const Register busy{
    "teardown.busy", "a PD, CQ or MR in use can't be destroyed from under a QP", [] {
        Pair pair;
        expect_eq(ibv_destroy_cq(pair.a.sent().get()), EBUSY, "destroying a CQ in use");
        expect_eq(ibv_dealloc_pd(pair.pd.get()), EBUSY, "destroying a PD in use");
        pair.b.post_receive({});
        pair.a.post(Work::send({}));
        pair.a.sent().wait_ok();
    }};

const Register outstanding{
    "teardown.outstanding", "QPs destroyed with sends waiting, 30 times", [] {
        Memory memory(16 * page_size);
        for (int round = 0; round < 30; ++round) {
            Pair pair;
            Region region = pair.device.on_demand(pair.pd.get(), memory.bytes());
            memory.advise(MADV_DONTNEED);
            for (int i = 0; i < 8; ++i) { // all wait for a receive
                pair.a.post(Work::send({region.sge(memory.bytes())}));
            }
            if (round % 3 == 0) {
                pair.a.destroy_qp();
            } else if (round % 3 == 1) {
                pair.b.destroy_qp();
            }
        }
        expect_device_works();
    }};

const Register peer_gone{"teardown.peer_destroyed", "the peer's QP is gone: retry exceeded", [] {
                             EndpointConfig quick;
                             quick.retry = 2;
                             quick.timeout = 10; // 4 ms
                             Pair pair(quick, quick);
                             pair.b.destroy_qp();
                             pair.a.post(Work::send({}).id(4));
                             expect_eq(pair.a.sent().wait_status(IBV_WC_RETRY_EXC_ERR).wr_id, 4U,
                                       "wr_id");
                             pair.a.wait_state(IBV_QPS_ERR);
                         }};

const Register mr_gone{"teardown.mr_deregistered", "a deregistered key is refused at once", [] {
                           Pair pair;
                           Memory from(page_size);
                           Memory to(page_size);
                           Region source = pair.device.pinned(pair.pd.get(), from.bytes());
                           auto sink = std::make_unique<Region>(
                               pair.device.pinned(pair.pd.get(), to.bytes()));
                           uint32_t rkey = sink->rkey();
                           fill(from.bytes(), 1);
                           pair.a.post(Work::write({source.sge(from.bytes())}, to.address(), rkey));
                           pair.a.sent().wait_ok();
                           to.advise(MADV_DONTNEED);
                           sink.reset();
                           to.advise(MADV_DONTNEED);
                           pair.a.post(Work::write({source.sge(from.bytes())}, to.address(), rkey));
                           pair.a.sent().wait_status(IBV_WC_REM_ACCESS_ERR);
                           expect_all(to.bytes(), 0, "memory after its region was deregistered");
                       }};

const Register not_connected{
    "state.not_connected", "posting before RTS is refused or never delivered", [] {
        Device device;
        Pd pd = device.pd();
        Endpoint qp(device, pd.get());
        expect_zero(qp.to_init(), "RESET -> INIT");
        if (qp.try_post({Work::send({})}) == 0) {
            expect(!wait_until([&] { return qp.sent().poll().has_value(); }, soon),
                   "a send on a QP in INIT completed");
        }
    }};

} // namespace
} // namespace vt
