// SPDX-License-Identifier: BSD-3-Clause
//
// Puts and gets that are on their way.
#pragma once

#include "odp/endpoint.hpp"

#include "opal.hpp"

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace btl_odp {

struct Module;

struct RdmaOperation : odp::Completion {
    Module *module;
    mca_btl_base_endpoint_t *endpoint;
    void *local;
    mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t callback;
    void *context;
    void *data;
    RdmaOperation *next;
};

// Memory of the operations; never shrinks. Not thread-safe.
class RdmaPool {
public:
    // Nullptr if there is no memory.
    RdmaOperation *take() noexcept
    {
        if (free_ == nullptr && !grow()) {
            return nullptr;
        }
        RdmaOperation *operation = free_;
        free_ = operation->next;
        return operation;
    }

    void give(RdmaOperation &operation) noexcept
    {
        operation.next = std::exchange(free_, &operation);
    }

private:
    static constexpr std::size_t chunk = 64;

    bool grow() noexcept
    {
        try {
            chunks_.push_back(std::make_unique<RdmaOperation[]>(chunk));
        } catch (const std::bad_alloc &) {
            return false;
        }
        for (std::size_t i = 0; i < chunk; ++i) {
            give(chunks_.back()[i]);
        }
        return true;
    }

    std::vector<std::unique_ptr<RdmaOperation[]>> chunks_;
    RdmaOperation *free_ = nullptr;
};

} // namespace btl_odp
