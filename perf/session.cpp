// SPDX-License-Identifier: BSD-3-Clause
#include "session.hpp"

#include "mpi_c.hpp"
#include "pattern.hpp"

#include <cstdio>
#include <cstring>
#include <string_view>
#include <unistd.h>

namespace perf {

Session::Session(int &argc, char **&argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

Session::~Session()
{
    MPI_Finalize();
}

std::optional<int> Session::parse(Kind kind, int argc, char **argv)
{
    const char *slash = std::strrchr(argv[0], '/');
    const std::string program = slash ? slash + 1 : argv[0];
    auto parsed = perf::parse(kind, argc, argv);
    std::string error;
    if (const auto *text = std::get_if<std::string>(&parsed)) {
        error = *text;
    } else {
        options_ = std::get<Options>(parsed);
    }
    if (error.empty() && options_.help) {
        if (rank_ == 0) {
            std::fputs(usage(kind, program).c_str(), stdout);
        }
        return EXIT_SUCCESS;
    }
    if (error.empty() && size_ != 2) {
        error = "needs exactly 2 processes, got " + std::to_string(size_) +
                "; start it with mpirun -n 2";
    }
    if (error.empty()) {
        return std::nullopt;
    }
    if (rank_ == 0) {
        std::fprintf(stderr, "%s: %s\n", program.c_str(), error.c_str());
    }
    return EXIT_FAILURE;
}

void Session::barrier() const
{
    MPI_Barrier(MPI_COMM_WORLD);
}

std::uint64_t Session::sum(std::uint64_t value) const
{
    std::uint64_t total = 0;
    MPI_Allreduce(&value, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

Buffer::Buffer(std::size_t bytes)
{
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t rounded = std::max(page, (bytes + page - 1) / page * page);
    data_.reset(static_cast<std::byte *>(std::aligned_alloc(page, rounded)));
    if (!data_) {
        std::fprintf(stderr, "cannot allocate %zu bytes of message buffers; use smaller -m or -W\n",
                     rounded);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    std::memset(data_.get(), 'a', rounded);
}

Validator::Validator(const Session &session) : rank_(session.rank())
{
    if (const char *from = std::getenv("ODP_PERF_CORRUPT")) {
        corrupt_from_ = std::strtoull(from, nullptr, 10);
    }
}

void Validator::check(std::span<std::byte> message, std::uint64_t seed)
{
    if (corrupt_from_ && !message.empty() && message.size() >= *corrupt_from_) {
        message[message.size() / 2] ^= std::byte{1};
    }
    const auto wrong = pattern::check(message, seed);
    if (!wrong) {
        return;
    }
    if (errors_++ == 0) {
        std::fprintf(stderr,
                     "rank %d: wrong byte at offset %zu of %zu: expected 0x%02x, got 0x%02x "
                     "(seed %llu)\n",
                     rank_, wrong->offset, message.size(),
                     std::to_integer<unsigned>(wrong->expected),
                     std::to_integer<unsigned>(wrong->got), static_cast<unsigned long long>(seed));
    }
}

Report::Report(const Session &session, Kind kind) : session_(session)
{
    if (session.rank() != 0) {
        return;
    }
    const bool latency = kind == Kind::latency;
    std::printf("# ODP MPI %s Test (OSU micro-benchmarks 7 format)\n",
                latency ? "Latency" : "Bandwidth");
    std::printf("# Datatype: MPI_CHAR.\n");
    std::printf("%-10s%20s", "# Size", latency ? "Avg Latency(us)" : "Bandwidth (MB/s)");
    std::printf(session.options().validate ? "%20s\n" : "\n", "Validation");
    std::fflush(stdout);
}

bool Report::row(std::size_t size, double value, std::uint64_t errors)
{
    const bool validate = session_.options().validate;
    const bool bad = validate && session_.sum(errors) != 0;
    failed_ = failed_ || bad;
    if (session_.rank() == 0) {
        std::printf("%-10zu%20.2f", size, value);
        if (validate) {
            std::printf("%20s", bad ? "Fail" : "Pass");
        }
        std::printf("\n");
        std::fflush(stdout);
        if (bad) {
            std::fprintf(stderr,
                         "DATA VALIDATION ERROR: messages of %zu bytes arrived with wrong "
                         "contents\n",
                         size);
        }
    }
    return !bad;
}

} // namespace perf
