// SPDX-License-Identifier: BSD-3-Clause
#include "memory.hpp"

#include "format.hpp"

#include <cerrno>
#include <cstdint>
#include <sys/mman.h>
#include <sys/resource.h>

namespace odp {

namespace {

std::string locked_limit()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return "no limit of locked memory is set, so memory itself may be short";
    }
    return format("the limit of locked memory is %llu KiB (ulimit -l): raise it, or make "
                  "recv_depth, payload_room or max_send_buffers smaller",
                  static_cast<unsigned long long>(limit.rlim_cur) / 1024);
}

} // namespace

Result<Region> Region::create(ibv_pd *pd, const Device &device)
{
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                      IBV_ACCESS_ON_DEMAND;
    if (device.atomics()) {
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    }
    errno = 0;
    MemoryRegion mr(ibv_reg_mr(pd, nullptr, SIZE_MAX, static_cast<int>(access)));
    if (!mr) {
        return Status::from_errno(
            errno, format("%s: ibv_reg_mr of the implicit region (address 0, length SIZE_MAX, "
                          "access 0x%x) failed; the device says that it can, see dmesg",
                          device.str().c_str(), access));
    }
    return Region(std::move(mr));
}

Result<PinnedMemory> PinnedMemory::create(ibv_pd *pd, std::size_t bytes)
{
    // The kernel gives a forked child its own copy of pinned pages, so fork() leaves ours in place.
    void *start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        return Status::from_errno(errno, format("mmap of %zu bytes for message buffers", bytes));
    }
    PinnedMemory memory;
    memory.bytes_ = {static_cast<std::byte *>(start), bytes};
    errno = 0;
    memory.mr_ = MemoryRegion(ibv_reg_mr(pd, start, bytes, IBV_ACCESS_LOCAL_WRITE));
    if (!memory.mr_) {
        const int error = errno;
        const std::string what = format("ibv_reg_mr of %zu bytes for message buffers", bytes);
        if (error == ENOMEM || error == EAGAIN) {
            return Status(Code::no_memory, what + " failed; " + locked_limit());
        }
        return Status::from_errno(error, what);
    }
    return memory;
}

PinnedMemory::~PinnedMemory()
{
    mr_.reset();
    if (!bytes_.empty()) {
        munmap(bytes_.data(), bytes_.size());
    }
}

} // namespace odp
