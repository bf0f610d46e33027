// SPDX-License-Identifier: BSD-3-Clause
//
// Owners of verbs objects. Each destroys its object, except in a forked child, to which none of
// them belongs.
#pragma once

#include "fork_guard.hpp"

#include <infiniband/verbs.h>
#include <utility>

namespace odp {

template <typename T, int (*destroy)(T *)> class Owned {
public:
    Owned() noexcept = default;
    explicit Owned(T *object) noexcept : object_(object) {}
    Owned(Owned &&other) noexcept
        : object_(std::exchange(other.object_, nullptr)),
          guard_(other.guard_)
    {
    }
    Owned &operator=(Owned &&other) noexcept
    {
        if (this != &other) {
            reset();
            object_ = std::exchange(other.object_, nullptr);
            guard_ = other.guard_;
        }
        return *this;
    }
    ~Owned() { reset(); }

    void reset() noexcept
    {
        if (object_ != nullptr && !guard_.in_child()) {
            destroy(object_); // can't fail in a way that something could be done about
        }
        object_ = nullptr;
    }

    [[nodiscard]] T *get() const noexcept { return object_; }
    T *operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }

private:
    T *object_ = nullptr;
    ForkGuard guard_;
};

using VerbsContext = Owned<ibv_context, ibv_close_device>;
using ProtectionDomain = Owned<ibv_pd, ibv_dealloc_pd>;
using MemoryRegion = Owned<ibv_mr, ibv_dereg_mr>;
using CompletionQueue = Owned<ibv_cq, ibv_destroy_cq>;
using QueuePair = Owned<ibv_qp, ibv_destroy_qp>;
using AddressHandle = Owned<ibv_ah, ibv_destroy_ah>;

} // namespace odp
