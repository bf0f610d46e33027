// SPDX-License-Identifier: BSD-3-Clause
#include "btl.hpp"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <unistd.h>

namespace {

// Empty if this was built without Open MPI.
constexpr const char *folder = ODP_BTL_FOLDER;
// Empty if PMIx has no folder of its own, which mpirun would make Open MPI search instead.
constexpr const char *pmix_folder = ODP_PMIX_FOLDER;

constexpr const char *variable = "OMPI_MCA_mca_base_component_path";

bool listed(const std::string &path)
{
    return (":" + path + ":").find(":" + std::string(folder) + ":") != std::string::npos;
}

} // namespace

std::string describe_btl()
{
    if (*folder == '\0') {
        return "not built: configure found no Open MPI with development headers";
    }
    const std::string file = std::string(folder) + "/mca_btl_odp.so";
    if (access(file.c_str(), R_OK) != 0) {
        return "no: " + file + ": " + std::generic_category().message(errno);
    }
    const char *path = std::getenv(variable); // NOLINT(concurrency-mt-unsafe): one thread
    if (path != nullptr ? !listed(path) : *pmix_folder != '\0') {
        return "installed in " + std::string(folder) + ", but mpirun won't look there: run it by " +
               "odp-run, or source odp-env.sh first";
    }
    return "installed in " + std::string(folder);
}
