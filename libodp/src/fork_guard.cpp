// SPDX-License-Identifier: BSD-3-Clause
#include "fork_guard.hpp"

#include <atomic>
#include <sys/mman.h>
#include <unistd.h>

namespace odp {

namespace {

// A page that the kernel clears in every child (MADV_WIPEONFORK, madvise(2)): unlike
// pthread_atfork() that also covers clone(2), and leaves no handler behind if the plugin is
// unloaded. It keeps the process number, so one that was cleared, or an old copy, is told by it.
std::atomic<int> *owner_page() noexcept
{
    static std::atomic<int> *const page = []() -> std::atomic<int> * {
        const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        void *memory =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            return nullptr;
        }
        if (madvise(memory, size, MADV_WIPEONFORK) != 0) {
            munmap(memory, size);
            return nullptr;
        }
        return static_cast<std::atomic<int> *>(memory);
    }();
    return page;
}

int this_process() noexcept
{
    std::atomic<int> *page = owner_page();
    if (page == nullptr) {
        return getpid();
    }
    int pid = page->load(std::memory_order_relaxed);
    if (pid == 0) {
        pid = getpid();
        page->store(pid, std::memory_order_relaxed);
    }
    return pid;
}

} // namespace

ForkGuard::ForkGuard() noexcept : owner_(this_process()) {}

bool ForkGuard::in_child() const noexcept
{
    return this_process() != owner_;
}

} // namespace odp
