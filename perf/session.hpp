// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "options.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace perf {

/// MPI from construction to destruction; all members are for the thread that made it.
class Session {
public:
    Session(int &argc, char **&argv);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    int rank() const { return rank_; }
    int peer() const { return 1 - rank_; }

    /// Read the command line. Nothing: run with options(). Otherwise the exit code, after rank 0
    /// has printed the help or the one line that says what is wrong.
    std::optional<int> parse(Kind kind, int argc, char **argv);
    const Options &options() const { return options_; }

    /// Wait for the peer.
    void barrier() const;
    /// Sum of both ranks' @p value, on both ranks.
    std::uint64_t sum(std::uint64_t value) const;

private:
    int rank_ = 0;
    int size_ = 0;
    Options options_;
};

/// Page-aligned bytes, as OSU's buffers are; touched once, so that the first message doesn't pay
/// for the allocation. Out of memory ends the job with one line.
class Buffer {
public:
    explicit Buffer(std::size_t bytes);
    std::byte *data() { return data_.get(); }
    std::span<std::byte> slice(std::size_t offset, std::size_t bytes)
    {
        return {data_.get() + offset, bytes};
    }

private:
    struct Free {
        void operator()(std::byte *p) const { std::free(p); }
    };
    std::unique_ptr<std::byte, Free> data_;
};

/// Checks received messages when the options ask for it.
class Validator {
public:
    explicit Validator(const Session &session);
    /// Compare @p message with the pattern of @p seed; says the first wrong byte on stderr.
    void check(std::span<std::byte> message, std::uint64_t seed);
    std::uint64_t errors() const { return errors_; }

private:
    int rank_;
    std::uint64_t errors_ = 0;
    /// ODP_PERF_CORRUPT=SIZE: spoil one byte of each received message of at least SIZE bytes,
    /// which proves that a wrong byte fails the program.
    std::optional<std::size_t> corrupt_from_;
};

/// Prints the table on rank 0 and remembers whether a size failed validation.
class Report {
public:
    Report(const Session &session, Kind kind);
    /// One line; collective when validation is on: @p errors of both ranks count.
    /// Returns false when the size failed, and the program has to end.
    bool row(std::size_t size, double value, std::uint64_t errors);
    /// Exit code of the program.
    int exit_code() const { return failed_ ? EXIT_FAILURE : EXIT_SUCCESS; }

private:
    const Session &session_;
    bool failed_ = false;
};

/// Collective: rank 0 warns on stderr when both ranks have to share one CPU, because two spinning
/// ranks then take turns at the scheduler's pace (milliseconds a message).
void warn_if_sharing_a_cpu(const Session &session);

} // namespace perf
