// SPDX-License-Identifier: BSD-3-Clause
//
// A reliable connected queue pair and its ring of receive buffers.
#pragma once

#include "fabric.hpp"
#include "handshake.hpp"
#include "wire.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace odp {

class RcWire final : public Wire {
public:
    // A queue pair in state INIT with all its receives posted. `index` and `generation` go into the
    // wr_ids (work_id.hpp).
    static Result<std::unique_ptr<RcWire>> create(const Fabric &fabric, std::uint32_t index,
                                                  std::uint16_t generation);
    // The inline size that the device grants, up to Options::max_inline plus a header; an error if
    // it can't even do a header.
    static Result<std::uint32_t> granted_inline(const Fabric &fabric);

    RcWire(const RcWire &) = delete;
    RcWire &operator=(const RcWire &) = delete;
    ~RcWire();

    [[nodiscard]] ConnParams params() const noexcept;
    // To RTR and RTS.
    Status connect(const Address &peer, const ConnParams &params);

    Status post(std::span<const WorkRequest> requests) override;
    Status repost(std::uint32_t slot) override;
    std::span<const std::byte> received(std::uint32_t slot, std::uint32_t length) override;
    void stop() noexcept override;

private:
    explicit RcWire(const Fabric &fabric) noexcept : fabric_(fabric) {}
    static Result<QueuePair> make_qp(const Fabric &fabric, ibv_cq *cq, std::uint32_t &max_inline);
    Status set_up();

    const Fabric &fabric_;
    std::uint32_t index_ = 0;
    std::uint16_t generation_ = 0;
    CompletionQueues::Queue *queue_ = nullptr;
    std::uint32_t reserved_ = 0;
    QueuePair qp_;
    PinnedMemory ring_;
    std::size_t stride_ = 0;
    std::uint32_t psn_ = 0;
};

} // namespace odp
