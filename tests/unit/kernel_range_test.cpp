// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel module's range checks, compiled for user space.
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

extern "C" {
#include "range.h"
}

namespace {

constexpr std::uint64_t top = std::numeric_limits<std::uint64_t>::max();

TEST(KernelRange, InsideHasNoOffByOne)
{
    EXPECT_TRUE(odp_range_inside(100, 50, 100, 50));
    EXPECT_TRUE(odp_range_inside(100, 50, 149, 1));
    EXPECT_TRUE(odp_range_inside(100, 50, 150, 0));
    EXPECT_FALSE(odp_range_inside(100, 50, 150, 1));
    EXPECT_FALSE(odp_range_inside(100, 50, 99, 1));
    EXPECT_FALSE(odp_range_inside(100, 50, 99, 51));
    EXPECT_FALSE(odp_range_inside(100, 50, 151, 0));
}

TEST(KernelRange, InsideDoesNotWrap)
{
    EXPECT_FALSE(odp_range_inside(0x1000, 0x1000, 0x1800, top));
    EXPECT_FALSE(odp_range_inside(0x1000, 0x1000, top, 2));
    EXPECT_FALSE(odp_range_inside(0x1000, 0x1000, 0x1000, top - 0x800));
    EXPECT_TRUE(odp_range_inside(top - 15, 16, top, 1));
    EXPECT_TRUE(odp_range_inside(top - 15, 16, top - 15, 16));
    EXPECT_FALSE(odp_range_inside(top - 15, 16, top, 2));
    EXPECT_TRUE(odp_range_inside(0, top, 0, top));
    EXPECT_FALSE(odp_range_inside(0, top, 1, top));
}

TEST(KernelRange, OverlapIsHalfOpen)
{
    EXPECT_TRUE(odp_range_overlaps(0, 10, 9, 20));
    EXPECT_FALSE(odp_range_overlaps(0, 10, 10, 20));
    EXPECT_TRUE(odp_range_overlaps(5, 6, 0, 100));
    EXPECT_FALSE(odp_range_overlaps(20, 30, 0, 20));
}

} // namespace
