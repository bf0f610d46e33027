// SPDX-License-Identifier: BSD-3-Clause
#include "completion_queues.hpp"

#include "format.hpp"

#include <algorithm>
#include <cerrno>

namespace odp {

Result<CompletionQueues::Queue *> CompletionQueues::reserve(std::uint32_t count)
{
    for (const auto &queue : queues_) {
        if (queue->capacity - queue->reserved >= count) {
            queue->reserved += count;
            return queue.get();
        }
    }
    const std::uint32_t depth = std::max(count, std::min(depth_, max_depth_));
    if (depth > max_depth_) {
        return {
            Code::invalid_argument,
            format("a completion queue of %u entries is needed, the device has %u at most: make "
                   "recv_depth or send_depth smaller",
                   depth, max_depth_)};
    }
    auto queue = std::make_unique<Queue>();
    errno = 0;
    queue->cq =
        CompletionQueue(ibv_create_cq(device_, static_cast<int>(depth), nullptr, nullptr, 0));
    if (!queue->cq) {
        return Status::from_errno(errno, format("ibv_create_cq of %u entries (the %zu. queue)",
                                                depth, queues_.size() + 1));
    }
    queue->capacity = std::max(depth, static_cast<std::uint32_t>(queue->cq->cqe));
    queue->reserved = count;
    queues_.push_back(std::move(queue));
    return queues_.back().get();
}

int CompletionQueues::poll(std::size_t index, std::span<ibv_wc> batch) noexcept
{
    Queue &queue = *queues_[index];
    const int count = ibv_poll_cq(queue.cq.get(), static_cast<int>(batch.size()), batch.data());
    if (queue.released != 0 && count >= 0 && static_cast<std::size_t>(count) < batch.size()) {
        // Empty: what destroyed queue pairs had left inside is gone.
        queue.reserved -= queue.released;
        queue.released = 0;
    }
    return count;
}

} // namespace odp
