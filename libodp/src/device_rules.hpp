// SPDX-License-Identifier: BSD-3-Clause
//
// The rules by which a device is chosen, apart from the asking of devices.
#pragma once

#include "odp/status.hpp"

#include <cstdint>
#include <sched.h>
#include <string>
#include <string_view>

namespace odp {

// What ibv_query_device_ex(3) says of on-demand paging.
struct OdpCaps {
    std::uint64_t general = 0; // IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_IMPLICIT
    std::uint32_t rc = 0;      // IBV_ODP_SUPPORT_SEND ... for RC
};

// Empty: it will do; else one clause for a user.
std::string odp_why_not(const OdpCaps &caps);

// "NAME", "NAME:PORT"; port 0 = any. Error: invalid_argument.
struct DeviceName {
    std::string name;
    std::uint8_t port = 0;
};
Result<DeviceName> parse_device_name(std::string_view text);

// Whether the mask of a sysfs local_cpus file ("ff,ffffffff") has a CPU of `mine`. A text that
// isn't a mask counts as local: nothing is known against it.
bool mask_intersects(std::string_view mask, const cpu_set_t &mine);

// Mbit/s of data from ibv_port_attr's active_width and active_speed; 0 if unknown.
double link_mbps(std::uint8_t width, std::uint8_t speed) noexcept;

} // namespace odp
