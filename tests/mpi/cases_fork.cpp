// SPDX-License-Identifier: BSD-3-Clause
//
// fork() while messages are in flight. After it parent and child share every page until one of
// them writes; the messages belong to the parent, and the child's copy must stay as it was.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace mpitest;

enum class Child {
    exits,   ///< at once
    writes,  ///< over the whole buffer, then exits
    stays,   ///< the same, but lives through the transfer and finds its copy as it left it
    watches, ///< writes nothing, lives through the transfer and finds its copy as it was
    execs,   ///< /bin/true
    system,  ///< system("true") instead of fork
};

constexpr Child children[] = {Child::exits,   Child::writes, Child::stays,
                              Child::watches, Child::execs,  Child::system};
constexpr const char *names[] = {"child exits",   "child writes", "child stays",
                                 "child watches", "child execs",  "system()"};
constexpr std::byte child_paint{0xee};

/// Read one byte, or see the end of the pipe.
void wait_on(int fd)
{
    char byte;
    while (read(fd, &byte, 1) < 0) {
    }
}

/// Any changed byte changes it; memory in whole pages.
std::uint64_t digest(std::span<const std::byte> memory)
{
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < memory.size(); i += 8) {
        std::uint64_t word;
        std::memcpy(&word, memory.data() + i, 8);
        sum = (sum ^ word) * 0x100000001b3ull;
    }
    return sum;
}

/// A forked child and the pipes that pace it.
class Process {
public:
    Process(Child kind, std::span<std::byte> memory)
    {
        if (kind == Child::system) {
            status_ = std::system("true");
            return;
        }
        if (pipe(ready_) != 0 || pipe(finish_) != 0) {
            die("pipe");
        }
        pid_ = fork();
        if (pid_ < 0) {
            die("fork");
        }
        if (pid_ == 0) {
            child(kind, memory);
        }
        close(ready_[1]);
        close(finish_[0]);
        if (kind != Child::exits && kind != Child::execs) {
            wait_on(ready_[0]); // the child has written or read all of it
        }
    }

    /// Let the child end. True if it found its memory as it left it.
    bool join()
    {
        if (pid_ > 0) {
            close(finish_[1]);
            while (waitpid(pid_, &status_, 0) < 0) {
            }
            close(ready_[0]);
        }
        return WIFEXITED(status_) && WEXITSTATUS(status_) == 0;
    }

private:
    /// Only async-signal-safe calls: MPI may have threads, which are not here.
    [[noreturn]] void child(Child kind, std::span<std::byte> memory)
    {
        close(ready_[0]);
        close(finish_[1]);
        if (kind == Child::execs) {
            execl("/bin/true", "true", static_cast<char *>(nullptr));
            _exit(2);
        }
        if (kind == Child::exits) {
            _exit(0);
        }
        if (kind != Child::watches) {
            std::fill(memory.begin(), memory.end(), child_paint);
        }
        const std::uint64_t before = digest(memory);
        close(ready_[1]);
        if (kind != Child::writes) {
            wait_on(finish_[0]);
        }
        _exit(digest(memory) == before ? 0 : 1);
    }

    int ready_[2] = {-1, -1};
    int finish_[2] = {-1, -1};
    pid_t pid_ = 0;
    int status_ = 0;
};

/// Memory for several messages in flight. Of each page the first quarter is the program's own: it
/// writes there after the fork, which moves the page away from under the message's bytes.
class Flight {
public:
    static constexpr int small_count = 16;

    Flight() : own_(page_size() / 4), memory_((small_count + 1) * page_size() + large_bytes) {}

    std::span<std::byte> small(int i) const
    {
        return memory_.slice(static_cast<std::size_t>(i) * page_size() + own_, page_size() - own_);
    }
    std::span<std::byte> large() const
    {
        return memory_.slice(small_count * page_size() + own_, large_bytes);
    }
    std::span<std::byte> all() const { return memory_.slice(0, memory_.size()); }

    void write_own_parts(std::byte value) const
    {
        for (int i = 0; i <= small_count; ++i) {
            std::memset(memory_.data() + static_cast<std::size_t>(i) * page_size(),
                        std::to_integer<int>(value), own_);
        }
    }
    void check_own_parts(Test &t, std::byte value) const
    {
        for (int i = 0; i <= small_count; ++i) {
            t.check_untouched(memory_.slice(static_cast<std::size_t>(i) * page_size(), own_), value,
                              "the program's own part of a message's page");
        }
    }

