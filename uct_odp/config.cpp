// SPDX-License-Identifier: BSD-3-Clause
#include "config.hpp"

#include <cmath>
#include <limits>

namespace uct_odp {

namespace {

#define AT(_member) offsetof(IfaceConfig, _member)

odp::Status out_of_range(const char *name, double value, double least, double most)
{
    char text[256];
    std::snprintf(text, sizeof(text), "UCX_RC_ODP_%s=%.15g is out of its limits, %.15g to %.15g",
                  name, value, least, most);
    return {odp::Code::invalid_argument, text};
}

// ibv_modify_qp(3): 4.096 us * 2^exponent, the first that is not shorter.
std::uint8_t timeout_exponent(double seconds)
{
    constexpr double unit = 4.096e-6;
    return static_cast<std::uint8_t>(
        std::fmax(1, std::fmin(31, std::ceil(std::log2(seconds / unit)))));
}

std::chrono::milliseconds milliseconds(double seconds)
{
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

} // namespace

// NOLINTBEGIN(modernize-use-designated-initializers): the order is UCX's
ucs_config_field_t iface_config_table[] = {
    {"", "", nullptr, AT(super), UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"SEG_SIZE", "8192",
     "Bytes of an active message at most: the limit of eager bcopy. Both sides must have the same.",
     AT(seg_size), UCS_CONFIG_TYPE_MEMUNITS},
    {"TX_QUEUE_LEN", "128", "Work requests outstanding with a peer.", AT(tx_queue_len),
     UCS_CONFIG_TYPE_UINT},
    {"RX_QUEUE_LEN", "64",
     "Receives kept posted for a peer. The memory is this times SEG_SIZE for each peer.",
     AT(rx_queue_len), UCS_CONFIG_TYPE_UINT},
    {"TX_MAX_BUFS", "1024", "Send buffers of SEG_SIZE in use at most.", AT(tx_max_bufs),
     UCS_CONFIG_TYPE_UINT},
    {"TX_MAX_PENDING", "1024",
     "Operations accepted for a peer and not done, beyond which UCP keeps further ones itself.",
     AT(tx_max_pending), UCS_CONFIG_TYPE_UINT},
    {"TX_MIN_INLINE", "256", "Bytes of a message sent inline, if the device can do so many.",
     AT(tx_min_inline), UCS_CONFIG_TYPE_MEMUNITS},
    {"MAX_MESSAGE", "auto",
     "Bytes of one RDMA request at most; longer ones are split. auto: the port's limit.",
     AT(max_message), UCS_CONFIG_TYPE_MEMUNITS},
    {"TIMEOUT", "1.0s",
     "Transport timeout: a peer that doesn't answer for this time RETRY_COUNT + 1 times is lost.",
     AT(timeout), UCS_CONFIG_TYPE_TIME},
    {"RETRY_COUNT", "7", "Transport retries, 0 to 7.", AT(retry_count), UCS_CONFIG_TYPE_UINT},
    {"RNR_RETRY_COUNT", "7",
     "Retries when the peer isn't ready, which is also said while its HCA serves a page fault, 0 to "
     "7; 7 is without end.",
     AT(rnr_retry_count), UCS_CONFIG_TYPE_UINT},
    {"MAX_RD_ATOMIC", "16", "RDMA reads and atomics outstanding with a peer; limited by the device.",
     AT(max_rd_atomic), UCS_CONFIG_TYPE_UINT},
    {"CONNECT_TIMEOUT", "600s",
     "A peer that hasn't answered a connection request for this long is given up. It answers only "
     "while it calls UCX.",
     AT(connect_timeout), UCS_CONFIG_TYPE_TIME},
    {"STALL_CHECK", "1.0s",
     "Operations that wait for the peer's credits for this long ask its HCA whether it lives.",
     AT(stall_check), UCS_CONFIG_TYPE_TIME},
    {"SL", "0", "InfiniBand service level, 0 to 15.", AT(sl), UCS_CONFIG_TYPE_UINT},
    {"TRAFFIC_CLASS", "0", "Traffic class of the GRH, 0 to 255.", AT(traffic_class),
     UCS_CONFIG_TYPE_UINT},
    {"HOP_LIMIT", "64", "Hop limit of the GRH, 1 to 255.", AT(hop_limit), UCS_CONFIG_TYPE_UINT},
    {"GID_INDEX", "-1", "GID of the port; -1: chosen (RoCE v2 preferred on Ethernet).",
     AT(gid_index), UCS_CONFIG_TYPE_INT},
    {"BANDWIDTH", "auto",
     "Bandwidth that UCP reckons with when it chooses transports; auto: the link's.", AT(bandwidth),
     UCS_CONFIG_TYPE_BW},
    {"LATENCY", "1us", "Latency that UCP reckons with.", AT(latency), UCS_CONFIG_TYPE_TIME},
    {"OVERHEAD", "75ns", "CPU time of a message that UCP reckons with.", AT(overhead),
     UCS_CONFIG_TYPE_TIME},
    {nullptr, nullptr, nullptr, 0, {}},
};
// NOLINTEND(modernize-use-designated-initializers)

odp::Result<odp::Options> make_options(const IfaceConfig &config, const char *device)
{
    constexpr double mib = 1 << 20;
    constexpr double large = 1e9;
    const struct {
        const char *name;
        double value, least, most;
    } limits[] = {
        {"SEG_SIZE", static_cast<double>(config.seg_size), 256, mib},
        {"TX_QUEUE_LEN", static_cast<double>(config.tx_queue_len), 16, 8192},
        {"RX_QUEUE_LEN", static_cast<double>(config.rx_queue_len), 5, 4096},
        {"TX_MAX_BUFS", static_cast<double>(config.tx_max_bufs), 16, 1 << 20},
        {"TX_MAX_PENDING", static_cast<double>(config.tx_max_pending), 16, 1 << 20},
        {"TX_MIN_INLINE", static_cast<double>(config.tx_min_inline), 0, 4096},
        {"TIMEOUT", config.timeout, 4.096e-6, 8000},
        {"RETRY_COUNT", static_cast<double>(config.retry_count), 0, 7},
        {"RNR_RETRY_COUNT", static_cast<double>(config.rnr_retry_count), 0, 7},
        {"MAX_RD_ATOMIC", static_cast<double>(config.max_rd_atomic), 1, 128},
        {"CONNECT_TIMEOUT", config.connect_timeout, 0.1, large},
        {"STALL_CHECK", config.stall_check, 0.001, large},
        {"SL", static_cast<double>(config.sl), 0, 15},
        {"TRAFFIC_CLASS", static_cast<double>(config.traffic_class), 0, 255},
        {"HOP_LIMIT", static_cast<double>(config.hop_limit), 1, 255},
        {"GID_INDEX", static_cast<double>(config.gid_index), -1, 1023},
    };
    for (const auto &limit : limits) {
        if (!(limit.value >= limit.least && limit.value <= limit.most)) {
            return out_of_range(limit.name, limit.value, limit.least, limit.most);
        }
    }
    odp::Options options;
    if (config.max_message != UCS_MEMUNITS_AUTO && config.max_message != UCS_MEMUNITS_INF) {
        constexpr double most = std::numeric_limits<std::int32_t>::max();
        const auto value = static_cast<double>(config.max_message);
        if (value < 4096 || value > most) {
            return out_of_range("MAX_MESSAGE", value, 4096, most);
        }
        options.max_message = static_cast<std::uint32_t>(config.max_message);
    }
    options.device = device;
    options.payload_room = static_cast<std::uint32_t>((config.seg_size + 7) / 8 * 8);
    options.recv_depth = config.rx_queue_len;
    options.send_depth = config.tx_queue_len;
    options.max_inline = static_cast<std::uint32_t>(config.tx_min_inline);
    options.max_send_buffers = config.tx_max_bufs;
    options.connect_timeout = milliseconds(config.connect_timeout);
    options.timeout = timeout_exponent(config.timeout);
    options.retry_count = static_cast<std::uint8_t>(config.retry_count);
    options.rnr_retry = static_cast<std::uint8_t>(config.rnr_retry_count);
    options.max_rd_atomic = static_cast<std::uint8_t>(config.max_rd_atomic);
    options.service_level = static_cast<std::uint8_t>(config.sl);
    options.traffic_class = static_cast<std::uint8_t>(config.traffic_class);
    options.hop_limit = static_cast<std::uint8_t>(config.hop_limit);
    options.gid_index = config.gid_index;
    options.stall_probe = milliseconds(config.stall_check);
    return options;
}

} // namespace uct_odp
