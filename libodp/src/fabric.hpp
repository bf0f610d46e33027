// SPDX-License-Identifier: BSD-3-Clause
//
// What the queue pairs of one Context share.
#pragma once

#include "odp/address.hpp"
#include "odp/context.hpp"
#include "odp/device.hpp"
#include "odp/options.hpp"

#include "completion_queues.hpp"
#include "memory.hpp"
#include "verbs.hpp"
#include "wire.hpp"

#include <cstdint>

namespace odp {

struct Fabric {
    const Options *options = nullptr;
    const Device *device = nullptr;
    ibv_pd *pd = nullptr;
    const Region *region = nullptr;
    CompletionQueues *queues = nullptr;
    std::uint8_t gid_index = 0;
    std::uint32_t max_inline = 0; // bytes, granted by the device for RC
    Address self;
    Statistics *statistics = nullptr;

    // The way to `peer` as ibv_create_ah(3) and ibv_modify_qp(3) want it.
    [[nodiscard]] ibv_ah_attr path_to(const Address &peer) const noexcept;
};

// A completion's status in terms of the library. Source: ibv_poll_cq(3), and IBTA volume 1,
// 11.6.2 for what each means.
WireResult wire_result(const ibv_wc &completion) noexcept;

} // namespace odp
