// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "odp/buffer.hpp"
#include "odp/status.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace odp {

// Send buffers, made in chunks when they are first needed and kept for reuse.
class BufferPool {
public:
    // Registered memory of one chunk, page-aligned; `owner` keeps it.
    struct Memory {
        std::span<std::byte> bytes;
        std::uint32_t lkey = 0;
        std::shared_ptr<void> owner;
    };
    using Allocator = std::function<Result<Memory>(std::size_t bytes)>;

    // payload_room: bytes; user_bytes: unregistered bytes beside each buffer; limit: buffers.
    BufferPool(Allocator allocator, std::uint32_t payload_room, std::uint32_t user_bytes,
               std::uint32_t limit);

    // nullptr: the limit is reached, or no memory (then why() says so).
    SendBuffer *alloc();
    void release(SendBuffer &buffer) noexcept;

    [[nodiscard]] std::uint32_t made() const noexcept { return made_; }
    [[nodiscard]] std::uint32_t in_use() const noexcept { return in_use_; }
    [[nodiscard]] const Status &why() const noexcept { return why_; }

private:
    static constexpr std::uint32_t chunk_buffers = 64;

    struct AlignedFree {
        void operator()(std::byte *memory) const noexcept;
    };
    struct Chunk {
        Memory memory;
        std::unique_ptr<std::byte, AlignedFree> user;
        std::unique_ptr<SendBuffer[]> buffers;
    };

    bool grow();

    Allocator allocator_;
    std::uint32_t room_;
    std::uint32_t user_stride_;
    std::uint32_t limit_;
    std::uint32_t made_ = 0;
    std::uint32_t in_use_ = 0;
    SendBuffer *free_ = nullptr;
    Status why_;
    std::vector<Chunk> chunks_;
};

} // namespace odp
