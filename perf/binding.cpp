// SPDX-License-Identifier: BSD-3-Clause
#include "session.hpp"

#include "mpi_c.hpp"

#include <cstdio>
#include <cstring>
#include <sched.h>

namespace perf {

void warn_if_sharing_a_cpu(const Session &session)
{
    struct Place {
        char host[MPI_MAX_PROCESSOR_NAME];
        cpu_set_t cpus;
    };
    Place mine{};
    Place theirs{};
    int length = 0;
    MPI_Get_processor_name(mine.host, &length);
    if (sched_getaffinity(0, sizeof(mine.cpus), &mine.cpus) != 0) {
        CPU_ZERO(&mine.cpus); // more CPUs than cpu_set_t holds: then nobody has to share
    }
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, session.peer(), 0, &theirs, sizeof(theirs),
                 MPI_BYTE, session.peer(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    cpu_set_t all;
    CPU_OR(&all, &mine.cpus, &theirs.cpus);
    if (session.rank() != 0 || std::strcmp(mine.host, theirs.host) != 0 || CPU_COUNT(&all) != 1) {
        return;
    }
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) {
        ++cpu;
    }
    std::fprintf(stderr,
                 "# WARNING: both ranks run on CPU %d and wait for each other by spinning: "
                 "these numbers measure the scheduler; use mpirun --bind-to core on 2 CPUs\n",
                 cpu);
}

} // namespace perf
