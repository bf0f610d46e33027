// SPDX-License-Identifier: BSD-3-Clause
#include "ud_port.hpp"

#include "format.hpp"
#include "random.hpp"
#include "work_id.hpp"

#include <algorithm>
#include <cerrno>

namespace odp {

namespace {

// Q_Keys with the top bit are the privileged ones (IBTA volume 1, 10.2.5).
constexpr std::uint32_t qkey_mask = 0x7fffffff;

} // namespace

Result<std::unique_ptr<UdPort>> UdPort::create(const Fabric &fabric)
{
    std::unique_ptr<UdPort> port(new UdPort(fabric));
    if (const Status status = port->set_up(); status.failed()) {
        return status;
    }
    return port;
}

UdPort::~UdPort()
{
    handles_.clear();
    qp_.reset();
    if (queue_ != nullptr) {
        CompletionQueues::release(*queue_, recv_slots + send_slots);
    }
    fabric_.statistics->pinned_bytes -= memory_.bytes().size();
}

Status UdPort::set_up()
{
    static_assert(recv_stride >= grh_size + Handshake::max_size);
    qkey_ = static_cast<std::uint32_t>(random_nonzero()) & qkey_mask;
    auto memory = PinnedMemory::create(fabric_.pd,
                                       recv_slots * recv_stride + send_slots * Handshake::max_size);
    if (!memory) {
        return memory.status();
    }
    memory_ = std::move(*memory);
    fabric_.statistics->pinned_bytes += memory_.bytes().size();
    auto queue = fabric_.queues->reserve(recv_slots + send_slots);
    if (!queue) {
        return queue.status();
    }
    queue_ = *queue;
    ibv_qp_init_attr attributes{};
    attributes.send_cq = queue_->cq.get();
    attributes.recv_cq = queue_->cq.get();
    attributes.qp_type = IBV_QPT_UD;
    attributes.cap.max_send_wr = send_slots;
    attributes.cap.max_recv_wr = recv_slots;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    errno = 0;
    qp_ = QueuePair(ibv_create_qp(fabric_.pd, &attributes));
    if (!qp_) {
        return Status::from_errno(
            errno, format("%s: ibv_create_qp of the UD queue pair", fabric_.device->str().c_str()));
    }
    if (const Status status =
            modify(IBV_QPS_INIT, "INIT", IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
        status.failed()) {
        return status;
    }
    for (std::uint32_t slot = 0; slot < recv_slots; ++slot) {
        if (const Status status = repost(slot); status.failed()) {
            return status;
        }
    }
    if (const Status status = modify(IBV_QPS_RTR, "RTR", 0); status.failed()) {
        return status;
    }
    if (const Status status = modify(IBV_QPS_RTS, "RTS", IBV_QP_SQ_PSN); status.failed()) {
        return status;
    }
    for (std::uint32_t slot = 0; slot < send_slots; ++slot) {
        free_sends_.push_back(slot);
    }
    return {};
}

Status UdPort::modify(ibv_qp_state state, const char *name, int extra)
{
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    attributes.port_num = fabric_.device->port();
    attributes.qkey = qkey_;
    const int error = ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE | extra);
    if (error != 0) {
        return Status::from_errno(
            error, format("%s: UD queue pair to %s", fabric_.device->str().c_str(), name));
    }
    return {};
}

Result<ibv_ah *> UdPort::handle_to(const Address &to)
{
    const PathKey key{to.gid, to.lid, to.grh};
    if (const auto known = handles_.find(key); known != handles_.end()) {
        return known->second.get();
    }
    if (handles_.size() >= max_handles) {
        handles_.clear(); // they are made again when needed
    }
    ibv_ah_attr path = fabric_.path_to(to);
    errno = 0;
    AddressHandle handle(ibv_create_ah(fabric_.pd, &path));
    if (!handle) {
        return Status::from_errno(errno, format("%s: ibv_create_ah for peer %s",
                                                fabric_.device->str().c_str(), to.str().c_str()));
    }
    return handles_.emplace(key, std::move(handle)).first->second.get();
}

Status UdPort::send(const Address &to, std::span<const std::byte> bytes)
{
    if (free_sends_.empty() || bytes.size() > Handshake::max_size) {
        return Code::no_resource; // the connector sends again
    }
    auto handle = handle_to(to);
    if (!handle) {
        return handle.status();
    }
    const std::uint32_t slot = free_sends_.back();
    const auto place = memory_.bytes().subspan(
        recv_slots * recv_stride + slot * Handshake::max_size, bytes.size());
    std::copy(bytes.begin(), bytes.end(), place.begin());
    ibv_sge piece{reinterpret_cast<std::uint64_t>(place.data()),
                  static_cast<std::uint32_t>(bytes.size()), memory_.lkey()};
    ibv_send_wr wr{};
    wr.wr_id = WorkId{WorkId::Kind::ud_send, 0, 0, slot}.pack();
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = *handle;
    wr.wr.ud.remote_qpn = to.qpn;
    wr.wr.ud.remote_qkey = to.qkey;
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(qp_.get(), &wr, &bad);
    if (error != 0) {
        return Status::from_errno(error, fabric_.device->str() + ": ibv_post_send of a datagram");
    }
    free_sends_.pop_back();
    return {};
}

void UdPort::on_sent(std::uint32_t slot) noexcept
{
    if (slot < send_slots && free_sends_.size() < send_slots) {
        free_sends_.push_back(slot); // within the capacity that it once had: doesn't allocate
    }
}

std::span<const std::byte> UdPort::received(std::uint32_t slot, std::uint32_t length) noexcept
{
    if (slot >= recv_slots || length < grh_size || length > recv_stride) {
        return {};
    }
    return memory_.bytes().subspan(slot * recv_stride + grh_size, length - grh_size);
}

Status UdPort::repost(std::uint32_t slot)
{
    ibv_sge piece{reinterpret_cast<std::uint64_t>(memory_.bytes().data() + slot * recv_stride),
                  recv_stride, memory_.lkey()};
    ibv_recv_wr wr{};
    wr.wr_id = WorkId{WorkId::Kind::ud_recv, 0, 0, slot}.pack();
    wr.sg_list = &piece;
    wr.num_sge = 1;
    ibv_recv_wr *bad = nullptr;
    const int error = ibv_post_recv(qp_.get(), &wr, &bad);
    if (error != 0) {
        return Status::from_errno(error,
                                  fabric_.device->str() + ": ibv_post_recv of a datagram buffer");
    }
    return {};
}

} // namespace odp
