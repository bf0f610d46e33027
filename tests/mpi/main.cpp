// SPDX-License-Identifier: BSD-3-Clause
//
// odp_mpi_tests: MPI tests with checked contents. They hold for any MPI over any transport; what
// they look for is what on-demand paging could get wrong. Start under mpirun with 2 ranks or more.
#include "harness.hpp"

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <unistd.h>

namespace {

using namespace mpitest;

char watchdog_text[160];

/// Async-signal-safe: a rank that is stuck inside MPI can still say so, and end the job.
void on_alarm(int)
{
    [[maybe_unused]] auto n = write(STDERR_FILENO, watchdog_text, std::strlen(watchdog_text));
    _exit(EXIT_FAILURE);
}

void arm_watchdog(const Case &test, const Options &options, int rank)
{
    std::snprintf(watchdog_text, sizeof(watchdog_text),
                  "not ok %s: rank %d still in it after %u s (--timeout)\n", test.name, rank,
                  options.timeout_s);
    std::signal(SIGALRM, on_alarm);
    alarm(options.timeout_s);
}

struct Counts {
    int passed = 0;
    int failed = 0;
    int skipped = 0;
};

/// The text of the lowest rank that has one; the same on all ranks.
std::string first_text(const std::string &mine, int rank, int size)
{
    int candidate = mine.empty() ? size : rank;
    int owner = size;
    MPI_Allreduce(&candidate, &owner, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    char text[512] = {};
    if (owner < size) {
        std::snprintf(text, sizeof(text), "%s", mine.c_str());
        MPI_Bcast(text, sizeof(text), MPI_CHAR, owner, MPI_COMM_WORLD);
    }
    return text;
}

void run(const Case &test, const Options &options, int rank, int size, Counts &counts)
{
    if (size < test.min_ranks || (options.corrupt && (test.flags & Case::no_bytes))) {
        counts.skipped++;
        if (rank == 0) {
            std::printf("skip %s: %s\n", test.name,
                        size < test.min_ranks ? "needs more ranks" : "has no contents to spoil");
        }
        return;
    }
    arm_watchdog(test, options, rank);
    const double start = MPI_Wtime();
    Test context(test.name, options, rank, size);
    test.body(context);
    int failures = context.failures();
    int total = 0;
    MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const std::string reason = first_text(context.first_failure(), rank, size);
    const std::string skip = first_text(context.skip_reason(), rank, size);
    alarm(0);
    const double seconds = MPI_Wtime() - start;
    if (!skip.empty() && total == 0) {
        counts.skipped++;
    } else if ((total != 0) != options.corrupt) {
        counts.failed++;
    } else {
        counts.passed++;
    }
    if (rank != 0) {
        return;
    }
    if (!skip.empty() && total == 0) {
        std::printf("skip %s: %s\n", test.name, skip.c_str());
    } else if (options.corrupt) {
        std::printf(total ? "ok %s (spoiled byte found: %s)\n"
                          : "not ok %s: a spoiled byte went unnoticed%s\n",
                    test.name, reason.c_str());
    } else if (total != 0) {
        std::printf("not ok %s: %d failures, first: %s\n", test.name, total, reason.c_str());
    } else {
        std::printf("ok %s (%.2f s)\n", test.name, seconds);
    }
    std::fflush(stdout);
}

[[noreturn]] void usage(int code)
{
    std::fprintf(code ? stderr : stdout,
                 "Usage: mpirun -n N odp_mpi_tests [options] [CASE...]\n"
                 "  --list          names and subjects of the cases\n"
                 "  --seed N        randomness and contents\n"
                 "  --effort N      multiply iteration counts (1)\n"
                 "  --timeout N     seconds that a case may take (120)\n"
                 "  --threads       initialise with MPI_THREAD_MULTIPLE\n"
                 "  --corrupt       spoil one received byte per case: each case must notice\n"
                 "Without a CASE all run that need no special surroundings.\n");
    std::exit(code);
}

std::uint64_t number(const char *option, const char *text, std::uint64_t low, std::uint64_t high)
{
    std::uint64_t value = 0;
    const char *end = text + std::strlen(text);
    const auto [rest, error] = std::from_chars(text, end, value);
    if (error != std::errc() || rest != end || value < low || value > high) {
        std::fprintf(stderr, "odp_mpi_tests: --%s '%s': give a whole number from %llu to %llu\n",
                     option, text, static_cast<unsigned long long>(low),
                     static_cast<unsigned long long>(high));
        std::exit(EXIT_FAILURE);
    }
    return value;
}

Options parse(int argc, char **argv)
{
    static const option long_options[] = {
        {"list", no_argument, nullptr, 'l'},         {"seed", required_argument, nullptr, 's'},
        {"effort", required_argument, nullptr, 'e'}, {"timeout", required_argument, nullptr, 't'},
        {"threads", no_argument, nullptr, 'T'},      {"corrupt", no_argument, nullptr, 'c'},
        {"help", no_argument, nullptr, 'h'},         {nullptr, 0, nullptr, 0},
    };
    Options options;
    for (int c; (c = getopt_long(argc, argv, "h", long_options, nullptr)) != -1;) {
        switch (c) {
        case 'l':
            for (const Case &test : cases()) {
                std::printf("%-18s %d+ ranks  %s\n", test.name, test.min_ranks, test.about);
            }
            std::exit(EXIT_SUCCESS);
        case 's':
            options.seed = number("seed", optarg, 0, UINT64_MAX);
            break;
        case 'e':
            options.effort = static_cast<int>(number("effort", optarg, 1, 1000));
            break;
        case 't':
            options.timeout_s = static_cast<unsigned>(number("timeout", optarg, 1, 86400));
            break;
        case 'T':
            options.threads = true;
            break;
        case 'c':
            options.corrupt = true;
            break;
        case 'h':
            usage(EXIT_SUCCESS);
        default:
            usage(EXIT_FAILURE);
        }
    }
    return options;
}

/// The cases that the arguments name, or those that need no special surroundings.
std::vector<Case> select(int argc, char **argv)
{
    std::vector<Case> chosen;
    for (int i = optind; i < argc; ++i) {
        const auto before = chosen.size();
        for (const Case &test : cases()) {
            if (std::strcmp(test.name, argv[i]) == 0) {
                chosen.push_back(test);
            }
        }
        if (chosen.size() == before) {
            std::fprintf(stderr, "odp_mpi_tests: no case '%s'; see --list\n", argv[i]);
            std::exit(EXIT_FAILURE);
        }
    }
    if (optind == argc) {
        for (const Case &test : cases()) {
            if (!(test.flags & Case::by_name)) {
                chosen.push_back(test);
            }
        }
    }
    return chosen;
}

} // namespace

int main(int argc, char **argv)
{
    const Options options = parse(argc, argv);
    const std::vector<Case> chosen = select(argc, argv);
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, options.threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Counts counts;
    for (const Case &test : chosen) {
        run(test, options, rank, size, counts);
    }
    if (rank == 0) {
        std::printf("# %d passed, %d failed, %d skipped (%d ranks, seed %llu)\n", counts.passed,
                    counts.failed, counts.skipped, size,
                    static_cast<unsigned long long>(options.seed));
        std::fflush(stdout);
    }
    MPI_Finalize();
    return counts.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
