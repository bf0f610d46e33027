// SPDX-License-Identifier: BSD-3-Clause
//
// The datagram queue pair that carries the connector's messages.
#pragma once

#include "fabric.hpp"
#include "handshake.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace odp {

class UdPort {
public:
    // A queue pair in state RTS with its receives posted.
    static Result<std::unique_ptr<UdPort>> create(const Fabric &fabric);

    UdPort(const UdPort &) = delete;
    UdPort &operator=(const UdPort &) = delete;
    ~UdPort();

    // qpn and qkey for the address.
    [[nodiscard]] std::uint32_t qpn() const noexcept { return qp_->qp_num; }
    [[nodiscard]] std::uint32_t qkey() const noexcept { return qkey_; }

    // Error: the datagram isn't on its way. ok doesn't mean that it will arrive.
    Status send(const Address &to, std::span<const std::byte> bytes);
    void on_sent(std::uint32_t slot) noexcept;
    // The datagram received in `slot`, valid until repost(); empty if there is none.
    std::span<const std::byte> received(std::uint32_t slot, std::uint32_t length) noexcept;
    Status repost(std::uint32_t slot);

private:
    static constexpr std::uint32_t recv_slots = 256;
    static constexpr std::uint32_t send_slots = 64;
    static constexpr std::size_t grh_size = 40; // before every datagram, whether it has one or not
    static constexpr std::size_t recv_stride = 320;
    static constexpr std::size_t max_handles = 65536;

    using PathKey = std::tuple<std::array<std::uint8_t, 16>, std::uint16_t, bool>;

    explicit UdPort(const Fabric &fabric) noexcept : fabric_(fabric) {}
    Status set_up();
    Status modify(ibv_qp_state state, const char *name, int extra);
    Result<ibv_ah *> handle_to(const Address &to);

    const Fabric &fabric_;
    CompletionQueues::Queue *queue_ = nullptr;
    QueuePair qp_;
    PinnedMemory memory_;
    std::map<PathKey, AddressHandle> handles_;
    std::vector<std::uint32_t> free_sends_;
    std::uint32_t qkey_ = 0;
};

} // namespace odp
