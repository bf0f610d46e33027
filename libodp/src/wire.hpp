// SPDX-License-Identifier: BSD-3-Clause
//
// What an endpoint's logic needs of a connected queue pair. RcWire is the real one; tests have one
// that fails when they want it to.
#pragma once

#include "odp/status.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace odp {

enum class OpKind : std::uint8_t { send, put, get, credits, bye, probe };

struct WorkRequest {
    OpKind kind = OpKind::send;
    bool signaled = false; // wants a completion; errors make one in any case
    bool inlined = false;  // the bytes are taken during post()
    std::uint32_t lkey = 0;
    std::uint32_t length = 0;
    std::uint32_t rkey = 0;
    std::uint64_t local = 0;
    std::uint64_t remote = 0;
    std::uint64_t sequence = 0; // comes back with the completion
};

class Wire {
public:
    // Posts all in order, or fails; then it isn't known which of them were posted.
    virtual Status post(std::span<const WorkRequest> requests) = 0;
    // Gives receive buffer `slot` (0..depth-1) to the queue pair again.
    virtual Status repost(std::uint32_t slot) = 0;
    // The bytes received in `slot`. Valid until it is reposted.
    virtual std::span<const std::byte> received(std::uint32_t slot, std::uint32_t length) = 0;
    // Ends everything: after it nothing touches memory and nothing that was posted completes.
    virtual void stop() noexcept = 0;

protected:
    ~Wire() = default;
};

// How a request ended, in terms of the library. `detail` is for people.
struct WireResult {
    Code code = Code::ok;
    const char *detail = "";  // "remote access error"
    std::uint32_t status = 0; // enum ibv_wc_status
    std::uint32_t vendor = 0; // vendor_err
};

} // namespace odp
