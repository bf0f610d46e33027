// SPDX-License-Identifier: BSD-3-Clause
//
// Read-only and shared pages: access rights as they are when a message comes, and bytes in files.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace mpitest;

constexpr std::size_t lengths[] = {1, 1000, 5000, 70000, 1u << 20};
constexpr std::size_t longest = 1u << 20;
constexpr std::uint64_t constant_seed = 77;

/// Contents in the program's own read-only pages.
constexpr auto constants = [] {
    std::array<std::uint64_t, 16384> words{};
    for (std::size_t i = 0; i < words.size(); ++i) {
        words[i] = pattern::word(constant_seed, i);
    }
    return words;
}();

/// Rank @p sender sends prefixes of @p source, which holds the pattern of @p seed.
void send_prefixes(Test &t, int sender, std::span<const std::byte> source, std::uint64_t seed,
                   std::string_view what)
{
    for (const std::size_t wanted : lengths) {
        const std::size_t bytes = std::min(wanted, source.size());
        if (t.rank() == sender) {
            send(source.first(bytes), t.peer());
        } else {
            std::vector<std::byte> data(bytes);
            receive(data, t.peer());
            t.check(data, seed, what);
        }
    }
}

/// Sending needs no right to write: PROT_READ files, protected memory, constants.
void read_only(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (int sender = 0; sender < 2; ++sender) {
        const std::uint64_t seed = t.next_seed();
        const TemporaryFile file(longest);
        std::vector<std::byte> contents(longest);
        pattern::fill(contents, seed);
        file.write(contents);
        // A descriptor without write access, so that the mapping can never become writable.
        const int fd = open(("/proc/self/fd/" + std::to_string(file.fd())).c_str(), O_RDONLY);
        const Mapping shared(fd >= 0 ? fd : file.fd(), longest, PROT_READ, MAP_SHARED);
        send_prefixes(t, sender, shared.slice(0, longest), seed, "from a shared read-only file");
        const Mapping own(file.fd(), longest, PROT_READ, MAP_PRIVATE);
        send_prefixes(t, sender, own.slice(0, longest), seed, "from a private read-only file");
        if (fd >= 0) {
            close(fd);
        }

        const Mapping anonymous(longest);
        pattern::fill(anonymous.slice(0, longest), seed + 1);
        anonymous.protect(PROT_READ);
        send_prefixes(t, sender, anonymous.slice(0, longest), seed + 1, "from mprotected memory");
        send_prefixes(t, sender, std::as_bytes(std::span(constants)), constant_seed,
                      "from the program's constants");
    }
}

/// The receiver's pages belong to a file: what arrives must be found in the file.
void shared_file(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (int sender = 0; sender < 2; ++sender) {
        const TemporaryFile file(longest);
        const Mapping mapping(file.fd(), longest, PROT_READ | PROT_WRITE, MAP_SHARED);
        for (const std::size_t bytes : lengths) {
            const std::uint64_t seed = t.next_seed();
            if (t.rank() == sender) {
                // Contents come in through the file, not through the mapping.
                std::vector<std::byte> contents(bytes);
                pattern::fill(contents, seed);
                file.write(contents);
                send(mapping.slice(0, bytes), t.peer());
                continue;
            }
            receive(mapping.slice(0, bytes), t.peer());
            t.check(mapping.slice(0, bytes), seed, "in a shared file mapping");
            auto contents = file.read(bytes);
            t.check(contents, seed, "read back from the file");
            // Written back and dropped from memory: the next message has to fault anew, and the
            // bytes must have been noted as dirty to survive.
            if (msync(mapping.data(), pages(bytes), MS_SYNC) != 0) {
                die("msync");
            }
            madvise(mapping.data(), pages(bytes), MADV_DONTNEED);
            t.check(mapping.slice(0, bytes), seed, "in the file mapping after write-back");
        }
    }
}

/// A file that both ranks' messages use through two mappings of the same pages.
void memfd_aliases(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    const int fd = memfd_create("odp_mpi_tests", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 2 * longest) != 0) {
        die("memfd_create");
    }
    const Mapping first(fd, 2 * longest, PROT_READ | PROT_WRITE, MAP_SHARED);
    const Mapping second(fd, 2 * longest, PROT_READ | PROT_WRITE, MAP_SHARED);
    close(fd);
    for (const std::size_t bytes : lengths) {
        const std::uint64_t seed = t.next_seed();
        pattern::fill(first.slice(0, bytes), seed + t.rank());         // written through one alias,
        MPI_Request request = isend(second.slice(0, bytes), t.peer()); // sent from the other
        receive(first.slice(longest, bytes), t.peer());
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        t.check(second.slice(longest, bytes), seed + t.peer(), "seen through the other alias");
    }
}

/// A file cut short and grown again between messages: the old pages must not be used.
void truncated_file(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    const TemporaryFile file(longest);
    const Mapping mapping(file.fd(), longest, PROT_READ | PROT_WRITE, MAP_SHARED);
    for (int i = 0; i < 6 * t.effort(); ++i) {
        const std::uint64_t seed = t.next_seed();
        const int sender = i % 2;
        if (t.rank() == sender) {
            pattern::fill(mapping.slice(0, longest), seed);
            send(mapping.slice(0, longest), t.peer());
        } else {
            receive(mapping.slice(0, longest), t.peer());
            auto contents = file.read(longest);
            t.check(contents, seed, "in a file that was truncated before");
        }
        if (ftruncate(file.fd(), 0) != 0 ||
            ftruncate(file.fd(), static_cast<off_t>(longest)) != 0) {
            die("ftruncate");
        }
    }
}

/// Rights taken and given between messages.
void mprotect_flips(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    const Mapping out(longest);
    const Mapping in(longest);
    for (int i = 0; i < 4 * t.effort(); ++i) {
        for (const std::size_t bytes : lengths) {
            const std::uint64_t seed = t.next_seed();
            pattern::fill(out.slice(0, bytes), seed + t.rank());
            out.protect(PROT_READ);
            MPI_Request request = isend(out.slice(0, bytes), t.peer());
            receive(in.slice(0, bytes), t.peer());
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            in.protect(PROT_NONE);
            out.protect(PROT_NONE);
            in.protect(PROT_READ | PROT_WRITE);
            out.protect(PROT_READ | PROT_WRITE);
            t.check(in.slice(0, bytes), seed + t.peer(), "in flipped pages");
        }
    }
}

const Register r1{{"read_only", 2, read_only, "sending from read-only pages of four kinds"}};
const Register r2{{"shared_file", 2, shared_file, "messages out of and into a file's pages"}};
const Register r3{{"memfd_aliases", 2, memfd_aliases, "two mappings of the same pages"}};
const Register r4{{"truncate", 2, truncated_file, "a mapped file truncated and grown again"}};
const Register r5{{"mprotect", 2, mprotect_flips, "mprotect between and during messages"}};

} // namespace
