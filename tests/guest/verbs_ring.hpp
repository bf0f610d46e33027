// SPDX-License-Identifier: BSD-3-Clause
// The rings that user space shares with the driver, seen as an attacker sees them: raw memory.
// The layout is the public one of <rdma/rdma_user_rxe.h>.
#pragma once

#include "verbs_endpoint.hpp"

#include <linux/types.h>
#include <rdma/rdma_user_rxe.h>

#include <memory>

namespace vt {

// A mapped queue. A view: the verbs object owns the mapping.
class Ring {
public:
    explicit Ring(std::span<std::byte> bytes) : bytes_(bytes) {}
    rxe_queue_buf &header() const { return *reinterpret_cast<rxe_queue_buf *>(bytes_.data()); }
    size_t element_size() const { return size_t{1} << header().log2_elem_size; }
    uint32_t mask() const { return header().index_mask; }
    std::span<std::byte> bytes() const { return bytes_; }
    std::span<std::byte> data() const { return bytes_.subspan(sizeof(rxe_queue_buf)); }
    std::span<std::byte> slot(uint32_t index) const
    {
        return data().subspan((index & mask()) * element_size(), element_size());
    }
    rxe_send_wqe &send_wqe(uint32_t index) const
    {
        return *reinterpret_cast<rxe_send_wqe *>(slot(index).data());
    }
    rxe_recv_wqe &recv_wqe(uint32_t index) const
    {
        return *reinterpret_cast<rxe_recv_wqe *>(slot(index).data());
    }

private:
    std::span<std::byte> bytes_;
};

// All mappings of uverbs devices in this process, from /proc/self/maps.
std::vector<std::span<std::byte>> uverbs_mappings();

// The queues of one endpoint, found by looking at which mappings came with it. Skip when the
// device doesn't use this layout.
struct Rings {
    Ring send;
    Ring receive;
    Ring send_cq;
    Ring receive_cq;
};

// Makes an endpoint and tells its rings.
std::pair<std::unique_ptr<Endpoint>, Rings> endpoint_with_rings(const Device &device, ibv_pd *pd,
                                                                EndpointConfig config = {});

// The doorbell of librxe: a POST_SEND command without a work request. 0 or an errno value.
int ring_doorbell(ibv_context *context, uint32_t qp_handle, uint32_t wr_count = 0,
                  uint32_t sge_count = 0, uint32_t wqe_size = 128);

// For the rest of the process: user and group nobody, no capability.
void drop_privileges();

} // namespace vt
