// SPDX-License-Identifier: BSD-3-Clause
#include "fabric.hpp"

#include <algorithm>

namespace odp {

ibv_ah_attr Fabric::path_to(const Address &peer) const noexcept
{
    ibv_ah_attr path{};
    path.dlid = peer.lid;
    path.sl = options->service_level;
    path.port_num = device->port();
    if (peer.grh || device->ethernet()) {
        path.is_global = 1;
        std::copy(peer.gid.begin(), peer.gid.end(), path.grh.dgid.raw);
        path.grh.sgid_index = gid_index;
        path.grh.hop_limit = options->hop_limit;
        path.grh.traffic_class = options->traffic_class;
    }
    return path;
}

WireResult wire_result(const ibv_wc &completion) noexcept
{
    Code code = Code::system;
    switch (completion.status) {
    case IBV_WC_SUCCESS:
        code = Code::ok;
        break;
    case IBV_WC_LOC_PROT_ERR:
        code = Code::local_fault;
        break;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR: // how HCAs report a remote page fault that can't be resolved
        code = Code::remote_fault;
        break;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_BAD_RESP_ERR:
        code = Code::protocol;
        break;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        code = Code::peer_lost;
        break;
    case IBV_WC_WR_FLUSH_ERR:
        code = Code::flushed;
        break;
    default:
        break;
    }
    return {code, ibv_wc_status_str(completion.status),
            static_cast<std::uint32_t>(completion.status), completion.vendor_err};
}

} // namespace odp
