// SPDX-License-Identifier: BSD-3-Clause
//
// Everything that can be set, with its default. Peers must agree on `payload_room`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace odp {

enum class LogLevel : std::uint8_t { error, warning, info, debug };

struct Options {
    // Device: "" chooses the nearest one that will do; "NAME" or "NAME:PORT" asks for that one.
    std::string device;

    // Active messages.
    std::uint32_t payload_room = 8192;     // bytes of payload in a message: the eager limit
    std::uint32_t recv_depth = 64;         // receives kept posted per endpoint, 5..4096
    std::uint32_t send_depth = 128;        // work requests outstanding per endpoint, 16..8192
    std::uint32_t max_inline = 256;        // bytes sent inline, if the device can do so many
    std::uint32_t max_send_buffers = 1024; // alloc() answers nullptr beyond
    std::uint32_t buffer_user_bytes = 256; // room beside each SendBuffer for the caller's own use
    std::uint32_t max_message = 0;         // put/get are split above; 0: the port's max_msg_sz
    std::uint32_t cq_depth = 4096;         // entries of one CQ; more CQs are made as needed

    // Connecting: first retransmission after `connect_interval`, doubled up to
    // `connect_interval_max`; given up with Code::timed_out after `connect_timeout`. The limit is
    // long since a peer answers only while it calls progress(), and it may compute meanwhile.
    std::chrono::milliseconds connect_interval{20};
    std::chrono::milliseconds connect_interval_max{1000};
    std::chrono::milliseconds connect_timeout{600000};

    // RC attributes of ibv_modify_qp(3). A dead peer is noticed after about
    // 4.096 us * 2^timeout * (retry_count + 1). rnr_retry 7 means without end: HCAs answer RNR
    // while the responder serves a page fault.
    std::uint8_t timeout = 18;
    std::uint8_t retry_count = 7;
    std::uint8_t rnr_retry = 7;
    std::uint8_t min_rnr_timer = 12; // 0.64 ms
    std::uint8_t max_rd_atomic = 16; // limited to what the device has
    std::uint8_t service_level = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
    int gid_index = -1; // -1: chosen (RoCEv2 preferred on Ethernet, 0 on InfiniBand)

    // An endpoint whose operations have waited this long for credits asks the peer's HCA for a sign
    // of life (a write of 0 bytes), so that they end in an error if the peer is gone.
    std::chrono::milliseconds stall_probe{1000};
    // The same for connected endpoints without anything to do; 0 = off.
    std::chrono::milliseconds idle_probe{0};

    // Receives one line without newline; nullptr: silent. Called with Context's own exclusion.
    void (*log)(void *arg, LogLevel level, const char *line) = nullptr;
    void *log_arg = nullptr;
};

} // namespace odp
