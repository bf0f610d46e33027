// SPDX-License-Identifier: BSD-3-Clause
//
// odp_info: which HCAs can do implicit on-demand paging, and why the others can't; whether Open MPI
// finds the BTL.
#include "btl.hpp"
#include "counters.hpp"

#include "odp/device.hpp"

#include <cstdio>
#include <cstring>
#include <string>

namespace {

constexpr const char *usage =
    "usage: odp_info [-c] [-d DEVICE[:PORT]]\n"
    "\n"
    "Tells for each RDMA port whether btl odp can use it, and if not why; then where\n"
    "Open MPI's part, the BTL, is and whether mpirun would find it.\n"
    "\n"
    "  -c, --counters    also the counters of the port that would be used\n"
    "  -d, --device D    ask for this one instead of the nearest\n"
    "  -h, --help        this text\n"
    "\n"
    "Exit status: 0 if there is a usable port, 1 if not, 2 for bad arguments.\n";

struct Arguments {
    odp::Options options;
    bool counters = false;
};

bool is(const char *argument, const char *brief, const char *full)
{
    return std::strcmp(argument, brief) == 0 || std::strcmp(argument, full) == 0;
}

// Returns the exit status if the program ends here, else -1.
int parse(int argc, char **argv, Arguments &arguments)
{
    for (int i = 1; i < argc; ++i) {
        if (is(argv[i], "-h", "--help")) {
            std::fputs(usage, stdout);
            return 0;
        }
        if (is(argv[i], "-c", "--counters")) {
            arguments.counters = true;
        } else if (is(argv[i], "-d", "--device") && i + 1 < argc) {
            arguments.options.device = argv[++i];
        } else {
            std::fprintf(stderr,
                         "odp_info: '%s' is no option or lacks its value: see odp_info --help\n",
                         argv[i]);
            return 2;
        }
    }
    return -1;
}

void print(const odp::Candidate &candidate, bool counters)
{
    std::string port = candidate.name;
    if (candidate.port != 0) {
        port += ":" + std::to_string(candidate.port);
    }
    if (!candidate.why_not.empty()) {
        std::printf("%-12s no: %s\n", port.c_str(), candidate.why_not.c_str());
        return;
    }
    std::printf("%-12s implicit ODP%s%s\n", port.c_str(), candidate.local ? ", near" : "",
                candidate.chosen ? ", would be used" : "");
    if (!candidate.chosen || !counters) {
        return;
    }
    for (const Counter &counter : read_counters(candidate.name, candidate.port)) {
        std::printf("    %-28s %s\n", counter.name.c_str(), counter.value.c_str());
    }
}

} // namespace

int main(int argc, char **argv)
{
    Arguments arguments;
    const int end = parse(argc, argv, arguments);
    if (end >= 0) {
        return end;
    }

    const auto candidates = odp::Device::candidates(arguments.options);
    if (candidates.empty()) {
        std::puts("no RDMA device: load a driver (modprobe rdma_odp, or that of your HCA)");
    }
    bool usable = false;
    for (const odp::Candidate &candidate : candidates) {
        print(candidate, arguments.counters);
        usable = usable || candidate.chosen;
    }
    std::printf("%-12s %s\n", "btl odp", describe_btl().c_str());
    return usable ? 0 : 1;
}
