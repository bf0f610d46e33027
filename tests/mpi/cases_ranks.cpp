// SPDX-License-Identifier: BSD-3-Clause
//
// All ranks at once: every pair talks, and the collectives over it.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <numeric>

namespace {

using namespace mpitest;

constexpr std::size_t lengths[] = {0, 1, 1000, 30000, 300000};

/// Contents that only this pair, this round has.
std::uint64_t pair_seed(std::uint64_t seed, int from, int to)
{
    return seed + static_cast<unsigned>(from) * 64 + static_cast<unsigned>(to);
}

/// Everyone to everyone, first contact of all pairs included.
void all_pairs(Test &t)
{
    for (const std::size_t bytes : lengths) {
        const std::uint64_t seed = t.next_seed();
        const auto size = static_cast<std::size_t>(t.size());
        std::vector<std::vector<std::byte>> out(size, std::vector<std::byte>(bytes));
        std::vector<std::vector<std::byte>> in(size, std::vector<std::byte>(bytes));
        std::vector<MPI_Request> requests;
        for (int r = 0; r < t.size(); ++r) {
            const auto i = static_cast<std::size_t>(r);
            pattern::fill(out[i], pair_seed(seed, t.rank(), r));
            requests.push_back(ireceive(in[i], r));
            requests.push_back(isend(out[i], r));
        }
        wait_all(requests);
        for (int r = 0; r < t.size(); ++r) {
            t.check(in[static_cast<std::size_t>(r)], pair_seed(seed, r, t.rank()),
                    "message of a pair");
        }
    }
}

void broadcast(Test &t)
{
    for (const std::size_t bytes : lengths) {
        for (int root = 0; root < t.size(); ++root) {
            const std::uint64_t seed = t.next_seed();
            std::vector<std::byte> data(bytes);
            if (t.rank() == root) {
                pattern::fill(data, seed);
            }
            MPI_Bcast(data.data(), static_cast<int>(bytes), MPI_BYTE, root, MPI_COMM_WORLD);
            t.check(data, seed, "broadcast");
        }
    }
}

void all_to_all(Test &t)
{
    const auto size = static_cast<std::size_t>(t.size());
    for (const std::size_t bytes : lengths) {
        const std::uint64_t seed = t.next_seed();
        std::vector<std::byte> out(bytes * size);
        std::vector<std::byte> in(bytes * size);
        const int count = static_cast<int>(bytes);
        const auto part = [bytes](std::vector<std::byte> &all, int r) {
            return std::span<std::byte>(all).subspan(static_cast<std::size_t>(r) * bytes, bytes);
        };
        for (int r = 0; r < t.size(); ++r) {
            pattern::fill(part(out, r), pair_seed(seed, t.rank(), r));
        }
        MPI_Alltoall(out.data(), count, MPI_BYTE, in.data(), count, MPI_BYTE, MPI_COMM_WORLD);
        for (int r = 0; r < t.size(); ++r) {
            t.check(part(in, r), pair_seed(seed, r, t.rank()), "all-to-all");
        }
        MPI_Allgather(part(out, 0).data(), count, MPI_BYTE, in.data(), count, MPI_BYTE,
                      MPI_COMM_WORLD);
        for (int r = 0; r < t.size(); ++r) {
            t.check(part(in, r), pair_seed(seed, r, 0), "all-gather");
        }
        MPI_Scatter(out.data(), count, MPI_BYTE, in.data(), count, MPI_BYTE, 1, MPI_COMM_WORLD);
        t.check(part(in, 0), pair_seed(seed, 1, t.rank()), "scatter");
    }
}

/// Lengths that differ from pair to pair, none at all between some.
void all_to_all_v(Test &t)
{
    const auto size = static_cast<std::size_t>(t.size());
    const std::uint64_t seed = t.next_seed();
    const auto bytes_of = [&](int from, int to) {
        const std::uint64_t draw = pattern::word(pair_seed(seed, from, to), 1);
        return draw % 4 == 0 ? 0 : static_cast<int>(draw / 4 % 60000);
    };
    std::vector<int> out_counts(size), in_counts(size), out_at(size), in_at(size);
    for (int r = 0; r < t.size(); ++r) {
        out_counts[static_cast<std::size_t>(r)] = bytes_of(t.rank(), r);
        in_counts[static_cast<std::size_t>(r)] = bytes_of(r, t.rank());
    }
    std::exclusive_scan(out_counts.begin(), out_counts.end(), out_at.begin(), 0);
    std::exclusive_scan(in_counts.begin(), in_counts.end(), in_at.begin(), 0);
    std::vector<std::byte> out(static_cast<std::size_t>(out_at.back() + out_counts.back()));
    std::vector<std::byte> in(static_cast<std::size_t>(in_at.back() + in_counts.back()));
    const auto part = [](std::vector<std::byte> &all, int at, int bytes) {
        return std::span<std::byte>(all).subspan(static_cast<std::size_t>(at),
                                                 static_cast<std::size_t>(bytes));
    };
    for (std::size_t r = 0; r < size; ++r) {
        pattern::fill(part(out, out_at[r], out_counts[r]),
                      pair_seed(seed, t.rank(), static_cast<int>(r)));
    }
    MPI_Alltoallv(out.data(), out_counts.data(), out_at.data(), MPI_BYTE, in.data(),
                  in_counts.data(), in_at.data(), MPI_BYTE, MPI_COMM_WORLD);
    for (std::size_t r = 0; r < size; ++r) {
        t.check(part(in, in_at[r], in_counts[r]), pair_seed(seed, static_cast<int>(r), t.rank()),
                "all-to-all of different lengths");
    }
}

void reductions(Test &t)
{
    for (const int count : {1, 100, 20000}) {
        std::vector<std::uint64_t> mine(static_cast<std::size_t>(count));
        std::vector<std::uint64_t> sum(mine.size());
        std::vector<std::uint64_t> expected(mine.size());
        const std::uint64_t seed = t.next_seed();
        for (std::size_t i = 0; i < mine.size(); ++i) {
            mine[i] = pattern::word(seed + static_cast<unsigned>(t.rank()), i);
            for (int r = 0; r < t.size(); ++r) {
                expected[i] += pattern::word(seed + static_cast<unsigned>(r), i);
            }
        }
        const auto judge = [&](const char *what) {
            for (std::size_t i = 0; i < sum.size(); ++i) {
                if (sum[i] != expected[i]) {
                    t.fail("%s of %d: element %zu: expected %llx, got %llx", what, count, i,
                           static_cast<unsigned long long>(expected[i]),
                           static_cast<unsigned long long>(sum[i]));
                    return;
                }
            }
        };
        MPI_Allreduce(mine.data(), sum.data(), count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        judge("MPI_Allreduce");
        std::fill(sum.begin(), sum.end(), 0);
        MPI_Reduce(mine.data(), sum.data(), count, MPI_UINT64_T, MPI_SUM, t.size() - 1,
                   MPI_COMM_WORLD);
        if (t.rank() == t.size() - 1) {
            judge("MPI_Reduce");
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

const Register r1{{"all_pairs", 2, all_pairs, "every pair of ranks at once, self included"}};
const Register r2{{"broadcast", 2, broadcast, "MPI_Bcast from each root"}};
const Register r3{{"all_to_all", 2, all_to_all, "MPI_Alltoall, Allgather, Scatter"}};
const Register r4{{"all_to_all_v", 2, all_to_all_v, "MPI_Alltoallv with lengths that differ"}};
const Register r5{{"reductions", 2, reductions, "MPI_Allreduce, Reduce, Barrier", Case::no_bytes}};

} // namespace
