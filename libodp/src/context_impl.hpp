// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "odp/context.hpp"

#include "buffer_pool.hpp"
#include "completion_queues.hpp"
#include "connector.hpp"
#include "endpoint_core.hpp"
#include "fabric.hpp"
#include "fork_guard.hpp"
#include "rc_wire.hpp"
#include "ud_port.hpp"
#include "work_id.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace odp {

// An endpoint with what it needs of the Context.
class ContextEndpoint final : public EndpointCore {
public:
    using EndpointCore::EndpointCore;

    Connection *connection = nullptr;
    std::unique_ptr<RcWire> wire;
    std::uint32_t index = 0;
    std::uint16_t generation = 0;
    bool wanted = false;      // the user asked for it
    bool closing = false;     // deleted at the end of the outermost progress()
    bool deferred = false;    // in ContextImpl::deferred_
    bool established = false; // the connection is; ready() may be called
};

class ContextImpl final : public Context, public EndpointHost, public ConnectorHost {
public:
    ContextImpl(Device device, const Options &options);
    ~ContextImpl() override;
    // Called once, before anything else.
    Status set_up();

    const Address &address() const noexcept override { return fabric_.self; }
    const Device &device() const noexcept override { return device_; }
    const Options &options() const noexcept override { return options_; }
    const Statistics &statistics() const noexcept override { return statistics_; }
    std::size_t max_inline_payload() const noexcept override;
    Result<Endpoint *> endpoint(const Address &peer) override;
    void close(Endpoint &endpoint) override;
    SendBuffer *alloc() override;
    void release(SendBuffer &buffer) noexcept override;
    void set_am_handler(std::uint8_t am_id, AmHandler handler, void *arg) override;
    void set_am_handler(AmHandler handler, void *arg) override;
    void set_error_handler(ErrorHandler handler, void *arg) override;
    int progress() override;
    Status drain(std::chrono::milliseconds limit) override;

private:
    static constexpr std::size_t batch_size = 16;
    // progress() looks at the clock every so many calls while something waits for time to pass.
    static constexpr std::uint32_t clock_interval = 16;

    struct Handler {
        AmHandler function = nullptr;
        void *arg = nullptr;
    };

    // EndpointHost
    Status start_connecting(EndpointCore &endpoint) override;
    bool deliver(EndpointCore &endpoint, std::uint8_t am_id,
                 std::span<const std::byte> data) override;
    void defer(EndpointCore &endpoint) override;
    void endpoint_failed(EndpointCore &endpoint, const Status &status) override;
    void starving(int change) noexcept override { starving_ += change; }
    std::string device_name() const override { return device_.str(); }
    bool in_child() const noexcept override { return guard_.in_child(); }

    // ConnectorHost
    void send_datagram(const Address &to, std::span<const std::byte> bytes) override;
    std::uint64_t nonce() override;
    Result<ConnParams> prepare(Connection &connection) override;
    Status activate(Connection &connection, const ConnParams &peer) override;
    void established(Connection &connection) override;
    void failed(Connection &connection, const Status &why) override;
    void log(const std::string &line) override { say(LogLevel::warning, line); }

    Status choose_gid();
    void say(LogLevel level, const std::string &line) const;
    ContextEndpoint *make_endpoint(const Address &peer);
    void make_ready(ContextEndpoint &endpoint);
    void run_deferred();
    void reap();
    void remove(ContextEndpoint &endpoint) noexcept;
    void serve(const ibv_wc &completion);
    void serve_rc(const WorkId &id, const ibv_wc &completion);
    void serve_ud(const WorkId &id, const ibv_wc &completion);
    int serve_batch();
    void watch_time();

    ForkGuard guard_;
    Options options_;
    Device device_;
    Statistics statistics_;
    ProtectionDomain pd_;
    std::unique_ptr<Region> region_;
    std::unique_ptr<CompletionQueues> queues_;
    Fabric fabric_;
    std::unique_ptr<BufferPool> pool_;
    std::unique_ptr<UdPort> ud_;
    std::unique_ptr<Connector> connector_;

    std::vector<std::unique_ptr<ContextEndpoint>> endpoints_; // by index; holes are in free_
    std::vector<std::uint16_t> generations_;
    std::vector<std::uint32_t> free_;
    std::unordered_map<Address, ContextEndpoint *> by_address_;
    std::vector<ContextEndpoint *> deferred_;
    std::vector<ContextEndpoint *> closing_;

    std::array<Handler, 256> handlers_{};
    ErrorHandler error_handler_ = nullptr;
    void *error_arg_ = nullptr;

    // Completions taken from a queue and not served yet. Here and not on the stack, so that a
    // progress() called by a handler goes on with them in order.
    std::array<ibv_wc, batch_size> batch_{};
    std::size_t batch_next_ = 0;
    std::size_t batch_end_ = 0;
    int depth_ = 0; // of calls that run callbacks
    int starving_ = 0;
    std::uint32_t calls_ = 0;
    TimePoint alive_checked_{};
    bool poll_failed_ = false;
    bool datagrams_failed_ = false;
};

// In order: an option that is out of its limits, and the limits.
Status check_options(const Options &options, const Device &device);

} // namespace odp
