// SPDX-License-Identifier: BSD-3-Clause
#include "buffer_pool.hpp"

#include "message.hpp"

#include <algorithm>
#include <new>

namespace odp {

namespace {

constexpr std::size_t line = 64; // cache line

constexpr std::size_t round_up(std::size_t value) noexcept
{
    return (value + line - 1) / line * line;
}

} // namespace

BufferPool::BufferPool(Allocator allocator, std::uint32_t payload_room, std::uint32_t user_bytes,
                       std::uint32_t limit)
    : allocator_(std::move(allocator)),
      room_(payload_room),
      user_stride_(static_cast<std::uint32_t>(round_up(std::max(user_bytes, 1U)))),
      limit_(limit)
{
}

void BufferPool::AlignedFree::operator()(std::byte *memory) const noexcept
{
    ::operator delete(memory, std::align_val_t{line});
}

bool BufferPool::grow()
{
    const std::uint32_t count = std::min(chunk_buffers, limit_ - made_);
    if (count == 0) {
        return false;
    }
    const std::size_t stride = round_up(MessageHeader::size + room_);
    Chunk chunk;
    try {
        auto memory = allocator_(stride * count);
        if (!memory) {
            why_ = memory.status();
            return false;
        }
        chunk.memory = std::move(*memory);
        chunk.user.reset(static_cast<std::byte *>(
            ::operator new(std::size_t{user_stride_} * count, std::align_val_t{line})));
        chunk.buffers.reset(new SendBuffer[count]);
        chunks_.push_back(std::move(chunk));
    } catch (const std::bad_alloc &) {
        why_ = Code::no_memory;
        return false;
    }
    const Chunk &added = chunks_.back();
    for (std::uint32_t i = count; i-- > 0;) {
        SendBuffer &buffer = added.buffers[i];
        buffer.payload_ = added.memory.bytes.data() + i * stride + MessageHeader::size;
        buffer.user_ = added.user.get() + std::size_t{i} * user_stride_;
        buffer.room_ = room_;
        buffer.lkey_ = added.memory.lkey;
        buffer.next_ = std::exchange(free_, &buffer);
    }
    made_ += count;
    return true;
}

SendBuffer *BufferPool::alloc()
{
    if (free_ == nullptr && !grow()) {
        return nullptr;
    }
    ++in_use_;
    SendBuffer *buffer = free_;
    free_ = std::exchange(buffer->next_, nullptr);
    return buffer;
}

void BufferPool::release(SendBuffer &buffer) noexcept
{
    --in_use_;
    buffer.next_ = std::exchange(free_, &buffer);
}

} // namespace odp
