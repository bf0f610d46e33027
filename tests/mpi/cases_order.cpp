// SPDX-License-Identifier: BSD-3-Clause
//
// Matching and ordering: unexpected messages, many outstanding ones, wildcards, probes.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <cstring>

namespace {

using namespace mpitest;

struct Message {
    std::vector<std::byte> data;
    std::uint64_t seed;
};

/// Messages of mixed lengths, small ones mostly; equal on all ranks.
std::vector<Message> draw_messages(Test &t, int count, std::size_t max_log2)
{
    std::vector<Message> messages;
    for (int i = 0; i < count; ++i) {
        const std::size_t log2 = t.draw(0, i % 16 == 0 ? max_log2 : 12);
        messages.push_back(
            {std::vector<std::byte>(t.draw(0, std::size_t{1} << log2)), t.next_seed()});
    }
    return messages;
}

void fill(std::vector<Message> &messages)
{
    for (auto &message : messages) {
        pattern::fill(message.data, message.seed);
    }
}

void check(Test &t, std::vector<Message> &messages, std::string_view what)
{
    for (auto &message : messages) {
        t.check(message.data, message.seed, what);
    }
}

/// All messages have arrived before the first receive, which come in reverse order.
void unexpected(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (int sender = 0; sender < 2; ++sender) {
        auto messages = draw_messages(t, 200, 18);
        if (t.rank() == sender) {
            fill(messages);
            std::vector<MPI_Request> requests;
            for (std::size_t i = 0; i < messages.size(); ++i) {
                requests.push_back(isend(messages[i].data, t.peer(), static_cast<int>(i) + 100));
            }
            give_token(t.peer());
            wait_all(requests);
        } else {
            take_token(t.peer());
            for (std::size_t i = messages.size(); i-- > 0;) {
                receive(messages[i].data, t.peer(), static_cast<int>(i) + 100);
            }
            check(t, messages, "unexpected message");
        }
    }
}

/// 1000 sends and 1000 receives in flight at once, both ways, of equal tag: order must hold.
void outstanding(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (const bool expected : {true, false}) {
        auto first = draw_messages(t, 1000, 18);
        auto second = draw_messages(t, 1000, 18);
        auto &out = t.rank() == 0 ? first : second;
        auto &in = t.rank() == 0 ? second : first;
        fill(out);
        std::vector<MPI_Request> requests;
        for (auto &message : in) {
            if (expected) {
                requests.push_back(ireceive(message.data, t.peer()));
            }
        }
        for (auto &message : out) {
            requests.push_back(isend(message.data, t.peer()));
        }
        for (auto &message : in) {
            if (!expected) {
                requests.push_back(ireceive(message.data, t.peer()));
            }
        }
        wait_all(requests);
        check(t, in, "one of 1000 outstanding messages");
    }
}

/// Large messages cross each other: both sides send before either receives.
void bidirectional(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{65536},
                                    std::size_t{1} << 20, std::size_t{8} << 20}) {
        std::vector<std::byte> out(bytes);
        std::vector<std::byte> in(bytes);
        const std::uint64_t seed = t.next_seed();
        pattern::fill(out, seed + t.rank());
        MPI_Request request = isend(out, t.peer());
        receive(in, t.peer());
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        t.check(in, seed + t.peer(), "crossing message");
    }
}

/// Rank 0 takes whatever comes; from each source it must come in the order of sending.
void any_source(Test &t)
{
    const int count = 100 * t.effort();
    const std::size_t max = 65536;
    std::vector<std::byte> data(max);
    const auto seed_of = [&t](int source, int number) {
        return static_cast<std::uint64_t>(source) * 1000003 + static_cast<unsigned>(number) +
               static_cast<unsigned>(t.size());
    };
    const auto bytes_of = [&](int source, int number) {
        return pattern::word(seed_of(source, number), 7) % (number % 10 == 0 ? max : 2048);
    };
    if (t.rank() != 0) {
        for (int i = 0; i < count; ++i) {
            const std::span<std::byte> message(data.data(), bytes_of(t.rank(), i));
            pattern::fill(message, seed_of(t.rank(), i));
            send(message, 0, 1000 + i);
        }
        return;
    }
    std::vector<int> next(static_cast<std::size_t>(t.size()));
    for (int i = 0; i < count * (t.size() - 1); ++i) {
        const MPI_Status status = receive(data, MPI_ANY_SOURCE, MPI_ANY_TAG);
        const int source = status.MPI_SOURCE;
        if (source < 1 || source >= t.size()) {
            t.fail("message from source %d of %d", source, t.size());
            continue;
        }
        const int number = next[static_cast<std::size_t>(source)]++;
        t.check_status(status, source, 1000 + number, bytes_of(source, number));
        t.check({data.data(), bytes_of(source, number)}, seed_of(source, number),
                "message from any source");
    }
}

