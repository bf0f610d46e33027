// SPDX-License-Identifier: BSD-3-Clause
//
// The implicit region, which stands for all of the process' memory, and the small pinned pieces
// that the library keeps its own rings and buffers in.
#pragma once

#include "odp/device.hpp"
#include "odp/status.hpp"

#include "verbs.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace odp {

// ibv_reg_mr(3) of address 0, length SIZE_MAX, IBV_ACCESS_ON_DEMAND: its lkey is good for any local
// address, its rkey gives peers every address of the process for as long as it lives.
class Region {
public:
    static Result<Region> create(ibv_pd *pd, const Device &device);

    [[nodiscard]] std::uint32_t lkey() const noexcept { return mr_->lkey; }
    [[nodiscard]] std::uint32_t rkey() const noexcept { return mr_->rkey; }

private:
    explicit Region(MemoryRegion mr) noexcept : mr_(std::move(mr)) {}
    MemoryRegion mr_;
};

// Page-aligned zeroed memory, registered for local access. Move-only.
class PinnedMemory {
public:
    // Error: no_memory, with the limit of locked memory in the text.
    static Result<PinnedMemory> create(ibv_pd *pd, std::size_t bytes);

    PinnedMemory() noexcept = default;
    PinnedMemory(PinnedMemory &&other) noexcept
        : bytes_(std::exchange(other.bytes_, {})),
          mr_(std::move(other.mr_))
    {
    }
    PinnedMemory &operator=(PinnedMemory &&other) noexcept
    {
        std::swap(bytes_, other.bytes_);
        std::swap(mr_, other.mr_);
        return *this;
    }
    ~PinnedMemory();

    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint32_t lkey() const noexcept { return mr_ ? mr_->lkey : 0; }

private:
    std::span<std::byte> bytes_;
    MemoryRegion mr_;
};

} // namespace odp
