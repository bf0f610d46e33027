// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <variant>

/// Command line of the benchmarks: the options of the OSU micro-benchmarks 7 that apply here.
namespace perf {

enum class Kind { latency, bandwidth };

struct Options {
    std::size_t min_size = 1;       ///< bytes
    std::size_t max_size = 4 << 20; ///< bytes
    int iterations = 0;             ///< timed, messages up to `large_threshold`
    int iterations_large = 0;       ///< timed, larger messages
    int skip = 0;                   ///< warm-up, messages up to `large_threshold`
    int skip_large = 0;             ///< warm-up, larger messages
    int window = 64;                ///< messages in flight, bandwidth only
    int validation_warmup = 5; ///< untimed rounds before the timed one of each validated iteration
    bool validate = false;
    bool multiple_buffers = false; ///< each message of a window has its own buffer
    bool help = false;

    /// OSU's boundary between the "small" and "large" iteration counts, in bytes.
    static constexpr std::size_t large_threshold = 8192;

    int iterations_for(std::size_t size) const
    {
        return size > large_threshold ? iterations_large : iterations;
    }

    int skip_for(std::size_t size) const { return size > large_threshold ? skip_large : skip; }
};

/// Parse @p argv. Returns the options, or one line that says what is wrong with which value and
/// what would be right. Uses getopt's globals: call it once, from one thread.
std::variant<Options, std::string> parse(Kind kind, int argc, char **argv);

/// Text of `--help`, ending with a newline.
std::string usage(Kind kind, const std::string &program);

} // namespace perf
