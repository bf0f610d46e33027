// SPDX-License-Identifier: BSD-3-Clause
//
// All of one process on one device: protection domain, implicit region, completion queues, buffers,
// connector and endpoints.
//
// Thread-safety: one caller at a time for a Context and everything got from it, unless said
// otherwise; handlers and completions run inside progress() and may call back into the library,
// progress() included.
//
// fork(): the child has no connection. In it every call fails or does nothing, and destructors
// leave the parent's objects alone.
#pragma once

#include "odp/address.hpp"
#include "odp/buffer.hpp"
#include "odp/device.hpp"
#include "odp/endpoint.hpp"
#include "odp/options.hpp"
#include "odp/status.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace odp {

// `data` is valid during the call only. `from.user_data` is nullptr if this process hasn't asked
// for that endpoint yet.
using AmHandler = void (*)(void *arg, Endpoint &from, std::uint8_t am_id,
                           std::span<const std::byte> data);

// Called once for an endpoint that fails, after all its operations were completed.
using ErrorHandler = void (*)(void *arg, Endpoint &endpoint, const Status &status);

struct Statistics {
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_received = 0;
    std::uint64_t bytes_sent = 0;     // payload of messages
    std::uint64_t bytes_received = 0; // payload of messages
    std::uint64_t puts = 0;
    std::uint64_t put_bytes = 0;
    std::uint64_t gets = 0;
    std::uint64_t get_bytes = 0;
    std::uint64_t waited = 0;           // operations that were queued first
    std::uint64_t credit_messages = 0;  // sent only to return credits
    std::uint64_t connections = 0;      // established
    std::uint64_t handshake_resent = 0; // datagrams sent again
    std::uint64_t pinned_bytes = 0;     // rings and send buffers; user memory is never pinned
};

class Context {
public:
    // Opens the device that the options ask for and everything else. Errors: no_device, no_memory
    // (locked memory: ulimit -l), invalid_argument (an option, with its limits), system.
    static Result<std::unique_ptr<Context>> create(const Options &options);
    virtual ~Context();

    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    // What to publish to the peers. Never changes.
    [[nodiscard]] virtual const Address &address() const noexcept = 0;
    [[nodiscard]] virtual const Device &device() const noexcept = 0;
    [[nodiscard]] virtual const Options &options() const noexcept = 0;
    [[nodiscard]] virtual const Statistics &statistics() const noexcept = 0;
    // Messages up to this many bytes of payload are copied by send(), which then answers `ok`.
    [[nodiscard]] virtual std::size_t max_inline_payload() const noexcept = 0;

    // The endpoint to `peer`; made when there is none, which sends nothing yet. Owned by the
    // Context. A peer that connected by itself has one already. `peer` may be the own address.
    virtual Result<Endpoint *> endpoint(const Address &peer) = 0;
    // Closes: what is pending ends with `flushed`; then the endpoint is gone. May be called from a
    // handler. The peer is told: there it is no
    // failure unless it has operations pending, but its further operations are refused (peer_lost).
    virtual void close(Endpoint &endpoint) = 0;

    // nullptr if max_send_buffers are in use or no memory can be had: try after progress().
    virtual SendBuffer *alloc() = 0;
    virtual void release(SendBuffer &buffer) noexcept = 0;

    // The handler for one message id, or for all 256. A message without a handler fails its
    // endpoint.
    virtual void set_am_handler(std::uint8_t am_id, AmHandler handler, void *arg) = 0;
    virtual void set_am_handler(AmHandler handler, void *arg) = 0;
    virtual void set_error_handler(ErrorHandler handler, void *arg) = 0;

    // Moves everything on; runs handlers and completions. Returns the number of events served. No
    // system call while nothing is to be sent.
    virtual int progress() = 0;

    // Progress until nothing is pending on any endpoint. Error: timed_out after `limit`, with what
    // is pending. Call it before destruction if the last messages must arrive.
    virtual Status drain(std::chrono::milliseconds limit) = 0;

protected:
    Context() = default;
};

} // namespace odp
