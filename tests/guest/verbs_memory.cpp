// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_memory.hpp"

#include <fcntl.h>

#include <algorithm>

namespace vt {
namespace {

// splitmix64: the finaliser of Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators" (OOPSLA 2014).
uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

uint64_t word(uint64_t seed, size_t index)
{
    return mix(seed * 0x100000001b3 + index);
}

} // namespace

void fill(std::span<std::byte> bytes, uint64_t seed)
{
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
        uint64_t value = word(seed, at / sizeof(uint64_t));
        std::memcpy(&bytes[at], &value, std::min(sizeof(value), bytes.size() - at));
    }
}

void expect_pattern(std::span<const std::byte> bytes, uint64_t seed, std::string_view what,
                    const Location &at)
{
    for (size_t pos = 0; pos < bytes.size(); pos += sizeof(uint64_t)) {
        uint64_t want = word(seed, pos / sizeof(uint64_t));
        size_t length = std::min(sizeof(want), bytes.size() - pos);
        if (std::memcmp(&bytes[pos], &want, length) != 0) {
            uint64_t got = 0;
            std::memcpy(&got, &bytes[pos], length);
            fail(str(what, ": wrong data in the 8 bytes at offset ", pos, " of ", bytes.size(),
                     ": got 0x", std::hex, got, ", want 0x", want),
                 at);
        }
    }
}

void expect_all(std::span<const std::byte> bytes, uint8_t value, std::string_view what,
                const Location &at)
{
    auto wrong = std::find_if(bytes.begin(), bytes.end(),
                              [&](std::byte b) { return b != std::byte{value}; });
    if (wrong != bytes.end()) {
        fail(str(what, ": byte ", wrong - bytes.begin(), " of ", bytes.size(), " is ",
                 std::to_integer<int>(*wrong), ", want ", int{value}),
             at);
    }
}

size_t present_pages(std::span<const std::byte> bytes)
{
    constexpr uint64_t present_bit = uint64_t{1} << 63; // Documentation/admin-guide/mm/pagemap.rst
    auto first = reinterpret_cast<uintptr_t>(bytes.data()) / page_size;
    auto last = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() - 1) / page_size;
    std::vector<uint64_t> entries(last - first + 1);
    int fd = expect_sys(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), "pagemap");
    auto length = static_cast<ssize_t>(entries.size() * sizeof(uint64_t));
    ssize_t got = pread(fd, entries.data(), static_cast<size_t>(length),
                        static_cast<off_t>(first * sizeof(uint64_t)));
    close(fd);
    expect_eq(got, length, "bytes read from pagemap");
    return static_cast<size_t>(std::count_if(entries.begin(), entries.end(),
                                             [](uint64_t e) { return (e & present_bit) != 0; }));
}

} // namespace vt
