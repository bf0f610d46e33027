// SPDX-License-Identifier: BSD-3-Clause
// RAII owners of verbs objects, the device under test and its memory regions.
#pragma once

#include "verbs_check.hpp"
#include "verbs_memory.hpp"

#include <infiniband/verbs.h>

#include <memory>
#include <optional>

namespace vt {

// Destroying must succeed: a device that says EBUSY here has lost a reference somewhere.
template <auto Destroy> struct Destroyer {
    template <class T> void operator()(T *object) const noexcept
    {
        if (int error = Destroy(object); error != 0) {
            note_failure(str("destroying a verbs object: ", std::strerror(error)));
        }
    }
};

using ContextPtr = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using ChannelPtr = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using CqPtr = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using QpPtr = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using MrPtr = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using AhPtr = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;

inline constexpr unsigned all_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// A memory region. How it came about (pinned, explicit or implicit ODP) doesn't show in its use.
class Region {
public:
    explicit Region(ibv_mr *mr) : mr_(mr) {}
    uint32_t lkey() const { return mr_->lkey; }
    uint32_t rkey() const { return mr_->rkey; }
    ibv_mr *get() const { return mr_.get(); }
    ibv_sge sge(const void *address, size_t length) const
    {
        return {reinterpret_cast<uintptr_t>(address), static_cast<uint32_t>(length), lkey()};
    }
    ibv_sge sge(std::span<const std::byte> bytes) const { return sge(bytes.data(), bytes.size()); }

private:
    MrPtr mr_;
};

enum class MrKind : uint8_t { pinned, explicit_odp, implicit };
inline constexpr MrKind mr_kinds[] = {MrKind::pinned, MrKind::explicit_odp, MrKind::implicit};
const char *name(MrKind kind);

// An asynchronous event, acknowledged: what happened, and the ibv_qp, ibv_cq or ibv_srq it
// happened to (nullptr for the port's).
struct AsyncEvent {
    ibv_event_type type;
    const void *element;
};

// The device under test, opened. Not thread-safe; the verbs objects made from it are as
// ibv_*(3) says.
class Device {
public:
    Device(); // opens the device in ODP_TEST_DEVICE; Failure when there is none
    static std::string name();

    ibv_context *get() const { return context_.get(); }
    const ibv_device_attr_ex &attributes() const { return attributes_; }
    const ibv_port_attr &port() const { return port_; }
    bool has_odp() const;
    bool has_implicit() const;
    bool is_odp_module() const; // the driver under test, not another one used to check the tests
    bool is_roce() const { return port_.link_layer == IBV_LINK_LAYER_ETHERNET; }

    Pd pd() const;
    Region pinned(ibv_pd *pd, std::span<std::byte> bytes, unsigned access = all_access) const;
    // Skip where the device can't.
    Region implicit(ibv_pd *pd, unsigned access = all_access) const;
    Region explicit_odp(ibv_pd *pd, std::span<std::byte> bytes, unsigned access = all_access) const;
    // On-demand paging over at least these bytes: the implicit region, or an explicit one on a
    // device without implicit ODP.
    Region on_demand(ibv_pd *pd, std::span<std::byte> bytes, unsigned access = all_access) const;
    // Of one kind; an implicit region ignores `bytes`.
    Region region(MrKind kind, ibv_pd *pd, std::span<std::byte> bytes,
                  unsigned access = all_access) const;

    // The next asynchronous event of this context, if one comes in time.
    std::optional<AsyncEvent> event(std::chrono::milliseconds within) const;
    void expect_event(ibv_event_type type, const void *element, std::string_view what,
                      const Location &at = Location::current()) const;
    // None may be there now.
    void expect_no_event(std::string_view why, const Location &at = Location::current()) const;

private:
    ContextPtr context_;
    ibv_device_attr_ex attributes_{};
    ibv_port_attr port_{};
};

// Sum of a counter (page_faults, page_invalidations, page_prefetch) over the device's MRs, as
// `rdma statistic show mr` tells it. Skip when the device has no such counter.
uint64_t mr_counter(const std::string &counter);

} // namespace vt
