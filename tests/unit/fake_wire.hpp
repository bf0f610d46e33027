// SPDX-License-Identifier: BSD-3-Clause
//
// Two endpoints joined by wires that behave as RC queue pairs do: requests run in order, messages
// need a posted receive, unsignalled requests complete silently, after an error everything is
// flushed. When they run, and which one fails, is the test's choice.
#pragma once

#include "endpoint_core.hpp"

#include "buffer_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace odp::test {

class FakeSide;

class FakeWire final : public Wire {
public:
    FakeWire(FakeSide &side, std::uint32_t send_depth, std::uint32_t recv_depth, std::size_t room);

    Status post(std::span<const WorkRequest> requests) override;
    Status repost(std::uint32_t slot) override;
    std::span<const std::byte> received(std::uint32_t slot, std::uint32_t length) override;
    void stop() noexcept override;

    // Executes the oldest request. False if there is none.
    bool execute();

    struct Event {
        bool receive = false;
        std::uint32_t item = 0; // slot or sequence
        std::uint32_t length = 0;
        WireResult result;
    };

    FakeWire *peer = nullptr;
    bool stopped = false;
    Code fail_next = Code::ok;    // the next request that runs fails with this
    int posts_until_failure = -1; // post() fails after so many
    std::deque<Event> events;     // completions that the owner hasn't taken
    std::string violation;        // what no queue pair may see
    std::uint64_t doorbells = 0;
    std::uint64_t executed = 0;

private:
    struct Posted {
        WorkRequest request;
        std::vector<std::byte> inlined;
    };
    void flush();

    FakeSide &side_;
    std::uint32_t send_depth_;
    std::size_t stride_;
    std::vector<std::byte> ring_;
    std::deque<std::uint32_t> receives_;
    std::deque<Posted> queue_;
    std::uint32_t occupied_ = 0; // send queue slots: free only with a later completion
    std::deque<std::uint32_t> sizes_;
    bool broken_ = false;
};

// One end: host, endpoint and wire.
class FakeSide final : public EndpointHost {
public:
    FakeSide(const EndpointLimits &limits, std::uint32_t recv_depth, std::uint32_t room,
             std::uint32_t buffers);

    Status start_connecting(EndpointCore & /*endpoint*/) override { return connect_result; }
    bool deliver(EndpointCore &endpoint, std::uint8_t am_id,
                 std::span<const std::byte> data) override;
    void defer(EndpointCore & /*endpoint*/) override { deferred = true; }
    void endpoint_failed(EndpointCore & /*endpoint*/, const Status &status) override
    {
        failures.push_back(status);
    }
    void release(SendBuffer &buffer) noexcept override { pool.release(buffer); }
    void starving(int change) noexcept override { starvers += change; }
    std::string device_name() const override { return "fake0:1"; }
    bool in_child() const noexcept override { return child; }

    // Serves one completion or what was deferred. False if there is nothing.
    bool progress();

    Statistics statistics;
    BufferPool pool;
    EndpointCore endpoint;
    FakeWire wire;
    std::uint32_t recv_depth;
    Status connect_result;
    std::function<bool(std::uint8_t, std::span<const std::byte>)> handler;
    std::vector<Status> failures;
    int starvers = 0;
    bool deferred = false;
    bool child = false;
};

// Joins the two and makes both endpoints ready.
void join(FakeSide &a, FakeSide &b);

struct Counted : Completion {
    Counted();
    int calls = 0;
    Status status;
    std::function<void()> then;
};

} // namespace odp::test
