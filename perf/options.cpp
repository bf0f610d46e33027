// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <charconv>
#include <climits>
#include <cstdint>
#include <cstring>
#include <getopt.h>
#include <optional>
#include <string_view>

namespace perf {
namespace {

constexpr std::uint64_t max_message = INT_MAX; // MPI-3 counts are int

/// A decimal number with an optional K or M (2^10, 2^20); nothing for anything else.
std::optional<std::uint64_t> number(std::string_view text)
{
    std::uint64_t value = 0;
    const char *end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || text.empty()) {
        return std::nullopt;
    }
    if (rest == end) {
        return value;
    }
    const int shift = std::strchr("kK", *rest) ? 10 : std::strchr("mM", *rest) ? 20 : 0;
    if (shift == 0 || rest + 1 != end || value > (UINT64_MAX >> shift)) {
        return std::nullopt;
    }
    return value << shift;
}

std::string quoted(std::string_view text)
{
    return "'" + std::string(text) + "'";
}

/// Set @p value from @p text within [low, high]; the error text otherwise, "" when all is well.
template <typename T>
std::string take(const char *option, std::string_view text, std::uint64_t low, std::uint64_t high,
                 T &value)
{
    const auto parsed = number(text);
    if (!parsed || *parsed < low || *parsed > high) {
        return std::string(option) + " " + quoted(text) + ": give a whole number from " +
               std::to_string(low) + " to " + std::to_string(high);
    }
    value = static_cast<T>(*parsed);
    return {};
}

/// `N` for all sizes, or `N:LARGE` with a count of its own above the threshold.
std::string take_counts(const char *option, std::string_view text, std::uint64_t low, int &small,
                        int &large)
{
    const auto colon = text.find(':');
    std::string error = take(option, text.substr(0, colon), low, INT_MAX / 2, small);
    large = small;
    if (error.empty() && colon != std::string_view::npos) {
        error = take(option, text.substr(colon + 1), low, INT_MAX / 2, large);
    }
    return error;
}

/// `MAX`, `MIN:`, `:MAX` or `MIN:MAX`, as OSU reads them.
std::string take_sizes(std::string_view text, Options &options)
{
    const char *name = "-m";
    const auto colon = text.find(':');
    std::string error;
    if (colon == std::string_view::npos) {
        error = take(name, text, 0, max_message, options.max_size);
    } else {
        const auto low = text.substr(0, colon);
        const auto high = text.substr(colon + 1);
        if (low.empty() && high.empty()) {
            return "-m " + quoted(text) + ": give [MIN:]MAX in bytes, for example -m 1:4096";
        }
        if (!low.empty()) {
            error = take(name, low, 0, max_message, options.min_size);
        }
        if (error.empty() && !high.empty()) {
            error = take(name, high, 0, max_message, options.max_size);
        }
    }
    if (error.empty() && colon == std::string_view::npos && options.max_size < options.min_size) {
        options.min_size = options.max_size; // -m 0
    }
    if (error.empty() && options.min_size > options.max_size) {
        return "-m " + quoted(text) + ": the minimum " + std::to_string(options.min_size) +
               " is above the maximum " + std::to_string(options.max_size);
    }
    return error;
}

Options defaults(Kind kind)
{
    Options options;
    const bool latency = kind == Kind::latency;
    options.iterations = latency ? 10000 : 100;
    options.iterations_large = latency ? 1000 : 20;
    options.skip = latency ? 100 : 10;
    options.skip_large = latency ? 10 : 2;
    return options;
}

std::string take_buffers(std::string_view text, Options &options)
{
    if (text != "single" && text != "multiple") {
        return "-b " + quoted(text) + ": give single or multiple";
    }
    options.multiple_buffers = text == "multiple";
    return {};
}

std::string apply(int option, const char *value, Options &options)
{
    switch (option) {
    case 'm':
        return take_sizes(value, options);
    case 'i':
        return take_counts("-i", value, 1, options.iterations, options.iterations_large);
    case 'x':
        return take_counts("-x", value, 0, options.skip, options.skip_large);
    case 'W':
        return take("-W", value, 1, 65536, options.window);
    case 'u':
        return take("-u", value, 0, 1000000, options.validation_warmup);
    case 'b':
        return take_buffers(value, options);
    case 'c':
        options.validate = true;
        return {};
    case 'h':
        options.help = true;
        return {};
    default:
        return "internal error: option without an action";
    }
}

} // namespace

std::variant<Options, std::string> parse(Kind kind, int argc, char **argv)
{
    static const option long_options[] = {
        {"message-size", required_argument, nullptr, 'm'},
        {"iterations", required_argument, nullptr, 'i'},
        {"warmup", required_argument, nullptr, 'x'},
        {"validation", no_argument, nullptr, 'c'},
        {"validation-warmup", required_argument, nullptr, 'u'},
        {"help", no_argument, nullptr, 'h'},
        {"window-size", required_argument, nullptr, 'W'},
        {"buffer-num", required_argument, nullptr, 'b'},
        {nullptr, 0, nullptr, 0},
    };
    const bool bandwidth = kind == Kind::bandwidth;
    Options options = defaults(kind);
    opterr = 0;
    for (;;) {
        const int at = optind;
        const int c = getopt_long(argc, argv, ":m:i:x:cu:hW:b:", long_options, nullptr);
        if (c == -1) {
            break;
        }
        if (c == ':') {
            return "option " + quoted(argv[optind - 1]) + " needs a value; see --help";
        }
        if (c == '?' || (!bandwidth && (c == 'W' || c == 'b'))) {
            return "unknown option " + quoted(argv[at]) + "; see --help";
        }
        if (auto error = apply(c, optarg, options); !error.empty()) {
            return error;
        }
    }
    if (optind < argc) {
        return "unexpected argument " + quoted(argv[optind]) + "; see --help";
    }
    // One shared buffer can only show what the window's last message left there.
    options.multiple_buffers = options.multiple_buffers || (bandwidth && options.validate);
    return options;
}

std::string usage(Kind kind, const std::string &program)
{
    const bool bandwidth = kind == Kind::bandwidth;
    const Options options = defaults(kind);
    std::string text = "Usage: mpirun -n 2 " + program + " [options]\n";
    text += bandwidth ? "Measures the bandwidth of windows of MPI_Isend/MPI_Irecv.\n"
                      : "Measures half the round trip of MPI_Send/MPI_Recv.\n";
    text += "Options and output are those of the OSU micro-benchmarks 7:\n"
            "  -m, --message-size [MIN:]MAX  message sizes in bytes, doubling (1:4194304);\n"
            "                                K and M stand for 2^10 and 2^20\n"
            "  -i, --iterations N[:LARGE]    timed iterations (" +
            std::to_string(options.iterations) + ":" + std::to_string(options.iterations_large) +
            ");\n"
            "                                LARGE counts above 8192 bytes, N for all without it\n"
            "  -x, --warmup N[:LARGE]        untimed iterations before them (" +
            std::to_string(options.skip) + ":" + std::to_string(options.skip_large) +
            ")\n"
            "  -c, --validation              check every byte of every message; a wrong one\n"
            "                                shows as Fail and fails the program\n"
            "  -u, --validation-warmup N     with -c: untimed rounds in each iteration (5)\n";
    if (bandwidth) {
        text +=
            "  -W, --window-size N           messages in flight (64)\n"
            "  -b, --buffer-num KIND         single: all messages of a window share one buffer;\n"
            "                                multiple: each has its own (single; -c: multiple)\n";
    }
    text += "  -h, --help                    this text\n";
    return text;
}

} // namespace perf
