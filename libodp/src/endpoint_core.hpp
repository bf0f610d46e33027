// SPDX-License-Identifier: BSD-3-Clause
//
// The logic of an endpoint over a Wire: order, credits, send queue slots, completions exactly once.
// Knows no verbs.
#pragma once

#include "odp/context.hpp"
#include "odp/endpoint.hpp"

#include "clock.hpp"
#include "credits.hpp"
#include "wire.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace odp {

class EndpointCore;

// What an endpoint needs of its Context. Only deliver() and the callbacks of users may call back
// into the endpoint.
class EndpointHost {
public:
    virtual Status start_connecting(EndpointCore &endpoint) = 0;
    // Calls the handler; false if there is none.
    virtual bool deliver(EndpointCore &endpoint, std::uint8_t am_id,
                         std::span<const std::byte> data) = 0;
    // Asks for a call of run_deferred() from progress().
    virtual void defer(EndpointCore &endpoint) = 0;
    // The endpoint has failed and all its operations were completed.
    virtual void endpoint_failed(EndpointCore &endpoint, const Status &status) = 0;
    virtual void release(SendBuffer &buffer) noexcept = 0;
    // An endpoint began (+1) or ceased (-1) to wait for credits.
    virtual void starving(int change) noexcept = 0;
    // "odp0:1"
    virtual std::string device_name() const = 0;
    virtual bool in_child() const noexcept = 0;

protected:
    ~EndpointHost() = default;
};

struct EndpointLimits {
    std::uint32_t send_depth = 0;  // slots of the send queue
    std::uint32_t max_inline = 0;  // bytes, header included
    std::uint32_t max_message = 0; // bytes of one request, > 0
    std::uint32_t lkey = 0;        // of the implicit region
};

class EndpointCore : public Endpoint {
public:
    // Send queue slots that only returned credits and probes may use.
    static constexpr std::uint32_t control_slots = 4;
    // Completions name a sequence number modulo 2^24.
    static constexpr std::uint32_t sequence_mask = 0xffffff;

    EndpointCore(EndpointHost &host, Statistics &statistics, const Address &peer,
                 const EndpointLimits &limits);
    ~EndpointCore() = default;

    Status do_send(SendBuffer &buffer, std::uint8_t am_id, std::size_t length,
                   Completion *completion);
    Status do_rdma(OpKind kind, std::uint64_t local, std::uint64_t remote, std::size_t length,
                   Completion *completion);
    Status do_connect();

    // Before connecting, when the device has said what it can do.
    void set_max_inline(std::uint32_t bytes) noexcept { limits_.max_inline = bytes; }
    // Connected: the queue may go.
    void ready(Wire &wire, std::uint32_t peer_rkey, const Credits &credits);
    void on_sent(std::uint32_t sequence, const WireResult &result);
    void on_received(std::uint32_t slot, std::uint32_t length);
    void on_receive_error(const WireResult &result);

    // Ends everything with this, and calls completions. Only from progress() and close().
    void fail(const Status &status);
    // The same from the next run_deferred() on, unless a better reason comes first.
    void fail_later(const Status &status);
    void run_deferred();
    // Asks the peer's device for a sign of life, if that is due.
    void check_alive(TimePoint now, Duration stall, Duration idle);
    // Tells the peer that this side closes: what comes then is no failure. Best effort.
    void say_goodbye();
    // Makes a request whose completion tells that all before it are done.
    void probe();

    [[nodiscard]] bool is_ready() const noexcept { return state_ == State::ready; }
    [[nodiscard]] bool peer_left() const noexcept { return left_; }
    [[nodiscard]] bool has_failed() const noexcept { return state_ == State::failed; }
    // Requests of which the device hasn't said that they are done.
    [[nodiscard]] std::uint64_t posted() const noexcept { return head_ - tail_; }
    [[nodiscard]] std::uint32_t unsignaled() const noexcept { return unsignaled_; }
    [[nodiscard]] bool starving() const noexcept { return starving_; }
    [[nodiscard]] const Status &failure() const noexcept { return error_; }
    [[nodiscard]] const Address &peer_address() const noexcept { return peer_; }
    [[nodiscard]] std::size_t outstanding() const noexcept { return outstanding_; }
    [[nodiscard]] std::string name() const;

private:
    enum class State : std::uint8_t { idle, connecting, ready, failed };

    struct Operation {
        OpKind kind = OpKind::send;
        std::uint8_t am_id = 0;
        std::uint64_t local = 0;
        std::uint64_t remote = 0;
        std::uint64_t length = 0;
        std::uint64_t offset = 0; // posted so far
        SendBuffer *buffer = nullptr;
        Completion *completion = nullptr;
    };

    // A posted request.
    struct Slot {
        OpKind kind = OpKind::send;
        bool last = false; // the operation ends with it
        std::uint64_t local = 0;
        std::uint64_t remote = 0;
        std::uint64_t length = 0;
        SendBuffer *buffer = nullptr;
        Completion *completion = nullptr;
    };

    Status accept(Operation &operation);
    Status refuse(Code code, OpKind kind, std::uint64_t local, std::uint64_t remote,
                  std::uint64_t length, const char *why) const;
    [[nodiscard]] bool has_slot() const noexcept;
    WorkRequest make_request(Operation &operation);
    Slot &slot(std::uint64_t sequence) noexcept { return slots_[sequence % slots_.size()]; }
    Status post_one(Operation &operation);
    void drain();
    void finish(Slot &done, const Status &status);
    void send_credits();
    void on_goodbye();
    void post_control(OpKind kind, std::span<const std::byte> bytes);
    void update_starving() noexcept;
    void count(const Operation &operation) noexcept;
    [[nodiscard]] Status describe(const Slot &slot, const WireResult &result) const;

    EndpointHost &host_;
    Statistics &statistics_;
    Address peer_;
    EndpointLimits limits_;
    State state_ = State::idle;
    Wire *wire_ = nullptr;
    std::uint32_t rkey_ = 0;
    Credits credits_;
    std::deque<Operation> queue_;
    std::vector<Slot> slots_;
    std::uint64_t head_ = 0; // sequence number of the next request
    std::uint64_t tail_ = 0; // of the oldest that isn't done
    std::uint32_t unsignaled_ = 0;
    std::size_t outstanding_ = 0;
    bool starving_ = false;
    bool credits_held_ = false; // credits couldn't be returned for want of a slot
    bool probing_ = false;
    bool failing_ = false;
    bool left_ = false;       // the peer has said goodbye
    std::uint64_t heard_ = 0; // completions and messages
    std::uint64_t heard_last_ = 0;
    TimePoint quiet_since_{};
    bool quiet_ = false;
    Status error_;
};

} // namespace odp
