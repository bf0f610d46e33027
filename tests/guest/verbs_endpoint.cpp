// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_endpoint.hpp"

#include <random>

namespace vt {
namespace {

uint32_t random_psn()
{
    static std::random_device source;
    return source() & 0xffffff;
}

// On a RoCE device over `lo`, index 0 is a link-local address that nothing routes to; 1 is IPv4.
constexpr uint8_t roce_gid_index = 1;

} // namespace

Work::Work(ibv_wr_opcode opcode, Sges sges) : sges_(std::move(sges))
{
    wr_.opcode = opcode;
    wr_.send_flags = IBV_SEND_SIGNALED;
}

Work Work::send_imm(Sges sges, uint32_t imm)
{
    Work work(IBV_WR_SEND_WITH_IMM, std::move(sges));
    work.wr_.imm_data = imm;
    return work;
}

Work Work::write(Sges sges, uint64_t address, uint32_t rkey)
{
    Work work(IBV_WR_RDMA_WRITE, std::move(sges));
    work.wr_.wr.rdma = {address, rkey};
    return work;
}

Work Work::write_imm(Sges sges, uint64_t address, uint32_t rkey, uint32_t imm)
{
    Work work = write(std::move(sges), address, rkey);
    work.wr_.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.wr_.imm_data = imm;
    return work;
}

Work Work::read(Sges sges, uint64_t address, uint32_t rkey)
{
    Work work = write(std::move(sges), address, rkey);
    work.wr_.opcode = IBV_WR_RDMA_READ;
    return work;
}

Work Work::fetch_add(Sges sges, uint64_t address, uint32_t rkey, uint64_t add)
{
    Work work(IBV_WR_ATOMIC_FETCH_AND_ADD, std::move(sges));
    work.wr_.wr.atomic = {address, add, 0, rkey};
    return work;
}

Work Work::compare_swap(Sges sges, uint64_t address, uint32_t rkey, uint64_t compare, uint64_t swap)
{
    Work work(IBV_WR_ATOMIC_CMP_AND_SWP, std::move(sges));
    work.wr_.wr.atomic = {address, compare, swap, rkey};
    return work;
}

Work Work::datagram(Sges sges, ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    Work work(IBV_WR_SEND, std::move(sges));
    work.wr_.wr.ud = {ah, qpn, qkey};
    return work;
}

Work &Work::id(uint64_t id)
{
    wr_.wr_id = id;
    return *this;
}

Work &Work::add(unsigned flags)
{
    wr_.send_flags |= flags;
    return *this;
}

Work &Work::unsignalled()
{
    wr_.send_flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
    return *this;
}

CompletionQueue::CompletionQueue(const Device &device, int depth, ibv_comp_channel *channel)
    : cq_(ibv_create_cq(device.get(), depth, nullptr, channel, 0))
{
    expect(cq_ != nullptr, str("ibv_create_cq: ", std::strerror(errno)));
}

std::optional<ibv_wc> CompletionQueue::poll()
{
    ibv_wc wc{};
    int count = ibv_poll_cq(get(), 1, &wc);
    expect(count >= 0, "ibv_poll_cq failed");
    return count == 1 ? std::optional(wc) : std::nullopt;
}

ibv_wc CompletionQueue::wait(const Location &at)
{
    std::optional<ibv_wc> wc;
    if (!wait_until([&] { return (wc = poll()).has_value(); })) {
        fail(str("no completion within ", patience.count(), " s"), at);
    }
    return *wc;
}

ibv_wc CompletionQueue::wait_ok(const Location &at)
{
    return wait_status(IBV_WC_SUCCESS, at);
}

ibv_wc CompletionQueue::wait_status(ibv_wc_status status, const Location &at)
{
    ibv_wc wc = wait(at);
    expect_eq(std::string(ibv_wc_status_str(wc.status)), std::string(ibv_wc_status_str(status)),
              str("completion of wr_id ", wc.wr_id), at);
    return wc;
}

void CompletionQueue::expect_empty(std::string_view why, const Location &at)
{
    if (auto wc = poll()) {
        fail(str("unexpected completion of wr_id ", wc->wr_id, " with ",
                 ibv_wc_status_str(wc->status), ": ", why),
             at);
    }
}

Endpoint::Endpoint(const Device &device, ibv_pd *pd, EndpointConfig config)
    : device_(&device),
      config_(config),
      send_cq_(device, config.cq_depth, config.channel),
      recv_cq_(device, config.cq_depth, config.channel),
      psn_(random_psn())
{
    ibv_qp_init_attr init{};
    init.send_cq = send_cq_.get();
    init.recv_cq = recv_cq_.get();
    init.cap = {config.send_depth, config.recv_depth, config.max_sge, config.max_sge,
                config.max_inline};
    init.qp_type = config.type;
    init.srq = config.srq;
    init.sq_sig_all = config.signal_all ? 1 : 0;
    qp_.reset(ibv_create_qp(pd, &init));
    expect(qp_ != nullptr, str("ibv_create_qp: ", std::strerror(errno)));
}

Address Endpoint::address() const
{
    Address address{qp_->qp_num, psn_, device_->port().lid, {}, device_->is_roce()};
    if (address.use_gid) {
        expect_zero(ibv_query_gid(device_->get(), 1, roce_gid_index, &address.gid),
                    "ibv_query_gid");
    }
    return address;
}

int Endpoint::to_init()
{
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = config_.access;
    return ibv_modify_qp(qp(), &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int Endpoint::to_rtr(const Address &peer)
{
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = device_->port().active_mtu;
    attr.dest_qp_num = peer.qpn;
    attr.rq_psn = peer.psn;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 1; // 10 us
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = 1;
    if (peer.use_gid) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = peer.gid;
        attr.ah_attr.grh.sgid_index = roce_gid_index;
        attr.ah_attr.grh.hop_limit = 1;
    }
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (config_.type == IBV_QPT_RC) {
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    return ibv_modify_qp(qp(), &attr, mask);
}

int Endpoint::to_rts()
{
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = psn_;
    attr.timeout = config_.timeout;
    attr.retry_cnt = config_.retry;
    attr.rnr_retry = config_.rnr_retry;
    attr.max_rd_atomic = 16;
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (config_.type == IBV_QPT_RC) {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return ibv_modify_qp(qp(), &attr, mask);
}

int Endpoint::to(ibv_qp_state state)
{
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return ibv_modify_qp(qp(), &attr, IBV_QP_STATE);
}

void Endpoint::connect(const Address &peer)
{
    expect_zero(to_init(), "RESET -> INIT");
    expect_zero(to_rtr(peer), "INIT -> RTR");
    expect_zero(to_rts(), "RTR -> RTS");
}

ibv_qp_state Endpoint::state() const
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    expect_zero(ibv_query_qp(qp(), &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state;
}

void Endpoint::wait_state(ibv_qp_state want, const Location &at)
{
    expect(wait_until([&] { return state() == want; }),
           str("QP state is ", static_cast<int>(state()), ", want ", static_cast<int>(want)), at);
}

int Endpoint::try_post(std::vector<Work> chain)
{
    for (size_t i = 0; i < chain.size(); ++i) {
        ibv_send_wr &wr = chain[i].raw();
        wr.sg_list = chain[i].sges().data();
        wr.num_sge = static_cast<int>(chain[i].sges().size());
        wr.next = i + 1 < chain.size() ? &chain[i + 1].raw() : nullptr;
    }
    ibv_send_wr *bad = nullptr;
    return ibv_post_send(qp(), &chain.front().raw(), &bad);
}

void Endpoint::post(std::vector<Work> chain, const Location &at)
{
    expect_zero(try_post(std::move(chain)), "ibv_post_send", at);
}

void Endpoint::post(Work work, const Location &at)
{
    post(std::vector<Work>{std::move(work)}, at);
}

int Endpoint::try_post_receive(Work::Sges sges, uint64_t id)
{
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    ibv_recv_wr *bad = nullptr;
    return ibv_post_recv(qp(), &wr, &bad);
}

void Endpoint::post_receive(Work::Sges sges, uint64_t id, const Location &at)
{
    expect_zero(try_post_receive(std::move(sges), id), "ibv_post_recv", at);
}

void expect_device_works(const Location &at)
{
    Pair pair;
    Memory from(page_size);
    Memory to(page_size);
    Region source = pair.device.pinned(pair.pd.get(), from.bytes());
    Region sink = pair.device.pinned(pair.pd.get(), to.bytes());
    for (uint64_t round = 0; round < 3; ++round) {
        fill(from.bytes(), round);
        pair.b.post_receive({sink.sge(to.bytes())}, 0, at);
        pair.a.post(Work::send({source.sge(from.bytes())}), at);
        pair.a.sent().wait_ok(at);
        pair.b.received().wait_ok(at);
        expect_pattern(to.bytes(), round, "a fresh pair after the test", at);
    }
}

} // namespace vt
