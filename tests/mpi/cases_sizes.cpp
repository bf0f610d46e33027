// SPDX-License-Identifier: BSD-3-Clause
//
// Every message length and the lengths at which MPI changes its protocol.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <vector>

namespace {

using namespace mpitest;

constexpr std::size_t largest = (64u << 20) + 1;

/// One message; guards, status and contents checked.
void one_way(Test &t, Guarded &out, Guarded &in, std::size_t bytes, int sender)
{
    const std::size_t out_shift = t.draw(0, 63);
    const std::size_t in_shift = t.draw(0, 63);
    const std::uint64_t seed = t.next_seed();
    if (t.rank() == sender) {
        const auto data = out.place(bytes, out_shift);
        pattern::fill(data, seed);
        send(data, t.peer());
        return;
    }
    const auto data = in.place(bytes, in_shift);
    const MPI_Status status = receive(data, t.peer());
    t.check_status(status, t.peer(), data_tag, bytes);
    t.check(data, seed, "message");
    t.check_untouched(in.front(), Guarded::paint, "bytes before the message");
    t.check_untouched(in.back(), Guarded::paint, "bytes after the message");
}

void both_ways(Test &t, Guarded &out, Guarded &in, std::size_t bytes)
{
    one_way(t, out, in, bytes, 0);
    one_way(t, out, in, bytes, 1);
}

void sizes(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    Guarded out(largest);
    Guarded in(largest);
    int sender = 0;
    for (const std::size_t bytes : size_classes(64u << 20)) {
        if (bytes > (2u << 20) && t.effort() == 1) { // time: one way, in turn
            sender = 1 - sender;
            one_way(t, out, in, bytes, sender);
            continue;
        }
        const int repetitions = bytes <= 65536 ? 3 * t.effort() : 1;
        for (int i = 0; i < repetitions; ++i) {
            both_ways(t, out, in, bytes);
        }
    }
}

/// Message headers count towards the limits, so the change comes somewhat below them.
void thresholds(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    constexpr std::size_t below = 136;
    constexpr std::size_t above = 8;
    Guarded out((4u << 20) + above);
    Guarded in((4u << 20) + above);
    for (const std::size_t limit : protocol_limits()) {
        // A step of 1 for what is cheap; header lengths are multiples of 8 at most 4 apart.
        const std::size_t step = limit <= 131072 ? 1 : 4;
        for (std::size_t bytes = limit - below; bytes <= limit + above; bytes += step) {
            both_ways(t, out, in, bytes);
        }
    }
}

/// A receive that is longer than the message, and random lengths back to back.
void random_sizes(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    const std::size_t capacity = 1u << 20;
    std::vector<std::byte> data(capacity);
    for (int i = 0; i < 300 * t.effort(); ++i) {
        const std::size_t bytes = t.draw(0, (std::size_t{1} << t.draw(0, 20)));
        const std::uint64_t seed = t.next_seed();
        const int sender = static_cast<int>(t.draw(0, 1));
        if (t.rank() == sender) {
            pattern::fill({data.data(), bytes}, seed);
            send({data.data(), bytes}, t.peer());
        } else {
            const MPI_Status status = receive(data, t.peer());
            t.check_status(status, t.peer(), data_tag, bytes);
            t.check({data.data(), bytes}, seed, "message of random length");
        }
    }
}

const Register r1{{"sizes", 2, sizes, "0 B..64 MiB: each power of two and its neighbours"}};
const Register r2{{"thresholds", 2, thresholds, "each length around the BTL's protocol limits"}};
const Register r3{{"random_sizes", 2, random_sizes, "random lengths into longer receives"}};

} // namespace
