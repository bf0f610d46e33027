// SPDX-License-Identifier: BSD-3-Clause
#include "rc_wire.hpp"

#include "format.hpp"
#include "message.hpp"
#include "random.hpp"
#include "work_id.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace odp {

namespace {

constexpr std::size_t post_limit = 16;
constexpr std::size_t ring_alignment = 64;
constexpr std::uint32_t psn_mask = 0xffffff;

std::uint8_t rd_atomic_limit(int device, std::uint8_t option) noexcept
{
    return static_cast<std::uint8_t>(
        std::clamp(device, 1, static_cast<int>(std::max<std::uint8_t>(option, 1))));
}

unsigned remote_access(const Device &device) noexcept
{
    unsigned access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (device.atomics()) {
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    }
    return access;
}

} // namespace

Result<QueuePair> RcWire::make_qp(const Fabric &fabric, ibv_cq *cq, std::uint32_t &max_inline)
{
    ibv_qp_init_attr attributes{};
    attributes.send_cq = cq;
    attributes.recv_cq = cq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = fabric.options->send_depth;
    attributes.cap.max_recv_wr = fabric.options->recv_depth;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = max_inline;
    errno = 0;
    QueuePair qp(ibv_create_qp(fabric.pd, &attributes));
    if (!qp) {
        return Status::from_errno(
            errno, format("%s: ibv_create_qp of an RC queue pair, send_depth %u, recv_depth %u, "
                          "inline %u (the device has max_qp_wr %d, max_qp %d)",
                          fabric.device->str().c_str(), fabric.options->send_depth,
                          fabric.options->recv_depth, max_inline,
                          fabric.device->attributes().orig_attr.max_qp_wr,
                          fabric.device->attributes().orig_attr.max_qp));
    }
    max_inline = std::min(max_inline, attributes.cap.max_inline_data);
    return qp;
}

Result<std::uint32_t> RcWire::granted_inline(const Fabric &fabric)
{
    const std::uint32_t entries = fabric.options->send_depth + fabric.options->recv_depth;
    auto queue = fabric.queues->reserve(entries);
    if (!queue) {
        return queue.status();
    }
    const auto header = static_cast<std::uint32_t>(MessageHeader::size);
    Status last;
    // There is no capability to ask: ibv_create_qp(3) grants or refuses.
    for (std::uint32_t wanted = fabric.options->max_inline + header; wanted >= header;
         wanted /= 2) {
        std::uint32_t granted = wanted;
        auto qp = make_qp(fabric, (*queue)->cq.get(), granted);
        if (qp && granted >= header) {
            (*queue)->reserved -= entries;
            return granted;
        }
        if (!qp) {
            last = qp.status();
        }
    }
    (*queue)->reserved -= entries;
    if (last.failed()) {
        return last;
    }
    return {Code::unsupported, format("%s grants no inline data on RC queue pairs, %u bytes are "
                                      "needed",
                                      fabric.device->str().c_str(), header)};
}

Result<std::unique_ptr<RcWire>> RcWire::create(const Fabric &fabric, std::uint32_t index,
                                               std::uint16_t generation)
{
    std::unique_ptr<RcWire> wire(new RcWire(fabric));
    wire->index_ = index;
    wire->generation_ = generation;
    if (const Status status = wire->set_up(); status.failed()) {
        return status;
    }
    return wire;
}

Status RcWire::set_up()
{
    const Options &options = *fabric_.options;
    psn_ = static_cast<std::uint32_t>(random_nonzero()) & psn_mask;
    stride_ = (MessageHeader::size + options.payload_room + ring_alignment - 1) / ring_alignment *
              ring_alignment;
    auto ring = PinnedMemory::create(fabric_.pd, stride_ * options.recv_depth);
    if (!ring) {
        return ring.status();
    }
    ring_ = std::move(*ring);
    fabric_.statistics->pinned_bytes += ring_.bytes().size();
    auto queue = fabric_.queues->reserve(options.send_depth + options.recv_depth);
    if (!queue) {
        return queue.status();
    }
    queue_ = *queue;
    reserved_ = options.send_depth + options.recv_depth;
    std::uint32_t max_inline = fabric_.max_inline;
    auto qp = make_qp(fabric_, queue_->cq.get(), max_inline);
    if (!qp) {
        return qp.status();
    }
    qp_ = std::move(*qp);

    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = 0;
    attributes.port_num = fabric_.device->port();
    attributes.qp_access_flags = remote_access(*fabric_.device);
    const int error =
        ibv_modify_qp(qp_.get(), &attributes,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error != 0) {
        return Status::from_errno(error, fabric_.device->str() + ": RC queue pair to INIT");
    }
    for (std::uint32_t slot = 0; slot < options.recv_depth; ++slot) {
        if (const Status status = repost(slot); status.failed()) {
            return status;
        }
    }
    return {};
}

RcWire::~RcWire()
{
    stop();
    fabric_.statistics->pinned_bytes -= ring_.bytes().size();
}

void RcWire::stop() noexcept
{
    qp_.reset();
    if (queue_ != nullptr) {
        CompletionQueues::release(*queue_, reserved_);
        queue_ = nullptr;
    }
}

