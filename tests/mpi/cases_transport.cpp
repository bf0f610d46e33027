// SPDX-License-Identifier: BSD-3-Clause
//
// What the transport may not do: use sockets or shared memory between ranks, pin user memory, or
// hang when a rank is killed.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace mpitest;

/// Inode numbers of this process' sockets.
std::set<std::string> socket_inodes()
{
    std::set<std::string> inodes;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) {
        die("/proc/self/fd");
    }
    while (const dirent *entry = readdir(folder)) {
        char target[64] = {};
        const std::string path = std::string("/proc/self/fd/") + entry->d_name;
        if (readlink(path.c_str(), target, sizeof(target) - 1) > 0 &&
            std::strncmp(target, "socket:[", 8) == 0) {
            inodes.insert(std::string(target + 8, std::strcspn(target + 8, "]")));
        }
    }
    closedir(folder);
    return inodes;
}

struct Socket {
    unsigned local_port;
    unsigned remote_port;
    bool listening;
};

/// This process' TCP sockets, as /proc/net/tcp and tcp6 tell.
std::vector<Socket> tcp_sockets()
{
    const auto mine = socket_inodes();
    std::vector<Socket> sockets;
    for (const char *table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file(table);
        std::string line;
        std::getline(file, line); // headings
        while (std::getline(file, line)) {
            std::istringstream fields(line);
            std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
            fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
                timeout >> inode;
            if (!mine.contains(inode)) {
                continue;
            }
            const auto port = [](const std::string &address) {
                return static_cast<unsigned>(
                    std::strtoul(address.c_str() + address.rfind(':') + 1, nullptr, 16));
            };
            sockets.push_back({port(local), port(remote), state == "0A"});
        }
    }
    return sockets;
}

/// Every rank has talked to every other; then no TCP connection may join two ranks, no rank may
/// listen for one, and none may have a transport's shared memory mapped.
void no_other_path(Test &t)
{
    const std::vector<std::byte> out(300000);
    std::vector<std::byte> in(300000);
    for (int shift = 0; shift < t.size(); ++shift) {
        for (const std::size_t bytes : {std::size_t{100}, out.size()}) {
            MPI_Request request = isend(std::span(out).first(bytes), (t.rank() + shift) % t.size());
            receive(in, (t.rank() + t.size() - shift) % t.size());
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }

    const auto sockets = tcp_sockets();
    constexpr int most = 64;
    std::vector<unsigned> local(most);
    for (std::size_t i = 0; i < sockets.size() && i < most; ++i) {
        local[i] = sockets[i].local_port;
    }
    std::vector<unsigned> all(static_cast<std::size_t>(most * t.size()));
    MPI_Allgather(local.data(), most, MPI_UNSIGNED, all.data(), most, MPI_UNSIGNED, MPI_COMM_WORLD);
    for (const Socket &socket : sockets) {
        if (socket.listening) {
            t.fail("listens on TCP port %u", socket.local_port);
            continue;
        }
        // Connections to mpirun's daemon are its own business.
        if (socket.remote_port != 0 &&
            std::find(all.begin(), all.end(), socket.remote_port) != all.end()) {
            t.fail("TCP connection to another rank (port %u to %u)", socket.local_port,
                   socket.remote_port);
        }
    }

    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("/dev/shm/") != std::string::npos ||
            line.find("sm_segment") != std::string::npos ||
            line.find("vader_segment") != std::string::npos) {
            t.fail("shared memory mapped: %s", line.c_str() + line.find('/'));
        }
    }
}

/// A line of /proc/self/status in KiB.
long status_kib(const char *field)
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind(field, 0) == 0) {
            return std::strtol(line.c_str() + std::strlen(field) + 1, nullptr, 10);
        }
    }
    return -1;
}

/// Messages out of more and more memory must not add to the pinned or locked bytes.
void nothing_pinned(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    constexpr std::size_t bytes = 4u << 20;
    constexpr int count = 8;
    std::vector<Mapping> mappings;
    std::optional<long> pinned;
    std::optional<long> locked;
    for (int i = 0; i < count; ++i) {
        mappings.emplace_back(2 * bytes);
        const std::uint64_t seed = t.next_seed();
        const auto out = mappings.back().slice(0, bytes);
        const auto in = mappings.back().slice(bytes, bytes);
        pattern::fill(out, seed + t.rank());
        MPI_Request request = isend(out, t.peer());
        receive(in, t.peer());
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        t.check(in, seed + t.peer(), "message from memory that must not be pinned");
        // The first message may still set up a connection with its rings.
        if (!pinned) {
            pinned = status_kib("VmPin:");
            locked = status_kib("VmLck:");
            t.expect(*pinned >= 0 && *locked >= 0, "VmPin and VmLck in /proc/self/status");
        } else if (status_kib("VmPin:") > *pinned || status_kib("VmLck:") > *locked) {
            t.fail("after %d messages of %zu bytes: pinned %ld KiB (before: %ld), locked %ld KiB "
                   "(before: %ld)",
                   i + 1, bytes, status_kib("VmPin:"), *pinned, status_kib("VmLck:"), *locked);
            return;
        }
    }
}

/// Rank 1 kills itself with large messages half done. What follows is the job's to show: it has to
/// end with an error, soon. Rank 0 never comes back from here in a working MPI.
void killed_peer(Test &t)
{
    constexpr std::size_t bytes = 32u << 20;
    std::vector<std::byte> out(bytes);
    std::vector<std::byte> in(bytes);
    for (int i = 0; i < 1000; ++i) {
        MPI_Request requests[] = {ireceive(in, t.peer()), isend(out, t.peer())};
        if (t.rank() == 1 && i == 1) {
            int flag = 0;
            MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
            std::fprintf(stderr, "# killed_peer: rank 1 kills itself\n");
            std::raise(SIGKILL);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    t.fail("1000 messages with a rank that was killed");
}

/// A buffer that the program may not touch: the job has to end with an error that names it.
template <bool sending> void bad_address(Test &t)
{
    constexpr std::size_t bytes = 1u << 20;
    const Mapping forbidden(bytes);
    std::vector<std::byte> good(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const bool bad_side = t.rank() == (sending ? 0 : 1);
    if (bad_side) {
        forbidden.protect(PROT_NONE);
        std::fprintf(stderr, "# bad_address: rank %d uses %p\n", t.rank(),
                     static_cast<void *>(forbidden.data()));
    }
    const std::span<std::byte> data(bad_side ? forbidden.data() : good.data(), bytes);
    if (t.rank() == 0) {
        send(data, 1);
    } else if (t.rank() == 1) {
        receive(data, 0);
    }
    if (bad_side) {
        t.fail("a message %s inaccessible memory ended without an error",
               sending ? "from" : "into");
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

const Register r1{{"no_other_path", 2, no_other_path,
                   "no sockets or shared memory between ranks (fails over tcp and sm)",
                   Case::by_name | Case::no_bytes}};
const Register r2{{"nothing_pinned", 2, nothing_pinned, "no user memory is pinned"}};
const Register r3{{"killed_peer", 2, killed_peer, "rank 1 kills itself; the job has to end",
                   Case::by_name | Case::no_bytes}};
const Register r4{{"bad_send_address", 2, bad_address<true>,
                   "sends from PROT_NONE memory; the job has to end",
                   Case::by_name | Case::no_bytes}};
const Register r5{{"bad_recv_address", 2, bad_address<false>,
                   "receives into PROT_NONE memory; the job has to end",
                   Case::by_name | Case::no_bytes}};

} // namespace
