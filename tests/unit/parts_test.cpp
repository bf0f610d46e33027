// SPDX-License-Identifier: BSD-3-Clause
//
// Small parts: the choice of a device, send buffers, statuses, the guard against fork().
#include "odp/context.hpp"

#include "buffer_pool.hpp"
#include "device_rules.hpp"
#include "fork_guard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace odp::test {
namespace {

TEST(DeviceRules, WhyNot)
{
    constexpr std::uint32_t rc =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    constexpr std::uint64_t implicit = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    EXPECT_EQ(odp_why_not({implicit, rc}), "");
    EXPECT_EQ(odp_why_not({0, rc}), "it has no on-demand paging");
    EXPECT_NE(odp_why_not({IBV_ODP_SUPPORT, rc}).find("no implicit regions"), std::string::npos);
    EXPECT_NE(
        odp_why_not({implicit, rc & ~unsigned{IBV_ODP_SUPPORT_READ}}).find("lacks read on RC"),
        std::string::npos);
    EXPECT_NE(odp_why_not({implicit, 0}).find("lacks send write read"), std::string::npos);
}

TEST(DeviceRules, Names)
{
    const auto parsed = [](std::string_view text) {
        auto name = parse_device_name(text);
        return name ? name->name + "/" + std::to_string(name->port) : std::string("refused");
    };
    EXPECT_EQ(parsed(""), "/0");
    EXPECT_EQ(parsed("odp0"), "odp0/0");
    EXPECT_EQ(parsed("mlx5_0:2"), "mlx5_0/2");
    for (const char *bad : {":1", "odp0:", "odp0:0", "odp0:255", "odp0:x", "odp0:1:1", "odp0:-1"}) {
        EXPECT_EQ(parsed(bad), "refused") << bad;
    }
}

TEST(DeviceRules, Masks)
{
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(5, &mine);
    CPU_SET(40, &mine);
    EXPECT_TRUE(mask_intersects("20\n", mine));
    EXPECT_FALSE(mask_intersects("1f\n", mine));
    EXPECT_TRUE(mask_intersects("100,00000000\n", mine));
    EXPECT_FALSE(mask_intersects("fffffe00,00000000\n", mine));
    EXPECT_FALSE(mask_intersects("0", mine));
    EXPECT_TRUE(mask_intersects("", mine));
    EXPECT_TRUE(mask_intersects("no mask", mine));
    EXPECT_FALSE(mask_intersects(std::string(2000, '0'), mine));
    EXPECT_FALSE(mask_intersects("f" + std::string(1000, '0'), mine)) << "CPUs beyond cpu_set_t";
}

TEST(DeviceRules, LinkSpeed)
{
    EXPECT_EQ(link_mbps(2, 32), 100000); // 4x EDR
    EXPECT_EQ(link_mbps(1, 1), 2000);
    EXPECT_EQ(link_mbps(2, 0), 0);
    EXPECT_EQ(link_mbps(3, 32), 0);
}

TEST(Device, ExplainsEveryCandidate)
{
    EXPECT_NE(Device::explain({}).find("no RDMA device"), std::string::npos);
    EXPECT_EQ(Device::explain({{"rxe0", 0, "it has no on-demand paging", true, false},
                               {"odp0", 1, "", true, true}}),
              "rxe0: it has no on-demand paging; odp0:1: it will do");
}

TEST(Device, ThatIsNotThereIsRefusedByName)
{
    Options options;
    options.device = "no_such_device:1";
    auto device = Device::open(options);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.status().code(), Code::no_device);
}

BufferPool::Allocator heap(int &calls, int limit)
{
    return [&calls, limit](std::size_t bytes) -> Result<BufferPool::Memory> {
        if (calls++ >= limit) {
            return Status(Code::no_memory, "ulimit");
        }
        std::shared_ptr<void> owner(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096),
                                    std::free);
        return BufferPool::Memory{{static_cast<std::byte *>(owner.get()), bytes}, 1, owner};
    };
}

TEST(BufferPool, BuffersAreApartAndAligned)
{
    int calls = 0;
    BufferPool pool(heap(calls, 100), 8192, 100, 100);
    std::set<std::byte *> payloads;
    std::vector<SendBuffer *> buffers;
    while (SendBuffer *buffer = pool.alloc()) {
        EXPECT_EQ(buffer->payload().size(), 8192U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->payload().data()) % 8, 0U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->user()) % 64, 0U);
        std::fill(buffer->payload().begin(), buffer->payload().end(), std::byte{1});
        std::memset(buffer->user(), 1, 100);
        payloads.insert(buffer->payload().data());
        buffers.push_back(buffer);
    }
    EXPECT_EQ(buffers.size(), 100U); // the limit
    EXPECT_EQ(pool.made(), 100U);
    EXPECT_EQ(calls, 2); // made in chunks
    std::byte *last = nullptr;
    for (std::byte *payload : payloads) {
        EXPECT_TRUE(last == nullptr || payload - last >= 8192 + 8); // room for the header
        last = payload;
    }
    pool.release(*buffers[42]);
    EXPECT_EQ(pool.alloc(), buffers[42]);
    EXPECT_EQ(pool.alloc(), nullptr);
    EXPECT_EQ(pool.in_use(), 100U);
}

TEST(BufferPool, WithoutMemory)
{
    int calls = 0;
    BufferPool pool(heap(calls, 0), 8192, 0, 100);
    EXPECT_EQ(pool.alloc(), nullptr);
    EXPECT_STREQ(pool.why().text(), "ulimit");
}

TEST(Status, TextsAndErrno)
{
    EXPECT_TRUE(Status().ok());
    EXPECT_FALSE(Status(Code::in_progress).failed());
    EXPECT_TRUE(Status(Code::flushed).failed());
    EXPECT_STREQ(Status(Code::peer_lost).text(), "peer lost");
    const Status status = Status::from_errno(EINVAL, "ibv_modify_qp");
    EXPECT_EQ(status.code(), Code::system);
    EXPECT_STREQ(status.text(), "ibv_modify_qp: Invalid argument");
    EXPECT_EQ(Status::from_errno(ENOMEM, "x").code(), Code::no_memory);
    const Status copy = status; // shares the text
    EXPECT_EQ(copy.text(), status.text());
}

TEST(ForkGuard, TellsChildrenApart)
{
    const ForkGuard guard;
    EXPECT_FALSE(guard.in_child());
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const ForkGuard own;
        bool good = guard.in_child() && !own.in_child();
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            _exit(guard.in_child() && own.in_child() ? 0 : 1);
        }
        int status = 1;
        good = good && waitpid(grandchild, &status, 0) == grandchild && status == 0;
        _exit(good && !own.in_child() ? 0 : 1);
    }
    int status = 1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(guard.in_child());
}

} // namespace
} // namespace odp::test
