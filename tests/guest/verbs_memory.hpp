// SPDX-License-Identifier: BSD-3-Clause
// Mapped memory and the patterns that make every byte of a transfer checkable.
#pragma once

#include "verbs_check.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

namespace vt {

inline constexpr size_t kib = 1024;
inline constexpr size_t mib = 1024 * kib;
inline constexpr size_t page_size = 4096;
inline constexpr size_t huge_size = 2 * mib;

// An owned mapping, page-aligned and not populated: nothing is present before it is touched.
class Memory {
public:
    explicit Memory(size_t size, int protection = PROT_READ | PROT_WRITE,
                    int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1,
                    const Location &at = Location::current())
        : size_(size),
          base_(expect_sys(mmap(nullptr, size, protection, flags, fd, 0), "mmap", at))
    {
    }
    Memory(Memory &&other) noexcept
        : size_(std::exchange(other.size_, 0)),
          base_(std::exchange(other.base_, nullptr))
    {
    }
    Memory &operator=(Memory &&) = delete;
    ~Memory()
    {
        if (base_ != nullptr) {
            munmap(base_, size_);
        }
    }

    std::byte *data() const { return static_cast<std::byte *>(base_); }
    size_t size() const { return size_; }
    uint64_t address() const { return reinterpret_cast<uintptr_t>(base_); }
    std::span<std::byte> bytes() const { return {data(), size_}; }
    std::span<std::byte> bytes(size_t offset, size_t length) const
    {
        return bytes().subspan(offset, length);
    }

    // New zero pages at the same place, as munmap followed by mmap at the same address gives.
    void replace(int protection = PROT_READ | PROT_WRITE)
    {
        expect_sys(munmap(base_, size_), "munmap");
        expect_eq(mmap(base_, size_, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  base_, "mmap at the same address");
    }
    void protect(int protection) { expect_sys(mprotect(base_, size_, protection), "mprotect"); }
    void advise(int advice) { expect_sys(madvise(base_, size_, advice), "madvise"); }
    void *release() { return std::exchange(base_, nullptr); }

private:
    size_t size_;
    void *base_;
};

// Bytes that depend on seed and position, so that lost, moved and stale data all show.
void fill(std::span<std::byte> bytes, uint64_t seed);
// Failure that tells the first wrong position and the value there.
void expect_pattern(std::span<const std::byte> bytes, uint64_t seed, std::string_view what,
                    const Location &at = Location::current());
void expect_all(std::span<const std::byte> bytes, uint8_t value, std::string_view what,
                const Location &at = Location::current());

// How many pages of the range are in the page table (/proc/self/pagemap): independent of what
// the device says about it.
size_t present_pages(std::span<const std::byte> bytes);

} // namespace vt
