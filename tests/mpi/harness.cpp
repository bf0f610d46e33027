// SPDX-License-Identifier: BSD-3-Clause
#include "harness.hpp"

#include "pattern.hpp"

#include <cstdarg>
#include <cstdio>

namespace mpitest {
namespace {

constexpr int printed_failures = 4; // per case and rank; the rest is counted only

/// The same on every rank and C++ library, unlike std::hash.
std::uint64_t hash(std::string_view text)
{
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (const char c : text) {
        h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    }
    return h;
}

} // namespace

std::vector<Case> &cases()
{
    static std::vector<Case> all;
    return all;
}

Test::Test(std::string_view name, const Options &options, int rank, int size)
    : name_(name),
      options_(options),
      rank_(rank),
      size_(size),
      shared_random_(options.seed ^ hash(name)),
      message_seed_(options.seed ^ hash(name)),
      spoil_(options.corrupt)
{
}

std::size_t Test::draw(std::size_t low, std::size_t high)
{
    return low + shared_random_() % (high - low + 1);
}

void Test::fail(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (failures_++ == 0) {
        first_failure_ = "rank " + std::to_string(rank_) + ": " + text;
    }
    if (failures_ <= printed_failures && !options_.corrupt) {
        std::fprintf(stderr, "# %s: rank %d: %s (--seed %llu)\n", name_.c_str(), rank_, text,
                     static_cast<unsigned long long>(options_.seed));
    }
}

void Test::expect(bool condition, std::string_view what)
{
    if (!condition) {
        fail("expected: %.*s", static_cast<int>(what.size()), what.data());
    }
}

void Test::maybe_spoil(std::span<std::byte> data)
{
    if (spoil_ && !data.empty()) {
        spoil_ = false;
        data[hash(name_) % data.size()] ^= std::byte{0x10};
    }
}

void Test::check(std::span<std::byte> data, std::uint64_t seed, std::string_view what,
                 std::size_t start)
{
    maybe_spoil(data);
    if (const auto wrong = pattern::check(data, seed, start)) {
        fail("%.*s, %zu bytes: offset %zu: expected 0x%02x, got 0x%02x (contents %llu)",
             static_cast<int>(what.size()), what.data(), data.size(), wrong->offset,
             std::to_integer<unsigned>(wrong->expected), std::to_integer<unsigned>(wrong->got),
             static_cast<unsigned long long>(seed));
    }
}

void Test::check_untouched(std::span<const std::byte> data, std::byte value, std::string_view what)
{
    for (std::size_t i = 0; i < data.size(); ++i) {
        if (data[i] != value) {
            fail("%.*s: offset %zu: expected 0x%02x, got 0x%02x", static_cast<int>(what.size()),
                 what.data(), i, std::to_integer<unsigned>(value),
                 std::to_integer<unsigned>(data[i]));
            return;
        }
    }
}

void Test::check_status(const MPI_Status &status, int source, int tag, std::size_t bytes)
{
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (status.MPI_SOURCE != source || status.MPI_TAG != tag || count != static_cast<int>(bytes)) {
        fail("message: expected source %d tag %d bytes %zu, got source %d tag %d bytes %d", source,
             tag, bytes, status.MPI_SOURCE, status.MPI_TAG, count);
    }
}

} // namespace mpitest
