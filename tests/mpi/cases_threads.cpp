// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_THREAD_MULTIPLE: several threads of a rank in MPI at once, one more changing the address
// space under them.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

namespace {

using namespace mpitest;

/// One thread's stream of messages, both ways, on a tag of its own. Checks by itself, because
/// Test belongs to the main thread; the first wrong message is told by a text.
void stream(int rank, int tag, int count, std::uint64_t seed, std::vector<std::byte> &last,
            std::string &error)
{
    for (int i = 0; i < count && error.empty(); ++i) {
        const std::uint64_t contents = seed + static_cast<unsigned>(2 * i);
        const std::size_t bytes = 1 + pattern::word(contents, 3) % (i % 8 == 0 ? 300000 : 4000);
        const Mapping out(bytes);
        std::vector<std::byte> in(bytes);
        pattern::fill(out.slice(0, bytes), contents + static_cast<unsigned>(rank));
        MPI_Request request = isend(out.slice(0, bytes), 1 - rank, tag);
        receive(in, 1 - rank, tag);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (const auto wrong = pattern::check(in, contents + static_cast<unsigned>(1 - rank))) {
            error = "thread " + std::to_string(tag) + " message " + std::to_string(i) +
                    ": wrong byte at offset " + std::to_string(wrong->offset);
        }
        last = std::move(in);
    }
}

void threads(Test &t)
{
    int provided = MPI_THREAD_SINGLE;
    MPI_Query_thread(&provided);
    if (!t.threads() || provided != MPI_THREAD_MULTIPLE) {
        t.skip(t.threads() ? "this MPI grants no MPI_THREAD_MULTIPLE" : "needs --threads");
        return;
    }
    if (t.rank() > 1) {
        return;
    }
    constexpr std::size_t count = 3;
    const int messages = 40 * t.effort();
    const std::uint64_t seed = t.next_seed();
    std::vector<std::string> errors(count);
    std::vector<std::vector<std::byte>> last(count);
    std::atomic<bool> stop = false;
    std::thread churn([&stop] {
        while (!stop) {
            const Mapping mapping(64 * page_size());
            std::memset(mapping.data(), 1, mapping.size());
            std::this_thread::yield();
        }
    });
    std::vector<std::thread> workers;
    const auto seed_of = [seed](std::size_t i) { return seed + i * 1000003; };
    for (std::size_t i = 0; i < count; ++i) {
        workers.emplace_back(stream, t.rank(), static_cast<int>(i) + 200, messages, seed_of(i),
                             std::ref(last[i]), std::ref(errors[i]));
    }
    for (auto &worker : workers) {
        worker.join();
    }
    stop = true;
    churn.join();
    for (std::size_t i = 0; i < count; ++i) {
        if (!errors[i].empty()) {
            t.fail("%s", errors[i].c_str());
        }
        t.check(last[i], seed_of(i) + static_cast<unsigned>(2 * (messages - 1) + t.peer()),
                "last message of a thread");
    }
}

const Register r{{"threads", 2, threads, "MPI_THREAD_MULTIPLE (with --threads)"}};

} // namespace