    void fill(std::uint64_t seed) const
    {
        for (int i = 0; i < small_count; ++i) {
            pattern::fill(small(i), seed + static_cast<unsigned>(i));
        }
        pattern::fill(large(), seed + small_count);
    }
    void check(Test &t, std::uint64_t seed, const char *what) const
    {
        for (int i = 0; i < small_count; ++i) {
            t.check(small(i), seed + static_cast<unsigned>(i), what);
        }
        t.check(large(), seed + small_count, what);
    }
    std::vector<MPI_Request> isend_all(int to) const
    {
        std::vector<MPI_Request> requests;
        for (int i = 0; i < small_count; ++i) {
            requests.push_back(isend(small(i), to));
        }
        requests.push_back(isend(large(), to));
        return requests;
    }
    std::vector<MPI_Request> ireceive_all(int from) const
    {
        std::vector<MPI_Request> requests;
        for (int i = 0; i < small_count; ++i) {
            requests.push_back(ireceive(small(i), from));
        }
        requests.push_back(ireceive(large(), from));
        return requests;
    }

private:
    static constexpr std::size_t large_bytes = 2u << 20;
    std::size_t own_;
    Mapping memory_;
};

/// The forking rank has receives posted; nothing is sent before it has forked.
void fork_receiving(Test &t, Child kind, int forker)
{
    const std::uint64_t seed = t.next_seed();
    const Flight flight;
    const std::uint64_t earlier = t.next_seed();
    if (t.rank() != forker) {
        flight.fill(earlier);
        auto requests = flight.isend_all(t.peer());
        wait_all(requests);
        flight.fill(seed);
        take_token(t.peer());
        requests = flight.isend_all(t.peer());
        wait_all(requests);
        return;
    }
    // Before the fork the HCA has come to know these pages as writable.
    auto requests = flight.ireceive_all(t.peer());
    wait_all(requests);
    flight.check(t, earlier, "received before the fork");
    requests = flight.ireceive_all(t.peer());
    flight.write_own_parts(std::byte{1});
    Process process(kind, flight.all());
    flight.write_own_parts(std::byte{2});
    give_token(t.peer());
    wait_all(requests);
    const auto what = std::string("received across fork, ") + names[static_cast<int>(kind)];
    flight.check(t, seed, what.c_str());
    flight.check_own_parts(t, std::byte{2});
    t.expect(process.join(), "the child's copy of the buffer stays as the child left it");
}

/// The forking rank has sends in flight, the large one waiting for its receive.
void fork_sending(Test &t, Child kind, int forker)
{
    const std::uint64_t seed = t.next_seed();
    const Flight flight;
    if (t.rank() == forker) {
        flight.fill(seed);
        auto requests = flight.isend_all(t.peer());
        Process process(kind, flight.all());
        flight.write_own_parts(std::byte{3});
        give_token(t.peer());
        wait_all(requests);
        t.expect(process.join(), "the child's copy of the buffer stays as the child left it");
        return;
    }
    take_token(t.peer());
    auto requests = flight.ireceive_all(t.peer());
    wait_all(requests);
    const auto what = std::string("sent across fork, ") + names[static_cast<int>(kind)];
    flight.check(t, seed, what.c_str());
}

template <void (*scenario)(Test &, Child, int)> void for_all_children(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (int i = 0; i < t.effort(); ++i) {
        for (const Child kind : children) {
            for (int forker = 0; forker < 2; ++forker) {
                scenario(t, kind, forker);
            }
        }
    }
}

/// Both ranks fork again and again amid a stream of messages over the same buffers.
void fork_storm(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    constexpr std::size_t most = 1u << 20;
    const Mapping out(most);
    const Mapping in(most);
    for (int i = 0; i < 30 * t.effort(); ++i) {
        const std::size_t bytes = t.draw(1, std::size_t{1} << t.draw(8, 20));
        const Child kind = children[t.draw(0, 4)];
        const std::uint64_t seed = t.next_seed();
        pattern::fill(out.slice(0, bytes), seed + t.rank());
        MPI_Request requests[] = {ireceive(in.slice(0, bytes), t.peer()),
                                  isend(out.slice(0, bytes), t.peer())};
        // The one side forks while the other's data may be arriving.
        Process process(kind, in.slice(0, bytes));
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        t.check(in.slice(0, bytes), seed + t.peer(), "message amid forks");
        t.expect(process.join(), "the child's copy of the buffer stays as the child left it");
    }
}

const Register r1{{"fork_receive", 2, for_all_children<fork_receiving>,
                   "fork with receives in flight, six kinds of child"}};
const Register r2{{"fork_send", 2, for_all_children<fork_sending>,
                   "fork with sends in flight, six kinds of child"}};
const Register r3{{"fork_storm", 2, fork_storm, "forks amid a stream of messages"}};

} // namespace
