// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_device.hpp"

#include <poll.h>

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

const char *name(MrKind kind)
{
    switch (kind) {
    case MrKind::pinned:
        return "pinned";
    case MrKind::explicit_odp:
        return "explicit";
    case MrKind::implicit:
        return "implicit";
    }
    return "?";
}

Region Device::region(MrKind kind, ibv_pd *pd, std::span<std::byte> bytes, unsigned access) const
{
    switch (kind) {
    case MrKind::pinned:
        return pinned(pd, bytes, access);
    case MrKind::explicit_odp:
        return explicit_odp(pd, bytes, access);
    case MrKind::implicit:
        break;
    }
    return implicit(pd, access);
}

namespace {

// Which member of the event's union is the one, ibv_get_async_event(3).
const void *element_of(const ibv_async_event &event)
{
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        return event.element.cq;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return event.element.srq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return event.element.qp;
    default:
        return nullptr;
    }
}

} // namespace

std::optional<AsyncEvent> Device::event(std::chrono::milliseconds within) const
{
    pollfd wait{get()->async_fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(within.count())) != 1) {
        return std::nullopt;
    }
    ibv_async_event event{};
    expect_zero(ibv_get_async_event(get(), &event), "ibv_get_async_event");
    ibv_ack_async_event(&event);
    return AsyncEvent{event.event_type, element_of(event)};
}

void Device::expect_event(ibv_event_type type, const void *element, std::string_view what,
                          const Location &at) const
{
    std::optional<AsyncEvent> const got = event(patience);
    expect(got.has_value(), str("no event: ", what), at);
    expect_eq(std::string(ibv_event_type_str(got->type)), ibv_event_type_str(type), what, at);
    expect(got->element == element, str("the event is another object's: ", what), at);
}

void Device::expect_no_event(std::string_view why, const Location &at) const
{
    if (std::optional<AsyncEvent> const got = event(std::chrono::milliseconds(0))) {
        fail(str("unexpected event '", ibv_event_type_str(got->type), "': ", why), at);
    }
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
