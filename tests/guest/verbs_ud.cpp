// SPDX-License-Identifier: BSD-3-Clause
// UD: datagrams, their header space, Q_Keys and silent drops.
#include "verbs_endpoint.hpp"

namespace vt {
namespace {

constexpr size_t grh_size = 40; // always reserved at the start of a UD receive, ibv_post_recv(3)
constexpr uint32_t qkey = 0x1234567;
constexpr std::chrono::milliseconds soon{50}; // only to show that nothing comes

// A UD QP in RTS with its memory; receives go to slots of a page.
struct Datagrams {
    const Device &device;
    CompletionQueue sent;
    CompletionQueue received;
    QpPtr qp;
    Memory memory{16 * page_size};
    Region region;

    Datagrams(const Device &device, ibv_pd *pd, uint32_t key = qkey)
        : device(device),
          sent(device, 256),
          received(device, 256),
          region(device.pinned(pd, memory.bytes()))
    {
        ibv_qp_init_attr init{};
        init.send_cq = sent.get();
        init.recv_cq = received.get();
        init.cap = {64, 64, 2, 2, 64};
        init.qp_type = IBV_QPT_UD;
        qp.reset(ibv_create_qp(pd, &init));
        expect(qp != nullptr, str("ibv_create_qp(UD): ", std::strerror(errno)));
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qkey = key;
        expect_zero(ibv_modify_qp(qp.get(), &attr,
                                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                    "RESET -> INIT");
        attr.qp_state = IBV_QPS_RTR;
        expect_zero(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), "INIT -> RTR");
        attr.qp_state = IBV_QPS_RTS;
        expect_zero(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTR -> RTS");
    }
    void receive(size_t slot, size_t length = page_size)
    {
        ibv_sge sge = region.sge(memory.bytes(slot * page_size, length));
        ibv_recv_wr wr{slot, nullptr, &sge, 1};
        ibv_recv_wr *bad = nullptr;
        expect_zero(ibv_post_recv(qp.get(), &wr, &bad), "ibv_post_recv");
    }
    int try_send(size_t slot, size_t length, ibv_ah *ah, uint32_t qpn, uint32_t key = qkey,
                 unsigned flags = IBV_SEND_SIGNALED)
    {
        ibv_sge sge = region.sge(memory.bytes(slot * page_size, length));
        ibv_send_wr wr{};
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = flags;
        wr.wr.ud = {ah, qpn, key};
        ibv_send_wr *bad = nullptr;
        return ibv_post_send(qp.get(), &wr, &bad);
    }
    void send(size_t slot, size_t length, ibv_ah *ah, uint32_t qpn, uint32_t key = qkey,
              unsigned flags = IBV_SEND_SIGNALED)
    {
        expect_zero(try_send(slot, length, ah, qpn, key, flags), "ibv_post_send");
        sent.wait_ok();
    }
};

AhPtr handle_to_self(const Device &device, ibv_pd *pd)
{
    ibv_ah_attr attr{};
    attr.dlid = device.port().lid;
    attr.port_num = 1;
    if (device.is_roce()) {
        attr.is_global = 1;
        attr.grh.sgid_index = 1;
        attr.grh.hop_limit = 1;
        expect_zero(ibv_query_gid(device.get(), 1, 1, &attr.grh.dgid), "ibv_query_gid");
    }
    AhPtr ah(ibv_create_ah(pd, &attr));
    expect(ah != nullptr, str("ibv_create_ah: ", std::strerror(errno)));
    return ah;
}

struct Duo {
    Device device;
    Pd pd = device.pd();
    AhPtr ah = handle_to_self(device, pd.get());
    Datagrams a{device, pd.get()};
    Datagrams b{device, pd.get()};
    uint32_t to_b = b.qp->qp_num;
};

const Register deliver{
    "ud.deliver", "datagrams of 0 B to MTU behind 40 bytes of header space", [] {
        Duo t;
        size_t mtu = 128U << t.device.port().active_mtu;
        size_t most = std::min(mtu, page_size - grh_size);
        for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{1024}, most}) {
            fill(t.a.memory.bytes(0, size), size);
            t.b.receive(1);
            t.a.send(0, size, t.ah.get(), t.to_b);
            ibv_wc wc = t.b.received.wait_ok();
            expect_eq(static_cast<int>(wc.opcode), int{IBV_WC_RECV}, "opcode");
            expect_eq(wc.byte_len, size + grh_size, "byte_len, the 40 bytes included");
            expect_eq(wc.src_qp, t.a.qp->qp_num, "src_qp");
            expect_pattern(t.b.memory.bytes(page_size + grh_size, size), size, "received");
        }
        fill(t.a.memory.bytes(0, 60), 99);
        t.b.receive(1);
        t.a.send(0, 60, t.ah.get(), t.to_b, qkey, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
        t.b.received.wait_ok();
        expect_pattern(t.b.memory.bytes(page_size + grh_size, 60), 99, "received, sent inline");
    }};

const Register reply{
    "ud.reply", "an answer to the source of a datagram", [] {
        Duo t;
        t.b.receive(1);
        t.a.receive(1);
        t.a.send(0, 10, t.ah.get(), t.to_b);
        ibv_wc wc = t.b.received.wait_ok();
        auto *grh = reinterpret_cast<ibv_grh *>(t.b.memory.data() + page_size);
        AhPtr back(t.device.is_roce() ? handle_to_self(t.device, t.pd.get()).release()
                                      : ibv_create_ah_from_wc(t.pd.get(), &wc, grh, 1));
        expect(back != nullptr, str("ibv_create_ah_from_wc: ", std::strerror(errno)));
        fill(t.b.memory.bytes(0, 20), 2);
        t.b.send(0, 20, back.get(), wc.src_qp);
        t.a.received.wait_ok();
        expect_pattern(t.a.memory.bytes(page_size + grh_size, 20), 2, "the answer");
    }};

const Register drops{
    "ud.drops", "wrong Q_Key, no QP, no receive, too short: dropped, sender unaware", [] {
        Duo t;
        fill(t.a.memory.bytes(0, 100), 1);
        t.a.send(0, 100, t.ah.get(), t.to_b); // no receive is posted
        t.b.receive(1);
        t.a.send(0, 100, t.ah.get(), t.to_b, qkey + 1);
        t.a.send(0, 100, t.ah.get(), 0xfffffe);
        expect(!wait_until([&] { return t.b.received.poll().has_value(); }, soon),
               "a datagram that had to be dropped was delivered");
        expect_all(t.b.memory.bytes(page_size, page_size), 0, "the receive buffer after drops");
        fill(t.a.memory.bytes(0, 100), 2);
        t.a.send(0, 100, t.ah.get(), t.to_b);
        t.b.received.wait_ok(); // the receive was not consumed by what was dropped
        expect_pattern(t.b.memory.bytes(page_size + grh_size, 100), 2, "received");
    }};

const Register too_long{"ud.too_long", "a datagram longer than the MTU is refused", [] {
                            Duo t;
                            size_t mtu = 128U << t.device.port().active_mtu;
                            t.b.receive(8, 8 * page_size);
                            if (t.a.try_send(0, mtu + 1, t.ah.get(), t.to_b) == 0) {
                                ibv_wc wc = t.a.sent.wait();
                                expect(wc.status != IBV_WC_SUCCESS,
                                       "a datagram of MTU + 1 bytes was sent");
                            }
                            t.b.received.expect_empty("the datagram was too long");
                        }};

const Register flood{
    "ud.flood", "more datagrams than receives: the first ones arrive, in order", [] {
        Duo t;
        for (size_t slot = 0; slot < 8; ++slot) {
            t.b.receive(slot);
        }
        for (size_t i = 0; i < 40; ++i) {
            fill(t.a.memory.bytes(0, 64), i);
            t.a.send(0, 64, t.ah.get(), t.to_b);
        }
        for (size_t slot = 0; slot < 8; ++slot) {
            expect_eq(t.b.received.wait_ok().wr_id, slot, "wr_id");
            expect_pattern(t.b.memory.bytes(slot * page_size + grh_size, 64), slot, "received");
        }
        t.b.received.expect_empty("only 8 receives were posted");
    }};

const Register on_demand{
    "ud.on_demand", "datagrams from and to on-demand memory", [] {
        Duo t;
        Region whole = t.device.implicit(t.pd.get());
        uint32_t caps = t.device.attributes().odp_caps.per_transport_caps.ud_odp_caps;
        if ((caps & IBV_ODP_SUPPORT_SEND) == 0 || (caps & IBV_ODP_SUPPORT_RECV) == 0) {
            throw Skip(str(Device::name(), " has no on-demand paging for UD"));
        }
        for (uint64_t round = 0; round < 20; ++round) {
            Memory from(page_size);
            Memory to(page_size);
            fill(from.bytes(0, 1000), round);
            ibv_sge in = whole.sge(to.bytes());
            ibv_recv_wr receive{0, nullptr, &in, 1};
            ibv_recv_wr *bad_receive = nullptr;
            expect_zero(ibv_post_recv(t.b.qp.get(), &receive, &bad_receive), "ibv_post_recv");
            Work work = Work::datagram({whole.sge(from.bytes(0, 1000))}, t.ah.get(), t.to_b, qkey);
            work.raw().sg_list = work.sges().data();
            work.raw().num_sge = 1;
            ibv_send_wr *bad = nullptr;
            expect_zero(ibv_post_send(t.a.qp.get(), &work.raw(), &bad), "ibv_post_send");
            t.a.sent.wait_ok();
            t.b.received.wait_ok();
            expect_pattern(to.bytes(grh_size, 1000), round, "received");
        }
    }};

} // namespace
} // namespace vt
