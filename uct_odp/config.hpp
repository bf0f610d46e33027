// SPDX-License-Identifier: BSD-3-Clause
//
// UCX_RC_ODP_*: what a user can set, in UCX's own tables.
#pragma once

#include "odp/options.hpp"
#include "odp/status.hpp"
#include "uct.hpp"

namespace uct_odp {

// Filled by UCX's parser through the table; standard layout.
struct IfaceConfig {
    uct_iface_config_t super;
    std::size_t seg_size; // bytes
    unsigned tx_queue_len;
    unsigned rx_queue_len;
    unsigned tx_max_bufs;
    unsigned tx_max_pending;
    std::size_t tx_min_inline; // bytes
    std::size_t max_message;   // bytes
    double timeout;            // seconds
    unsigned retry_count;
    unsigned rnr_retry_count;
    unsigned max_rd_atomic;
    double connect_timeout; // seconds
    double stall_check;     // seconds
    unsigned sl;
    unsigned traffic_class;
    unsigned hop_limit;
    int gid_index;
    double bandwidth; // bytes per second
    double latency;   // seconds
    double overhead;  // seconds
};

extern ucs_config_field_t iface_config_table[];

// invalid_argument names the variable, its value and its limits. `device` is "NAME:PORT".
odp::Result<odp::Options> make_options(const IfaceConfig &config, const char *device);

} // namespace uct_odp
