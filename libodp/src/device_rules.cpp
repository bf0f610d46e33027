// SPDX-License-Identifier: BSD-3-Clause
#include "device_rules.hpp"

#include "format.hpp"

#include <charconv>
#include <cinttypes>
#include <infiniband/verbs.h>

namespace odp {

std::string odp_why_not(const OdpCaps &caps)
{
    if ((caps.general & IBV_ODP_SUPPORT) == 0) {
        return "it has no on-demand paging";
    }
    if ((caps.general & IBV_ODP_SUPPORT_IMPLICIT) == 0) {
        return format(
            "it has on-demand paging, but no implicit regions (general ODP caps 0x%" PRIx64 ")",
            caps.general);
    }
    // RECV isn't needed: receives use pinned buffers.
    constexpr std::uint32_t needed =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    if ((caps.rc & needed) != needed) {
        return format("its on-demand paging lacks%s%s%s on RC (caps 0x%x)",
                      (caps.rc & IBV_ODP_SUPPORT_SEND) == 0 ? " send" : "",
                      (caps.rc & IBV_ODP_SUPPORT_WRITE) == 0 ? " write" : "",
                      (caps.rc & IBV_ODP_SUPPORT_READ) == 0 ? " read" : "", caps.rc);
    }
    return {};
}

Result<DeviceName> parse_device_name(std::string_view text)
{
    DeviceName result;
    const auto colon = text.find(':');
    result.name = text.substr(0, colon);
    if (colon != std::string_view::npos) {
        const auto digits = text.substr(colon + 1);
        unsigned port = 0;
        const auto [end, error] = std::from_chars(digits.begin(), digits.end(), port);
        if (error != std::errc() || end != digits.end() || port == 0 || port > 254 ||
            result.name.empty()) {
            return {Code::invalid_argument, "device \"" + std::string(text) +
                                                "\": must be NAME or NAME:PORT, with a port "
                                                "from 1 to 254"};
        }
        result.port = static_cast<std::uint8_t>(port);
    }
    return result;
}

bool mask_intersects(std::string_view mask, const cpu_set_t &mine)
{
    while (!mask.empty() && (mask.back() == '\n' || mask.back() == ' ')) {
        mask.remove_suffix(1);
    }
    if (mask.empty()) {
        return true;
    }
    bool found = false;
    int cpu = 0;
    // From the last digit, which has CPUs 0..3.
    for (auto at = mask.rbegin(); at != mask.rend(); ++at) {
        if (*at == ',') {
            continue;
        }
        unsigned digit = 0;
        const auto [end, error] = std::from_chars(&*at, &*at + 1, digit, 16);
        if (error != std::errc() || end != &*at + 1) {
            return true;
        }
        for (unsigned bit = 0; bit < 4; ++bit, ++cpu) {
            found =
                found || ((digit >> bit & 1U) != 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &mine));
        }
    }
    return found;
}

double link_mbps(std::uint8_t width, std::uint8_t speed) noexcept
{
    double lanes = 0;
    switch (width) { // IBTA PortInfo.LinkWidthActive
    case 1:
        lanes = 1;
        break;
    case 2:
        lanes = 4;
        break;
    case 4:
        lanes = 8;
        break;
    case 8:
        lanes = 12;
        break;
    case 16:
        lanes = 2;
        break;
    default:
        break;
    }
    double lane = 0; // Mbit/s after 8b/10b or 64b/66b coding
    switch (speed) { // IBTA PortInfo.LinkSpeedActive and LinkSpeedExtActive
    case 1:
        lane = 2000;
        break;
    case 2:
        lane = 4000;
        break;
    case 4:
        lane = 8000;
        break;
    case 8:
        lane = 10000;
        break;
    case 16:
        lane = 13636;
        break;
    case 32:
        lane = 25000;
        break;
    case 64:
        lane = 50000;
        break;
    case 128:
        lane = 100000;
        break;
    default:
        break;
    }
    return lanes * lane;
}

} // namespace odp