void ring(Test &t)
{
    const int right = (t.rank() + 1) % t.size();
    const int left = (t.rank() + t.size() - 1) % t.size();
    for (int i = 0; i < 40 * t.effort(); ++i) {
        const std::size_t bytes = t.draw(0, std::size_t{1} << t.draw(0, 19));
        std::vector<std::byte> out(bytes);
        std::vector<std::byte> in(bytes);
        const std::uint64_t seed = t.next_seed();
        pattern::fill(out, seed + t.rank());
        MPI_Status status;
        MPI_Sendrecv(out.data(), static_cast<int>(bytes), MPI_BYTE, right, i, in.data(),
                     static_cast<int>(bytes), MPI_BYTE, left, i, MPI_COMM_WORLD, &status);
        t.check_status(status, left, i, bytes);
        t.check(in, seed + left, "message of the ring");
    }
}

void persistent(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (const int bytes : {64, 3000, 100000}) {
        std::vector<std::byte> out(static_cast<std::size_t>(bytes));
        std::vector<std::byte> in(static_cast<std::size_t>(bytes));
        MPI_Request requests[2];
        MPI_Recv_init(in.data(), bytes, MPI_BYTE, t.peer(), data_tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Send_init(out.data(), bytes, MPI_BYTE, t.peer(), data_tag, MPI_COMM_WORLD,
                      &requests[1]);
        for (int i = 0; i < 20 * t.effort(); ++i) {
            const std::uint64_t seed = t.next_seed();
            pattern::fill(out, seed + t.rank());
            MPI_Startall(2, requests);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            t.check(in, seed + t.peer(), "persistent message");
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}

/// The receiver learns lengths by MPI_Probe and MPI_Mprobe in turn, MPI_Iprobe included.
void probe(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    auto messages = draw_messages(t, 60 * t.effort(), 18);
    if (t.rank() == 0) {
        fill(messages);
        for (const auto &message : messages) {
            send(message.data, 1);
        }
        return;
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
        auto &message = messages[i];
        MPI_Status status;
        MPI_Message matched;
        int found = i % 3 != 2;
        if (i % 3 == 0) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        } else if (i % 3 == 1) {
            MPI_Mprobe(0, data_tag, MPI_COMM_WORLD, &matched, &status);
        }
        while (!found) {
            MPI_Iprobe(0, data_tag, MPI_COMM_WORLD, &found, &status);
        }
        t.check_status(status, 0, data_tag, message.data.size());
        if (i % 3 == 1) {
            MPI_Mrecv(message.data.data(), static_cast<int>(message.data.size()), MPI_BYTE,
                      &matched, &status);
        } else {
            receive(message.data, 0);
        }
        t.check(message.data, message.seed, "probed message");
    }
}

const Register r1{{"unexpected", 2, unexpected, "messages received in reverse after all came"}};
const Register r2{{"outstanding", 2, outstanding, "1000 Isends and 1000 Irecvs at once each way"}};
const Register r3{{"bidirectional", 2, bidirectional, "messages crossing each other, to 8 MiB"}};
const Register r4{{"any_source", 2, any_source, "order per source through wildcards"}};
const Register r5{{"ring", 2, ring, "MPI_Sendrecv around all ranks"}};
const Register r6{{"persistent", 2, persistent, "persistent requests over changing contents"}};
const Register r7{{"probe", 2, probe, "Probe, Mprobe, Iprobe"}};

} // namespace