ConnParams RcWire::params() const noexcept
{
    const Options &options = *fabric_.options;
    ConnParams params;
    params.qpn = qp_->qp_num;
    params.psn = psn_;
    params.rkey = fabric_.region->rkey();
    params.payload_room = options.payload_room;
    params.recv_depth = static_cast<std::uint16_t>(options.recv_depth);
    params.mtu = static_cast<std::uint8_t>(fabric_.device->port_attributes().active_mtu);
    params.rd_atomic = rd_atomic_limit(fabric_.device->attributes().orig_attr.max_qp_rd_atom,
                                       options.max_rd_atomic);
    return params;
}

Status RcWire::connect(const Address &peer, const ConnParams &params)
{
    const Options &options = *fabric_.options;
    const ConnParams own = this->params();
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = static_cast<ibv_mtu>(std::min(own.mtu, params.mtu));
    attributes.dest_qp_num = params.qpn;
    attributes.rq_psn = params.psn;
    attributes.max_dest_rd_atomic = own.rd_atomic;
    attributes.min_rnr_timer = options.min_rnr_timer;
    attributes.ah_attr = fabric_.path_to(peer);
    int error = ibv_modify_qp(qp_.get(), &attributes,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0) {
        return Status::from_errno(error, format("%s: RC queue pair to RTR, for peer %s, its queue "
                                                "pair 0x%x",
                                                fabric_.device->str().c_str(), peer.str().c_str(),
                                                params.qpn));
    }
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = psn_;
    attributes.timeout = options.timeout;
    attributes.retry_cnt = options.retry_count;
    attributes.rnr_retry = options.rnr_retry;
    attributes.max_rd_atomic =
        std::min(params.rd_atomic,
                 rd_atomic_limit(fabric_.device->attributes().orig_attr.max_qp_init_rd_atom,
                                 options.max_rd_atomic));
    error = ibv_modify_qp(qp_.get(), &attributes,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    if (error != 0) {
        return Status::from_errno(error, format("%s: RC queue pair to RTS, for peer %s",
                                                fabric_.device->str().c_str(), peer.str().c_str()));
    }
    return {};
}

Status RcWire::post(std::span<const WorkRequest> requests)
{
    std::array<ibv_sge, post_limit> pieces{};
    std::array<ibv_send_wr, post_limit> chain{};
    if (requests.empty() || requests.size() > post_limit) {
        return Code::invalid_argument;
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const WorkRequest &request = requests[i];
        ibv_send_wr &wr = chain[i];
        pieces[i] = {request.local, request.length, request.lkey};
        wr.wr_id = WorkId{WorkId::Kind::rc_send, index_, generation_,
                          static_cast<std::uint32_t>(request.sequence) & WorkId::max_item}
                       .pack();
        wr.next = i + 1 < requests.size() ? &chain[i + 1] : nullptr;
        wr.sg_list = &pieces[i];
        wr.num_sge = request.length == 0 ? 0 : 1;
        wr.send_flags = (request.signaled ? unsigned{IBV_SEND_SIGNALED} : 0U) |
                        (request.inlined ? unsigned{IBV_SEND_INLINE} : 0U);
        switch (request.kind) {
        case OpKind::send:
        case OpKind::credits:
        case OpKind::bye:
            wr.opcode = IBV_WR_SEND;
            break;
        case OpKind::put:
        case OpKind::probe:
            wr.opcode = IBV_WR_RDMA_WRITE;
            break;
        case OpKind::get:
            wr.opcode = IBV_WR_RDMA_READ;
            break;
        }
        if (wr.opcode != IBV_WR_SEND) {
            wr.wr.rdma.remote_addr = request.remote;
            wr.wr.rdma.rkey = request.rkey;
        }
    }
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(qp_.get(), chain.data(), &bad);
    if (error != 0) {
        return Status::from_errno(error, fabric_.device->str() + ": ibv_post_send");
    }
    return {};
}

Status RcWire::repost(std::uint32_t slot)
{
    ibv_sge piece{reinterpret_cast<std::uint64_t>(ring_.bytes().data() + slot * stride_),
                  static_cast<std::uint32_t>(MessageHeader::size) + fabric_.options->payload_room,
                  ring_.lkey()};
    ibv_recv_wr wr{};
    wr.wr_id = WorkId{WorkId::Kind::rc_recv, index_, generation_, slot}.pack();
    wr.sg_list = &piece;
    wr.num_sge = 1;
    ibv_recv_wr *bad = nullptr;
    const int error = ibv_post_recv(qp_.get(), &wr, &bad);
    if (error != 0) {
        return Status::from_errno(error, fabric_.device->str() + ": ibv_post_recv");
    }
    return {};
}

std::span<const std::byte> RcWire::received(std::uint32_t slot, std::uint32_t length)
{
    if (slot >= fabric_.options->recv_depth) {
        return {};
    }
    return ring_.bytes().subspan(slot * stride_, std::min<std::size_t>(length, stride_));
}

} // namespace odp
