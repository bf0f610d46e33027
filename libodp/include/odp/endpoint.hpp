// SPDX-License-Identifier: BSD-3-Clause
//
// A connection to one peer: a reliable connected queue pair, made on first use.
#pragma once

#include "odp/address.hpp"
#include "odp/buffer.hpp"
#include "odp/status.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace odp {

// Called once when an operation that answered in_progress has ended. Owned by the caller, who may
// free or reuse it inside the call. It may call anything of Context and Endpoint.
struct Completion {
    void (*done)(Completion *self, const Status &status) = nullptr;
};

// Order: operations on one endpoint take effect in the order of the calls, whatever their kind;
// they are queued inside while the connection, credits or send queue slots lack. After the first
// error an endpoint has failed for good: everything queued or outstanding ends with that error or
// `flushed`.
//
// Return value of send, put and get: `ok` = done, the Completion is not called; `in_progress` = it
// will be called once, never from inside the call; anything else = refused, it isn't called.
//
// Thread-safety: as Context (one caller at a time).
class Endpoint {
public:
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;

    // Sends the first `length` bytes of the buffer's payload to the peer's handler of `am_id`.
    // `ok`: the buffer is the caller's again. With a Completion the caller keeps the buffer,
    // doesn't touch it until the call and releases it; without (nullptr) the library releases it,
    // also when the answer is `ok`. If the call is refused, the buffer stays the caller's.
    Status send(SendBuffer &buffer, std::uint8_t am_id, std::size_t length, Completion *completion);

    // Writes `length` bytes from `local` to `remote` in the peer's address space. Both are plain
    // addresses: nothing has to be registered. Done = visible at the peer. `completion` may be
    // nullptr: then only an error of the endpoint tells of a failure. Length 0 is allowed.
    Status put(const void *local, std::uint64_t remote, std::size_t length, Completion *completion);
    // Reads `length` bytes from `remote` in the peer's address space to `local`.
    Status get(void *local, std::uint64_t remote, std::size_t length, Completion *completion);

    // Starts connecting without an operation. Not needed.
    Status connect();

    [[nodiscard]] bool connected() const noexcept;
    // ok, or why the endpoint has failed or the peer has closed it.
    [[nodiscard]] const Status &error() const noexcept;
    // Operations accepted and not ended. 0: everything handed in is done.
    [[nodiscard]] std::size_t pending() const noexcept;
    [[nodiscard]] const Address &peer() const noexcept;
    // Nothing is pending, and the messages that send() copied have arrived, too. A put of 0 bytes makes
    // it so.
    [[nodiscard]] bool quiet() const noexcept;
    // "peer lid 1 qpn 0x12 ... through odp0:1", for messages.
    [[nodiscard]] std::string str() const;

    // For the caller; nullptr at first (also in an endpoint that the peer opened).
    void *user_data = nullptr;

protected:
    Endpoint() = default;
    ~Endpoint() = default;
};

} // namespace odp
