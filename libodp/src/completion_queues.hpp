// SPDX-License-Identifier: BSD-3-Clause
//
// Completion queues that can't overrun: every queue pair reserves as many entries as it can have
// requests outstanding (after an error all of them complete, unsignalled ones too). When the queues
// are full another one is made.
#pragma once

#include "odp/status.hpp"

#include "verbs.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace odp {

class CompletionQueues {
public:
    struct Queue {
        CompletionQueue cq;
        std::uint32_t capacity = 0;
        std::uint32_t reserved = 0;
        std::uint32_t released = 0; // by queue pairs whose completions may still be inside
    };

    // Entries of a queue; queues are made when they are needed.
    CompletionQueues(ibv_context *device, std::uint32_t depth, std::uint32_t max_depth) noexcept
        : device_(device),
          depth_(depth),
          max_depth_(max_depth)
    {
    }

    // A queue with room for `count` entries; the pointer stays valid.
    Result<Queue *> reserve(std::uint32_t count);
    // Gives entries back, after the queue pair was destroyed.
    static void release(Queue &queue, std::uint32_t count) noexcept { queue.released += count; }

    [[nodiscard]] std::size_t size() const noexcept { return queues_.size(); }
    // Takes up to batch.size() completions from queue `index`. Negative: ibv_poll_cq failed.
    int poll(std::size_t index, std::span<ibv_wc> batch) noexcept;

private:
    ibv_context *device_;
    std::uint32_t depth_;
    std::uint32_t max_depth_;
    std::vector<std::unique_ptr<Queue>> queues_;
};

} // namespace odp
