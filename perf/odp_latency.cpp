// SPDX-License-Identifier: BSD-3-Clause
//
// Half the round trip of MPI_Send/MPI_Recv between two ranks, as osu_latency measures it.
#include "mpi_c.hpp"
#include "pattern.hpp"
#include "session.hpp"

namespace {

using namespace perf;

class Latency {
public:
    explicit Latency(const Session &session)
        : session_(session),
          options_(session.options()),
          validator_(session),
          out_(options_.max_size),
          in_(options_.max_size)
    {
    }

    /// Average one-way time in microseconds.
    double measure(std::size_t size)
    {
        session_.barrier();
        const double seconds = options_.validate ? validated(size) : plain(size);
        return seconds * 1e6 / (2.0 * options_.iterations_for(size));
    }

    std::uint64_t errors() const { return validator_.errors(); }

private:
    double plain(std::size_t size)
    {
        const int skip = options_.skip_for(size);
        const int rounds = skip + options_.iterations_for(size);
        double start = MPI_Wtime();
        for (int i = 0; i < rounds; ++i) {
            if (i == skip) {
                start = MPI_Wtime();
            }
            ping_pong(size);
        }
        return MPI_Wtime() - start;
    }

    /// Every message has its own contents, so each iteration is timed by itself, without filling
    /// and checking, and after rounds that absorb the wait for the peer's checking.
    double validated(std::size_t size)
    {
        const int skip = options_.skip_for(size);
        const int rounds = skip + options_.iterations_for(size);
        double total = 0;
        for (int i = 0; i < rounds; ++i) {
            const std::uint64_t seed = seed_ += 2;
            pattern::fill(out_.slice(0, size), seed + session_.rank());
            for (int w = 0; w < options_.validation_warmup; ++w) {
                ping_pong(size);
            }
            const double start = MPI_Wtime();
            ping_pong(size);
            if (i >= skip) {
                total += MPI_Wtime() - start;
            }
            validator_.check(in_.slice(0, size), seed + session_.peer());
        }
        return total;
    }

    void ping_pong(std::size_t size)
    {
        const int count = static_cast<int>(size);
        if (session_.rank() == 0) {
            MPI_Send(out_.data(), count, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in_.data(), count, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in_.data(), count, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out_.data(), count, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }

    const Session &session_;
    const Options &options_;
    Validator validator_;
    Buffer out_;
    Buffer in_;
    std::uint64_t seed_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
    Session session(argc, argv);
    if (auto code = session.parse(Kind::latency, argc, argv)) {
        return *code;
    }
    const Options &options = session.options();
    Report report(session, Kind::latency);
    warn_if_sharing_a_cpu(session);
    Latency latency(session);
    for (std::size_t size = options.min_size; size <= options.max_size;
         size = size ? 2 * size : 1) {
        const double value = latency.measure(size);
        if (!report.row(size, value, latency.errors())) {
            break;
        }
    }
    return report.exit_code();
}
