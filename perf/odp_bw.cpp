// SPDX-License-Identifier: BSD-3-Clause
//
// Bandwidth of windows of MPI_Isend/MPI_Irecv from rank 0 to rank 1, as osu_bw measures it.
#include "mpi_c.hpp"
#include "pattern.hpp"
#include "session.hpp"

#include <vector>

namespace {

using namespace perf;

class Bandwidth {
public:
    explicit Bandwidth(const Session &session)
        : session_(session),
          options_(session.options()),
          validator_(session),
          buffer_(options_.max_size * (options_.multiple_buffers ? options_.window : 1)),
          requests_(options_.window)
    {
    }

    /// MB/s (10^6 bytes), known on rank 0.
    double measure(std::size_t size)
    {
        const int skip = options_.skip_for(size);
        const int iterations = options_.iterations_for(size);
        double total = 0;
        double start = 0;
        session_.barrier();
        for (int i = 0; i < skip + iterations; ++i) {
            if (options_.validate) {
                total += validated(size, i >= skip);
                continue;
            }
            if (i == skip) {
                start = MPI_Wtime();
            }
            window(size);
        }
        if (!options_.validate) {
            total = MPI_Wtime() - start;
        }
        return static_cast<double>(size) / 1e6 * iterations * options_.window / total;
    }

    std::uint64_t errors() const { return validator_.errors(); }

private:
    /// Seconds of the timed window, which runs on fresh contents after warm-up windows.
    double validated(std::size_t size, bool timed)
    {
        const std::uint64_t seed = seed_ += options_.window;
        for (int j = 0; session_.rank() == 0 && j < options_.window; ++j) {
            pattern::fill(message(size, j), seed + j);
        }
        for (int w = 0; w < options_.validation_warmup; ++w) {
            window(size);
        }
        const double start = MPI_Wtime();
        window(size);
        const double seconds = MPI_Wtime() - start;
        for (int j = 0; session_.rank() == 1 && j < options_.window; ++j) {
            validator_.check(message(size, j), seed + j);
        }
        return timed ? seconds : 0;
    }

    std::span<std::byte> message(std::size_t size, int j)
    {
        return buffer_.slice(options_.multiple_buffers ? j * size : 0, size);
    }

    void window(std::size_t size)
    {
        const int count = static_cast<int>(size);
        char acknowledgement[4] = {};
        for (int j = 0; j < options_.window; ++j) {
            std::byte *data = message(size, j).data();
            if (session_.rank() == 0) {
                MPI_Isend(data, count, MPI_CHAR, 1, 100, MPI_COMM_WORLD, &requests_[j]);
            } else {
                MPI_Irecv(data, count, MPI_CHAR, 0, 100, MPI_COMM_WORLD, &requests_[j]);
            }
        }
        MPI_Waitall(options_.window, requests_.data(), MPI_STATUSES_IGNORE);
        if (session_.rank() == 0) {
            MPI_Recv(acknowledgement, 4, MPI_CHAR, 1, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(acknowledgement, 4, MPI_CHAR, 0, 101, MPI_COMM_WORLD);
        }
    }

    const Session &session_;
    const Options &options_;
    Validator validator_;
    Buffer buffer_;
    std::vector<MPI_Request> requests_;
    std::uint64_t seed_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
    Session session(argc, argv);
    if (auto code = session.parse(Kind::bandwidth, argc, argv)) {
        return *code;
    }
    const Options &options = session.options();
    Report report(session, Kind::bandwidth);
    warn_if_sharing_a_cpu(session);
    Bandwidth bandwidth(session);
    for (std::size_t size = options.min_size; size <= options.max_size;
         size = size ? 2 * size : 1) {
        const double value = bandwidth.measure(size);
        if (!report.row(size, value, bandwidth.errors())) {
            break;
        }
    }
    return report.exit_code();
}
