// SPDX-License-Identifier: BSD-3-Clause
//
// Registered memory that an active message is sent from without another copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace odp {

// Got from Context::alloc(), given back by Context::release() (or by a send without Completion).
// Memory below is owned by the Context and valid until then; address and size never change.
class SendBuffer {
public:
    SendBuffer(const SendBuffer &) = delete;
    SendBuffer &operator=(const SendBuffer &) = delete;

    // Options::payload_room bytes, aligned to 8.
    [[nodiscard]] std::span<std::byte> payload() const noexcept { return {payload_, room_}; }
    // Options::buffer_user_bytes bytes, aligned to 64, not registered, never touched by the
    // library: a place for the caller's descriptor. Contents outlive release().
    [[nodiscard]] void *user() const noexcept { return user_; }

private:
    friend class BufferPool;
    friend class EndpointCore;
    SendBuffer() = default;

    std::byte *payload_ = nullptr;
    void *user_ = nullptr;
    SendBuffer *next_ = nullptr;
    std::uint32_t room_ = 0;
    std::uint32_t lkey_ = 0;
};

} // namespace odp
