// SPDX-License-Identifier: BSD-3-Clause
//
// Puts and gets. Keys are of no interest: one implicit region covers each process.
#include "iface.hpp"

#include <cstring>

namespace uct_odp {

namespace {

void on_done(odp::Completion *self, const odp::Status &status)
{
    auto *op = static_cast<Op *>(self);
    Iface &iface = *op->iface;
    if (op->unpack != nullptr && status.ok()) {
        op->unpack(op->unpack_arg, op->buffer->payload().data(), op->length);
    }
    if (op->buffer != nullptr) {
        iface.context->release(*op->buffer);
    }
    uct_completion_t *completion = op->completion;
    iface.give_op(op);
    // Who closes an interface with operations outstanding has cancelled them.
    invoke(completion, iface.closing ? UCS_ERR_CANCELED : ucs_status(status));
}

// What was begun by the library without the operation being outstanding.
ucs_status_t drop(Op *op, const odp::Status &status)
{
    if (op->buffer != nullptr) {
        op->iface->context->release(*op->buffer);
    }
    op->iface->give_op(op);
    return ucs_status(status);
}

// An operation with a buffer; nullptr: `status` says why not.
Op *start_copy(const Ep &ep, uct_completion_t *completion, ucs_status_t &status)
{
    Iface &iface = *ep.peer->iface;
    status = check_resources(ep);
    if (status != UCS_OK) {
        return nullptr;
    }
    odp::SendBuffer *buffer = iface.context->alloc();
    if (buffer == nullptr) {
        status = UCS_ERR_NO_RESOURCE;
        return nullptr;
    }
    Op *op = iface.take_op(completion);
    if (op == nullptr) {
        iface.context->release(*buffer);
        status = UCS_ERR_NO_MEMORY;
        return nullptr;
    }
    op->buffer = buffer;
    return op;
}

ucs_status_t put_copied(const Ep &ep, Op *op, std::size_t length, std::uint64_t remote)
{
    const odp::Status status =
        ep.peer->connection->put(op->buffer->payload().data(), remote, length, op);
    if (!status.in_progress()) {
        return drop(op, status);
    }
    return UCS_OK; // the caller's buffer is free
}

// Pieces complete in order, so that the last one tells of all.
ucs_status_t move(uct_ep_h tl_ep, const uct_iov_t *iov, std::size_t count, std::uint64_t remote,
                  uct_completion_t *completion, bool get)
{
    const Ep &ep = *ep_of(tl_ep);
    if (count > max_iov) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (const ucs_status_t status = check_resources(ep); status != UCS_OK) {
        return status;
    }
    std::size_t last = 0;
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t length = iov[i].length * iov[i].count;
        last = length != 0 ? i : last;
        total += length;
    }
    if (total == 0) {
        return UCS_OK;
    }
    Iface &iface = *ep.peer->iface;
    Op *op = completion != nullptr ? iface.take_op(completion) : nullptr;
    if (op == nullptr && completion != nullptr) {
        return UCS_ERR_NO_MEMORY;
    }
    odp::Endpoint &connection = *ep.peer->connection;
    odp::Status status;
    for (std::size_t i = 0; i <= last && !status.failed(); ++i) {
        const std::size_t length = iov[i].length * iov[i].count;
        if (length == 0) {
            continue;
        }
        odp::Completion *done = i == last ? op : nullptr;
        status = get ? connection.get(iov[i].buffer, remote, length, done)
                     : connection.put(iov[i].buffer, remote, length, done);
        remote += length;
    }
    if (op != nullptr && !status.in_progress()) {
        return drop(op, status);
    }
    return ucs_status(status);
}

} // namespace

Op *Iface::take_op(uct_completion_t *completion) noexcept
{
    Op *op = free_ops;
    if (op != nullptr) {
        free_ops = op->next_free;
        *op = Op{};
    } else {
        op = new (std::nothrow) Op;
        if (op == nullptr) {
            return nullptr;
        }
    }
    op->done = on_done;
    op->iface = this;
    op->completion = completion;
    return op;
}

void Iface::give_op(Op *op) noexcept
{
    op->next_free = free_ops;
    free_ops = op;
}

void invoke(uct_completion_t *completion, ucs_status_t status)
{
    if (completion == nullptr) {
        return;
    }
    if (status != UCS_OK && completion->status == UCS_OK) {
        completion->status = status;
    }
    if (--completion->count == 0) {
        completion->func(completion);
    }
}

ucs_status_t ep_put_short(uct_ep_h tl_ep, const void *buffer, unsigned length, std::uint64_t remote,
                          uct_rkey_t)
{
    const Ep &ep = *ep_of(tl_ep);
    if (length == 0) {
        return UCS_OK;
    }
    ucs_status_t status = UCS_OK;
    Op *op = start_copy(ep, nullptr, status);
    if (op == nullptr) {
        return status;
    }
    if (length > op->buffer->payload().size()) {
        return drop(op, odp::Code::invalid_argument);
    }
    std::memcpy(op->buffer->payload().data(), buffer, length);
    return put_copied(ep, op, length, remote);
}

ssize_t ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack, void *arg, std::uint64_t remote,
                     uct_rkey_t)
{
    const Ep &ep = *ep_of(tl_ep);
    ucs_status_t status = UCS_OK;
    Op *op = start_copy(ep, nullptr, status);
    if (op == nullptr) {
        return status;
    }
    const std::size_t length = pack(op->buffer->payload().data(), arg);
    status = length == 0 ? drop(op, {}) : put_copied(ep, op, length, remote);
    return status == UCS_OK ? static_cast<ssize_t>(length) : static_cast<ssize_t>(status);
}

ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, std::size_t count,
                          std::uint64_t remote, uct_rkey_t, uct_completion_t *completion)
{
    return move(ep, iov, count, remote, completion, false);
}

ucs_status_t ep_get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack, void *arg,
                          std::size_t length, std::uint64_t remote, uct_rkey_t,
                          uct_completion_t *completion)
{
    const Ep &ep = *ep_of(tl_ep);
    if (length == 0) {
        return UCS_OK;
    }
    ucs_status_t status = UCS_OK;
    Op *op = start_copy(ep, completion, status);
    if (op == nullptr) {
        return status;
    }
    if (length > op->buffer->payload().size()) {
        return drop(op, odp::Code::invalid_argument);
    }
    op->unpack = unpack;
    op->unpack_arg = arg;
    op->length = length;
    const odp::Status posted =
        ep.peer->connection->get(op->buffer->payload().data(), remote, length, op);
    return posted.in_progress() ? UCS_INPROGRESS : drop(op, posted);
}

ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, std::size_t count,
                          std::uint64_t remote, uct_rkey_t, uct_completion_t *completion)
{
    return move(ep, iov, count, remote, completion, true);
}

} // namespace uct_odp
