// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "mpi_c.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Named test cases that all ranks of a job run together; rank 0 prints one line a case.
/// Everything here is for the rank's main thread except where said.
namespace mpitest {

/// The command line, equal on all ranks.
struct Options {
    std::uint64_t seed = 20250101;
    int effort = 1;           ///< multiplies iteration counts; 1 suits an emulated guest
    unsigned timeout_s = 120; ///< a case that takes longer ends the job
    bool corrupt = false;     ///< spoil one received byte per case and demand that the case notices
    bool threads = false;     ///< ask for MPI_THREAD_MULTIPLE
};

/// What a case may use: its place in the job, randomness, checks. One per case and rank.
class Test {
public:
    Test(std::string_view name, const Options &options, int rank, int size);

    int rank() const { return rank_; }
    int size() const { return size_; }
    /// The partner of a two-rank case.
    int peer() const { return rank_ ^ 1; }
    int effort() const { return options_.effort; }
    bool threads() const { return options_.threads; }

    /// Equal on all ranks as long as all of them draw alike.
    std::mt19937_64 &shared_random() { return shared_random_; }
    /// A number in [low, high] from shared_random().
    std::size_t draw(std::size_t low, std::size_t high);
    /// Seed of the next message's contents, equal on all ranks that call it alike.
    std::uint64_t next_seed() { return message_seed_ += 0x10001; }

    /// Note a failure on this rank; the case goes on, so that no rank waits for another.
    [[gnu::format(printf, 2, 3)]] void fail(const char *format, ...);
    /// Note a failure unless @p condition; @p what says what should hold.
    void expect(bool condition, std::string_view what);
    /// Received bytes must be the pattern of @p seed from stream offset @p start on.
    /// @p what names the message in the failure. With --corrupt it spoils one byte first.
    void check(std::span<std::byte> data, std::uint64_t seed, std::string_view what,
               std::size_t start = 0);
    /// All bytes must be @p value: memory around a message, which must not be written.
    void check_untouched(std::span<const std::byte> data, std::byte value, std::string_view what);
    /// Source, tag and byte count of a received message.
    void check_status(const MPI_Status &status, int source, int tag, std::size_t bytes);
    /// This case can't run here. All ranks have to come to the same view or fail.
    void skip(std::string reason) { skip_ = std::move(reason); }

    int failures() const { return failures_; }
    const std::string &skip_reason() const { return skip_; }
    const std::string &first_failure() const { return first_failure_; }

private:
    void maybe_spoil(std::span<std::byte> data);

    std::string name_;
    const Options &options_;
    int rank_;
    int size_;
    std::mt19937_64 shared_random_;
    std::uint64_t message_seed_;
    bool spoil_;
    int failures_ = 0;
    std::string first_failure_;
    std::string skip_;
};

/// How a case wants to be run.
struct Case {
    const char *name;
    int min_ranks;
    void (*body)(Test &);
    const char *about;
    enum Flag : unsigned {
        by_name = 1,  ///< only when named: needs special surroundings
        no_bytes = 2, ///< checks no message contents, so --corrupt means nothing to it
    };
    unsigned flags = 0;
};

/// All registered cases, in registration order.
std::vector<Case> &cases();

/// `static const Register x{{...}};` adds a case before main.
struct Register {
    explicit Register(const Case &added) { cases().push_back(added); }
};

} // namespace mpitest
