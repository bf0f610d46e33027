// SPDX-License-Identifier: BSD-3-Clause
//
// Processes that talk to each other through libodp, for odp_pair's cases. They are forked before
// any of them opens the device, and exchange addresses over socket pairs.
#pragma once

#include "odp/context.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace pair_test {

using Clock = std::chrono::steady_clock;
using Location = std::source_location;

// Every wait is bounded; generous, since the guest is emulated.
inline constexpr std::chrono::seconds patience{60};

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct Skip : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void expect(bool ok, const std::string &what, const Location &at = Location::current());
// A Status that must not be an error.
void expect_good(const odp::Status &status, const Location &at = Location::current());

// Options for the device under test (ODP_TEST_DEVICE), with bounded connecting.
odp::Options basic();

// Counts its calls and keeps the last status.
struct Count : odp::Completion {
    Count();
    int calls = 0;
    odp::Status status;
};

// One of the processes of a case.
class Process {
public:
    Process(int rank, int size, std::vector<int> sockets, const odp::Options &options);

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    odp::Context &context() { return *context_; }
    // Opens the context and learns everybody's address.
    void open();
    void destroy() { context_.reset(); }
    odp::Endpoint &endpoint(int rank);
    [[nodiscard]] const odp::Address &address(int rank) const { return addresses_.at(rank); }

    // Progress until the condition holds. Failure after `patience`.
    void until(const std::function<bool()> &condition, const std::string &what,
               const Location &at = Location::current());
    // Everybody gets here; progress meanwhile.
    void barrier();
    // Without progress: as if the process computed.
    void barrier_idle();
    void tell(int rank, std::uint64_t value);
    std::uint64_t hear(int rank);

    // Sends a message of `length` bytes filled from `seed`, waiting for a buffer if need be.
    void send(odp::Endpoint &to, std::uint8_t am_id, std::size_t length, std::uint64_t seed);
    // put or get and the wait for its completion.
    odp::Status put(odp::Endpoint &to, const void *local, std::uint64_t remote, std::size_t length);
    odp::Status get(odp::Endpoint &to, void *local, std::uint64_t remote, std::size_t length);

private:
    odp::Status finish(const odp::Status &accepted, Count &count);
    void signal_all();
    void read_exactly(int rank, void *data, std::size_t length, bool progressing);

    int rank_;
    int size_;
    std::vector<int> sockets_; // by rank
    odp::Options options_;
    std::unique_ptr<odp::Context> context_;
    std::vector<odp::Address> addresses_;
};

void fill(std::span<std::byte> bytes, std::uint64_t seed);
bool matches(std::span<const std::byte> bytes, std::uint64_t seed);

// Anonymous memory, page-aligned, unmapped at the end.
class Mapping {
public:
    explicit Mapping(std::size_t length);
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping();
    [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t address() const
    {
        return reinterpret_cast<std::uint64_t>(bytes_.data());
    }

private:
    std::span<std::byte> bytes_;
};

// Runs `body` in `size` processes. Failures of any are thrown here. `killed`: the rank whose end by
// SIGKILL is part of the case, -1 for none.
void run(int size, const odp::Options &options, const std::function<void(Process &)> &body,
         int killed = -1);

struct Case {
    std::string name;
    std::string about;
    std::function<void()> run;
};
std::vector<Case> &cases();
struct Register {
    Register(std::string name, std::string about, std::function<void()> run);
};

} // namespace pair_test
