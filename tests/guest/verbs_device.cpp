// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_device.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace vt {

std::string Device::name()
{
    const char *name = std::getenv("ODP_TEST_DEVICE");
    return name != nullptr && *name != '\0' ? name : "odp0";
}

Device::Device()
{
    int count = 0;
    ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; i < count; ++i) {
        if (name() == ibv_get_device_name(list[i])) {
            context_.reset(ibv_open_device(list[i]));
            expect(context_ != nullptr, str("ibv_open_device(", name(), ") failed"));
        }
    }
    if (list != nullptr) {
        ibv_free_device_list(list);
    }
    expect(context_ != nullptr, str("no RDMA device ", name(), " (", count,
                                    " devices found); "
                                    "set ODP_TEST_DEVICE or load the module"));
    expect_zero(ibv_query_device_ex(get(), nullptr, &attributes_), "ibv_query_device_ex");
    expect_zero(ibv_query_port(get(), 1, &port_), "ibv_query_port");
    expect_eq(port_.state, IBV_PORT_ACTIVE, "state of port 1");
}

bool Device::has_odp() const
{
    return (attributes_.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
}

bool Device::has_implicit() const
{
    return (attributes_.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) != 0;
}

bool Device::is_odp_module() const
{
    return name().starts_with("odp");
}

Pd Device::pd() const
{
    Pd pd(ibv_alloc_pd(get()));
    expect(pd != nullptr, str("ibv_alloc_pd: ", std::strerror(errno)));
    return pd;
}

Region Device::pinned(ibv_pd *pd, std::span<std::byte> bytes, unsigned access) const
{
    ibv_mr *mr = ibv_reg_mr(pd, bytes.data(), bytes.size(), access);
    expect(mr != nullptr, str("ibv_reg_mr of ", bytes.size(), " bytes: ", std::strerror(errno)));
    return Region(mr);
}

Region Device::implicit(ibv_pd *pd, unsigned access) const
{
    if (!has_implicit()) {
        throw Skip(str(name(), " has no implicit ODP"));
    }
    ibv_mr *mr = ibv_reg_mr(pd, nullptr, SIZE_MAX, access | IBV_ACCESS_ON_DEMAND);
    expect(mr != nullptr, str("ibv_reg_mr of the whole address space: ", std::strerror(errno)));
    return Region(mr);
}

Region Device::explicit_odp(ibv_pd *pd, std::span<std::byte> bytes, unsigned access) const
{
    if (!has_odp()) {
        throw Skip(str(name(), " has no on-demand paging"));
    }
    ibv_mr *mr = ibv_reg_mr(pd, bytes.data(), bytes.size(), access | IBV_ACCESS_ON_DEMAND);
    expect(mr != nullptr,
           str("ibv_reg_mr of ", bytes.size(), " bytes with ON_DEMAND: ", std::strerror(errno)));
    return Region(mr);
}

Region Device::on_demand(ibv_pd *pd, std::span<std::byte> bytes, unsigned access) const
{
    return has_implicit() ? implicit(pd, access) : explicit_odp(pd, bytes, access);
}

uint64_t mr_counter(const std::string &counter)
{
    // Per MR: "dev NAME mrn N", then "COUNTER VALUE" pairs (rdma-statistic(8)). The tool knows no
    // filter for MRs; tests run one at a time.
    std::string command = "rdma statistic show mr 2>&1";
    std::unique_ptr<FILE, int (*)(FILE *)> pipe(popen(command.c_str(), "r"), pclose);
    expect(pipe != nullptr, "popen(rdma)");
    std::string text;
    std::array<char, 4096> chunk{};
    while (size_t got = fread(chunk.data(), 1, chunk.size(), pipe.get())) {
        text.append(chunk.data(), got);
    }
    uint64_t sum = 0;
    bool seen = false;
    bool ours = false;
    std::istringstream words(text);
    for (std::string name; words >> name;) {
        uint64_t value = 0;
        if (name == "dev" && words >> name) {
            ours = name == Device::name();
        } else if (ours && name == counter && words >> value) {
            sum += value;
            seen = true;
        }
    }
    if (!seen) {
        if (Device().is_odp_module()) {
            fail(str("no counter '", counter, "' in the output of `", command, "`: ", text));
        }
        throw Skip(str(Device::name(), " has no MR counter ", counter));
    }
    return sum;
}

} // namespace vt
