// SPDX-License-Identifier: BSD-3-Clause
//
// Choice of the HCA: one whose ODP capabilities (ibv_query_device_ex(3)) allow an implicit region
// and RC send, write and read on it, with an active port.
#pragma once

#include "odp/options.hpp"
#include "odp/status.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct ibv_context;
struct ibv_device_attr_ex;
struct ibv_port_attr;

namespace odp {

// One line of the choice: a device's port that was looked at.
struct Candidate {
    std::string name;    // "odp0"
    std::uint8_t port;   // 1..; 0 if the device itself won't do
    std::string why_not; // empty: it will do
    bool local;          // its CPUs include the ones this process may run on
    bool chosen;
};

class Device {
public:
    // Opens the device that `options.device` names, or the nearest that will do. Errors: no_device,
    // with the reason for each candidate in the text. Thread-safe.
    static Result<Device> open(const Options &options);
    // All candidates with their reasons; nothing stays open. `chosen` is what open() would take.
    static std::vector<Candidate> candidates(const Options &options);
    // "odp0:1: port is down (state INIT); rxe0: no implicit ODP (...)", or "no RDMA device ...".
    static std::string explain(const std::vector<Candidate> &candidates);

    Device(Device &&) noexcept;
    Device &operator=(Device &&) noexcept;
    ~Device();

    [[nodiscard]] const std::string &name() const noexcept;
    [[nodiscard]] std::uint8_t port() const noexcept;
    [[nodiscard]] bool ethernet() const noexcept;             // RoCE: always GRH, no LID
    [[nodiscard]] bool atomics() const noexcept;              // RC 64-bit atomics on ODP memory
    [[nodiscard]] std::uint32_t max_message() const noexcept; // bytes, the port's max_msg_sz
    [[nodiscard]] double bandwidth_mbps() const noexcept;     // of the link, Mbit/s; 0 if not known
    [[nodiscard]] std::string str() const;                    // "odp0:1"

    // For the other parts of libodp. Owned by the Device.
    [[nodiscard]] ibv_context *verbs() const noexcept;
    [[nodiscard]] const ibv_device_attr_ex &attributes() const noexcept;
    [[nodiscard]] const ibv_port_attr &port_attributes() const noexcept;

private:
    struct State;
    explicit Device(std::unique_ptr<State> state) noexcept;
    std::unique_ptr<State> state_;
};

} // namespace odp
