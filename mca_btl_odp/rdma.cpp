// SPDX-License-Identifier: BSD-3-Clause
//
// Put and get: one RDMA operation each, from and to the users' memory as it is. No handle is
// needed: the implicit region covers both address spaces, and its key came with the connection.
#include "btl_odp.hpp"

namespace btl_odp {

namespace {

void on_done(odp::Completion *completion, const odp::Status &status)
{
    auto *operation = static_cast<RdmaOperation *>(completion);
    const RdmaOperation done = *operation;
    Module &module = *done.module;
    module.rdma_pool.give(*operation);
    if (done.endpoint->connection == nullptr) {
        return; // del_procs has closed it
    }
    if (status.failed()) {
        module.lost(*done.endpoint, status);
    }
    done.callback(&module, done.endpoint, done.local, done.local_handle, done.context, done.data,
                  status.failed() ? opal_error(status) : OPAL_SUCCESS);
}

enum class Direction : std::uint8_t { put, get };

int start(Direction direction, const RdmaOperation &wanted, std::uint64_t remote, std::size_t size)
{
    Module &module = *wanted.module;
    const Guard guard(module);
    odp::Status status = module.connect(*wanted.endpoint);
    if (status.failed()) {
        return opal_error(status);
    }
    RdmaOperation *operation = module.rdma_pool.take();
    if (operation == nullptr) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    *operation = wanted;
    operation->done = on_done;
    odp::Endpoint &connection = *wanted.endpoint->connection;
    status = direction == Direction::put ? connection.put(wanted.local, remote, size, operation)
                                         : connection.get(wanted.local, remote, size, operation);
    if (status.in_progress()) {
        return OPAL_SUCCESS;
    }
    if (status.ok()) {
        on_done(operation, status);
        return OPAL_SUCCESS;
    }
    module.rdma_pool.give(*operation);
    return opal_error(status);
}

RdmaOperation make(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                   mca_btl_base_registration_handle_t *local_handle,
                   mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    RdmaOperation operation{};
    operation.module = &module_of(btl);
    operation.endpoint = endpoint;
    operation.local = local;
    operation.local_handle = local_handle;
    operation.callback = callback;
    operation.context = context;
    operation.data = data;
    return operation;
}

} // namespace

int btl_odp_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                std::uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                mca_btl_base_registration_handle_t *, std::size_t size, int, int,
                mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    return start(Direction::put, make(btl, endpoint, local, local_handle, callback, context, data),
                 remote, size);
}

int btl_odp_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                std::uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                mca_btl_base_registration_handle_t *, std::size_t size, int, int,
                mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    return start(Direction::get, make(btl, endpoint, local, local_handle, callback, context, data),
                 remote, size);
}

} // namespace btl_odp
