// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Kinds of memory that messages come from and go to. A failing system call ends the job with one
/// line (through MPI_Abort): the tests have nothing to say without it.
namespace mpitest {

/// Bytes of a small page.
std::size_t page_size();
/// Round @p bytes up to whole pages, one at least.
std::size_t pages(std::size_t bytes);
/// End the job: @p what failed, with errno's text.
[[noreturn]] void die(const char *what);

/// An mmap()ed range that is unmapped at the end of its scope.
class Mapping {
public:
    /// Private anonymous memory; at @p where exactly if given (and nothing may be there).
    explicit Mapping(std::size_t bytes, void *where = nullptr);
    /// A file from offset 0 with the given PROT_* and MAP_*.
    Mapping(int fd, std::size_t bytes, int protection, int flags);
    /// Take over a range that came from elsewhere (mremap).
    static Mapping adopt(void *start, std::size_t bytes);
    ~Mapping();
    Mapping(Mapping &&other) noexcept;
    Mapping &operator=(Mapping &&) = delete;

    std::byte *data() const { return start_; }
    std::size_t size() const { return bytes_; }
    std::span<std::byte> slice(std::size_t offset, std::size_t bytes) const
    {
        return {start_ + offset, bytes};
    }
    /// Forget the range: it stays mapped or has been moved away.
    void release() { start_ = nullptr; }
    void protect(int protection) const;
    void advise(int advice) const;

private:
    Mapping() = default;
    std::byte *start_ = nullptr;
    std::size_t bytes_ = 0;
};

/// An unlinked temporary file of a given length.
class TemporaryFile {
public:
    explicit TemporaryFile(std::size_t bytes);
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile &) = delete;
    TemporaryFile &operator=(const TemporaryFile &) = delete;
    int fd() const { return fd_; }
    void write(std::span<const std::byte> data) const;
    std::vector<std::byte> read(std::size_t bytes) const;

private:
    int fd_;
};

/// A buffer between two guard zones whose bytes a message must not touch.
class Guarded {
public:
    static constexpr std::size_t guard = 64;
    static constexpr std::byte paint{0xa5};

    explicit Guarded(std::size_t capacity) : bytes_(capacity + 2 * guard + 64) {}
    /// @p bytes at @p misalignment bytes from a 64-byte boundary, with fresh guards.
    std::span<std::byte> place(std::size_t bytes, std::size_t misalignment);
    std::span<const std::byte> front() const { return {start_ - guard, guard}; }
    std::span<const std::byte> back() const { return {start_ + length_, guard}; }

private:
    std::vector<std::byte> bytes_;
    std::byte *start_ = nullptr;
    std::size_t length_ = 0;
};

} // namespace mpitest
