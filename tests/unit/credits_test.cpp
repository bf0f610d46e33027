// SPDX-License-Identifier: BSD-3-Clause
#include "credits.hpp"
#include "range.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace odp::test {
namespace {

TEST(Credits, TakesAllButTheReserved)
{
    Credits credits(8, 8);
    int taken = 0;
    while (credits.take()) {
        ++taken;
    }
    EXPECT_EQ(taken, 5);
    EXPECT_TRUE(credits.give(5));
    EXPECT_EQ(credits.available(), 5U);
}

TEST(Credits, MoreThanEverGotIsRefused)
{
    Credits credits(8, 8);
    EXPECT_TRUE(credits.give(0));
    EXPECT_FALSE(credits.give(1));
    EXPECT_TRUE(credits.take());
    EXPECT_FALSE(credits.give(2));
    EXPECT_FALSE(credits.give(UINT32_MAX));
    EXPECT_TRUE(credits.give(1));
}

TEST(Credits, ReturnIsDueAtHalf)
{
    for (std::uint32_t depth = Credits::min_depth; depth < 70; ++depth) {
        Credits credits(64, depth);
        const std::uint32_t half = (depth - Credits::reserved + 1) / 2;
        for (std::uint32_t i = 0; i < half; ++i) {
            EXPECT_FALSE(credits.must_return()) << depth;
            credits.reposted();
        }
        EXPECT_TRUE(credits.must_return()) << depth;
        EXPECT_EQ(credits.collect(), half);
        EXPECT_FALSE(credits.must_return());
        EXPECT_EQ(credits.collect(), 0);
    }
}

// What credits.hpp promises, for every depth: messages that return credits never need more than the
// reserved receives, and a sender without credits gets some.
TEST(Credits, ReservedReceivesSuffice)
{
    for (std::uint32_t depth = Credits::min_depth; depth < 40; ++depth) {
        std::mt19937 random(depth);
        Credits sender(depth, depth);
        Credits receiver(depth, depth);
        std::uint32_t in_flight = 0;        // messages that used a credit
        std::vector<std::uint16_t> returns; // under way, not taken yet
        std::uint64_t delivered = 0;
        for (int step = 0; step < 20000; ++step) {
            switch (random() % 3) {
            case 0:
                if (sender.take()) {
                    ++in_flight;
                }
                break;
            case 1:
                if (in_flight > 0) {
                    --in_flight;
                    ++delivered;
                    receiver.reposted();
                    if (receiver.must_return()) {
                        returns.push_back(receiver.collect());
                    }
                }
                break;
            default:
                if (!returns.empty() && random() % 4 == 0) {
                    ASSERT_TRUE(sender.give(returns.front()));
                    returns.erase(returns.begin());
                }
                break;
            }
            ASSERT_LE(returns.size(), Credits::reserved - 1) << depth; // one is for the farewell
            ASSERT_LE(in_flight, depth - Credits::reserved);
            ASSERT_TRUE(sender.available() > 0 || in_flight > 0 || !returns.empty()) << "deadlock";
        }
        EXPECT_GT(delivered, 500U);
    }
}

TEST(Range, EndOfTheAddressSpace)
{
    EXPECT_TRUE(fits_address_space(0, 0));
    EXPECT_TRUE(fits_address_space(UINT64_MAX, 0));
    EXPECT_TRUE(fits_address_space(UINT64_MAX, 1));
    EXPECT_FALSE(fits_address_space(UINT64_MAX, 2));
    EXPECT_TRUE(fits_address_space(0, UINT64_MAX));
    EXPECT_TRUE(fits_address_space(1, UINT64_MAX));
    EXPECT_FALSE(fits_address_space(2, UINT64_MAX));
}

TEST(Range, PiecesAddUp)
{
    constexpr std::uint32_t limits[] = {1, 7, 4096, 1U << 31U};
    for (const std::uint32_t limit : limits) {
        for (const std::uint64_t length : {0ULL, 1ULL, 7ULL, 8ULL, 4096ULL, 9000ULL}) {
            std::uint64_t offset = 0;
            while (const std::uint32_t piece = piece_length(length, offset, limit)) {
                ASSERT_LE(piece, limit);
                offset += piece;
            }
            EXPECT_EQ(offset, length);
        }
    }
    EXPECT_EQ(piece_length(5ULL << 32U, 4ULL << 32U, 1U << 31U), 1U << 31U);
    EXPECT_EQ(piece_length((5ULL << 32U) + 3, 5ULL << 32U, 1U << 31U), 3U);
}

} // namespace
} // namespace odp::test
