// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

/// Message contents that depend on the position and on a seed, so that a lost, moved, stale or
/// foreign byte shows. Used by the benchmarks' `-c` and by the MPI tests. Pure, thread-safe.
namespace pattern {

/// Where a buffer differs from its pattern.
struct Mismatch {
    std::size_t offset; ///< bytes from the start of the stream
    std::byte expected;
    std::byte got;
};

/// The eight bytes of the pattern at stream offset 8 * @p index.
/// Two multiplications only: under emulation the benchmarks would otherwise measure this.
constexpr std::uint64_t word(std::uint64_t seed, std::uint64_t index)
{
    const std::uint64_t x = (seed * 0x9e3779b97f4a7c15ull + index + 1) * 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}

/// Write the pattern into @p buffer, which holds the stream from byte @p start on.
inline void fill(std::span<std::byte> buffer, std::uint64_t seed, std::size_t start = 0)
{
    std::size_t done = 0;
    while (done < buffer.size()) {
        const std::size_t skip = (start + done) % 8;
        const std::size_t take = std::min<std::size_t>(8 - skip, buffer.size() - done);
        const std::uint64_t value = word(seed, (start + done) / 8);
        if (take == 8) {
            std::memcpy(buffer.data() + done, &value, 8);
        } else {
            std::memcpy(buffer.data() + done, reinterpret_cast<const char *>(&value) + skip, take);
        }
        done += take;
    }
}

/// The first byte of @p buffer that differs from the stream that starts at byte @p start.
inline std::optional<Mismatch> check(std::span<const std::byte> buffer, std::uint64_t seed,
                                     std::size_t start = 0)
{
    std::size_t done = 0;
    while (done < buffer.size()) {
        const std::size_t skip = (start + done) % 8;
        const std::size_t take = std::min<std::size_t>(8 - skip, buffer.size() - done);
        const std::uint64_t value = word(seed, (start + done) / 8);
        const std::byte *expected = reinterpret_cast<const std::byte *>(&value) + skip;
        if (std::memcmp(buffer.data() + done, expected, take) != 0) {
            std::size_t i = 0;
            while (buffer[done + i] == expected[i]) {
                ++i;
            }
            return Mismatch{start + done + i, expected[i], buffer[done + i]};
        }
        done += take;
    }
    return std::nullopt;
}

} // namespace pattern
