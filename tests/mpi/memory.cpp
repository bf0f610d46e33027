// SPDX-License-Identifier: BSD-3-Clause
#include "memory.hpp"

#include "mpi_c.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace mpitest {

std::size_t page_size()
{
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::size_t pages(std::size_t bytes)
{
    return std::max(page_size(), (bytes + page_size() - 1) / page_size() * page_size());
}

void die(const char *what)
{
    std::fprintf(stderr, "odp_mpi_tests: %s: %s\n", what, std::strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    std::abort();
}

Mapping::Mapping(std::size_t bytes, void *where) : bytes_(pages(bytes))
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED_NOREPLACE : 0);
    void *start = mmap(where, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED) {
        die("mmap of anonymous memory");
    }
    start_ = static_cast<std::byte *>(start);
}

Mapping::Mapping(int fd, std::size_t bytes, int protection, int flags) : bytes_(pages(bytes))
{
    void *start = mmap(nullptr, bytes_, protection, flags, fd, 0);
    if (start == MAP_FAILED) {
        die("mmap of a file");
    }
    start_ = static_cast<std::byte *>(start);
}

Mapping Mapping::adopt(void *start, std::size_t bytes)
{
    Mapping mapping;
    mapping.start_ = static_cast<std::byte *>(start);
    mapping.bytes_ = bytes;
    return mapping;
}

Mapping::Mapping(Mapping &&other) noexcept : start_(other.start_), bytes_(other.bytes_)
{
    other.release();
}

Mapping::~Mapping()
{
    if (start_ && munmap(start_, bytes_) != 0) {
        die("munmap");
    }
}

void Mapping::protect(int protection) const
{
    if (mprotect(start_, bytes_, protection) != 0) {
        die("mprotect");
    }
}

void Mapping::advise(int advice) const
{
    if (madvise(start_, bytes_, advice) != 0) {
        die("madvise");
    }
}

TemporaryFile::TemporaryFile(std::size_t bytes)
{
    const char *folder = std::getenv("TMPDIR");
    std::string path = std::string(folder ? folder : "/tmp") + "/odp_mpi_tests.XXXXXX";
    fd_ = mkstemp(path.data());
    if (fd_ < 0 || unlink(path.c_str()) != 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
        die("temporary file (TMPDIR or /tmp)");
    }
}

TemporaryFile::~TemporaryFile()
{
    close(fd_);
}

void TemporaryFile::write(std::span<const std::byte> data) const
{
    for (std::size_t done = 0; done < data.size();) {
        const auto n =
            pwrite(fd_, data.data() + done, data.size() - done, static_cast<off_t>(done));
        if (n <= 0) {
            die("write to the temporary file");
        }
        done += static_cast<std::size_t>(n);
    }
}

std::vector<std::byte> TemporaryFile::read(std::size_t bytes) const
{
    std::vector<std::byte> data(bytes);
    for (std::size_t done = 0; done < bytes;) {
        const auto n = pread(fd_, data.data() + done, bytes - done, static_cast<off_t>(done));
        if (n <= 0) {
            die("read of the temporary file");
        }
        done += static_cast<std::size_t>(n);
    }
    return data;
}

std::span<std::byte> Guarded::place(std::size_t bytes, std::size_t misalignment)
{
    auto base = reinterpret_cast<std::uintptr_t>(bytes_.data());
    const std::size_t to_boundary = (64 - base % 64) % 64;
    start_ = bytes_.data() + guard + std::min<std::size_t>(to_boundary + misalignment, 64);
    length_ = bytes;
    std::fill_n(start_ - guard, guard, paint);
    std::fill_n(start_ + bytes, guard, paint);
    return {start_, bytes};
}

} // namespace mpitest
