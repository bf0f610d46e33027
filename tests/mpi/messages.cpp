// SPDX-License-Identifier: BSD-3-Clause
#include "messages.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

namespace mpitest {
namespace {

/// The value of an integer control variable; 0 when it can't be read without an object.
std::size_t read_cvar(int index, MPI_Datatype type)
{
    MPI_T_cvar_handle handle;
    int count = 0;
    if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) {
        return 0;
    }
    union {
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
        int i;
    } value{};
    std::size_t result = 0;
    if (count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS) {
        result = type == MPI_UNSIGNED             ? value.u
                 : type == MPI_UNSIGNED_LONG      ? value.ul
                 : type == MPI_UNSIGNED_LONG_LONG ? value.ull
                 : type == MPI_INT && value.i > 0 ? static_cast<std::size_t>(value.i)
                                                  : 0;
    }
    MPI_T_cvar_handle_free(&handle);
    return result;
}

bool is_limit(std::string_view name)
{
    for (const char *end : {"_eager_limit", "_max_send_size", "_rdma_pipeline_send_length",
                            "_rdma_pipeline_frag_size", "_min_rdma_pipeline_size"}) {
        if (name.starts_with("btl_") && name.ends_with(end)) {
            return true;
        }
    }
    return false;
}

} // namespace

std::vector<std::size_t> size_classes(std::size_t max)
{
    std::set<std::size_t> sizes{0};
    for (std::size_t power = 1; power <= max; power *= 2) {
        sizes.insert({power - 1, power, power + 1});
    }
    return {sizes.begin(), sizes.end()};
}

std::vector<std::size_t> protocol_limits()
{
    std::set<std::size_t> all;
    std::set<std::size_t> odp;
    int provided = 0;
    int count = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_num(&count);
    for (int i = 0; i < count; ++i) {
        char name[256];
        int length = sizeof(name);
        int verbosity = 0;
        int binding = 0;
        int scope = 0;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum enumeration;
        if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &enumeration, nullptr, nullptr,
                                &binding, &scope) != MPI_SUCCESS ||
            !is_limit(name)) {
            continue;
        }
        const std::size_t value = read_cvar(i, type);
        if (value >= 256 && value <= (4u << 20)) {
            all.insert(value);
            if (std::string_view(name).starts_with("btl_odp_")) {
                odp.insert(value);
            }
        }
    }
    MPI_T_finalize();
    const auto &found = odp.empty() ? all : odp;
    if (found.empty()) {
        return {4096, 8192, 16384, 65536};
    }
    return {found.begin(), found.end()};
}

} // namespace mpitest
