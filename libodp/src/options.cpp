// SPDX-License-Identifier: BSD-3-Clause
#include "context_impl.hpp"
#include "format.hpp"

#include <algorithm>
#include <cinttypes>

namespace odp {

namespace {

Status within(const char *name, std::uint64_t value, std::uint64_t low, std::uint64_t high)
{
    if (value >= low && value <= high) {
        return {};
    }
    return {
        Code::invalid_argument,
        format("%s is %" PRIu64 ", must be from %" PRIu64 " to %" PRIu64, name, value, low, high)};
}

std::uint64_t ms(std::chrono::milliseconds value) noexcept
{
    return static_cast<std::uint64_t>(value.count());
}

} // namespace

Status check_options(const Options &options, const Device &device)
{
    const ibv_device_attr &limits = device.attributes().orig_attr;
    const auto max_wr = static_cast<std::uint64_t>(std::max(limits.max_qp_wr, 1));
    constexpr std::uint64_t hour = 3600000;
    for (Status status : {
             within("payload_room", options.payload_room, 64, 1U << 20U),
             within("recv_depth", options.recv_depth, Credits::min_depth,
                    std::min<std::uint64_t>(4096, max_wr)),
             within("send_depth", options.send_depth, 16, std::min<std::uint64_t>(8192, max_wr)),
             within("max_inline", options.max_inline, 0, 4096),
             within("max_send_buffers", options.max_send_buffers, 1, 1U << 20U),
             within("buffer_user_bytes", options.buffer_user_bytes, 0, 1U << 16U),
             within("max_message", options.max_message, 0, 1U << 31U),
             within("cq_depth", options.cq_depth, 64, 1U << 22U),
             within("connect_interval (ms)", ms(options.connect_interval), 1, hour),
             within("connect_interval_max (ms)", ms(options.connect_interval_max), 1, hour),
             within("connect_timeout (ms)", ms(options.connect_timeout), 1, 24 * hour),
             within("stall_probe (ms)", ms(options.stall_probe), 0, 24 * hour),
             within("idle_probe (ms)", ms(options.idle_probe), 0, 24 * hour),
             within("timeout", options.timeout, 1, 31),
             within("retry_count", options.retry_count, 0, 7),
             within("rnr_retry", options.rnr_retry, 0, 7),
             within("min_rnr_timer", options.min_rnr_timer, 0, 31),
             within("max_rd_atomic", options.max_rd_atomic, 1, 255),
             within("service_level", options.service_level, 0, 15),
         }) {
        if (status.failed()) {
            return status;
        }
    }
    if (options.payload_room % 8 != 0) {
        return {Code::invalid_argument,
                format("payload_room is %u, must be a multiple of 8", options.payload_room)};
    }
    if (options.max_message > device.max_message()) {
        return {Code::invalid_argument,
                format("max_message is %u, the limit of %s is %u", options.max_message,
                       device.str().c_str(), device.max_message())};
    }
    return {};
}

} // namespace odp
