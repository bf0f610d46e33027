// SPDX-License-Identifier: BSD-3-Clause
#include "odp/device.hpp"

#include "device_rules.hpp"
#include "format.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sched.h>

namespace odp {

struct Device::State {
    VerbsContext verbs;
    std::string name;
    std::uint8_t port = 0;
    ibv_device_attr_ex attributes{};
    ibv_port_attr port_attributes{};
};

namespace {

struct DeviceList {
    DeviceList() noexcept : devices(ibv_get_device_list(&count)) {}
    DeviceList(const DeviceList &) = delete;
    DeviceList &operator=(const DeviceList &) = delete;
    ~DeviceList()
    {
        if (devices != nullptr) {
            ibv_free_device_list(devices);
        }
    }
    int count = 0;
    ibv_device **devices;
};

// Devices without a bus (rdma_odp, rxe) have no such file and are near to everybody.
bool is_local(const std::string &name)
{
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof(mine), &mine) != 0) {
        return true;
    }
    std::ifstream file("/sys/class/infiniband/" + name + "/device/local_cpus");
    std::string mask;
    std::getline(file, mask);
    return mask_intersects(mask, mine);
}

std::string port_why_not(const ibv_port_attr &port)
{
    if (port.state != IBV_PORT_ACTIVE) {
        return format("the port is %s, must be PORT_ACTIVE", ibv_port_state_str(port.state));
    }
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET && port.lid == 0 &&
        (port.flags & IBV_QPF_GRH_REQUIRED) == 0) {
        return "the port has no LID: is a subnet manager running?";
    }
    return {};
}

// The candidates, each with the speed of its link.
std::vector<std::pair<Candidate, double>> survey(const Options &options, DeviceList &list,
                                                 Status &problem)
{
    std::vector<std::pair<Candidate, double>> found;
    auto wanted = parse_device_name(options.device);
    if (!wanted) {
        problem = wanted.status();
        return found;
    }
    for (int i = 0; i < list.count; ++i) {
        Candidate candidate{ibv_get_device_name(list.devices[i]), 0, {}, false, false};
        candidate.local = is_local(candidate.name);
        const auto reject = [&](std::string why) {
            candidate.why_not = std::move(why);
            found.emplace_back(candidate, 0.0);
        };
        if (!wanted->name.empty() && wanted->name != candidate.name) {
            reject("another device was asked for (" + options.device + ")");
            continue;
        }
        if (list.devices[i]->transport_type != IBV_TRANSPORT_IB) {
            reject("it isn't InfiniBand or RoCE");
            continue;
        }
        errno = 0;
        const VerbsContext verbs(ibv_open_device(list.devices[i]));
        if (!verbs) {
            reject(format("it can't be opened: %s (see the permissions of /dev/infiniband/uverbs*)",
                          Status::from_errno(errno, "ibv_open_device").text()));
            continue;
        }
        ibv_device_attr_ex attributes{};
        if (const int error = ibv_query_device_ex(verbs.get(), nullptr, &attributes); error != 0) {
            reject(Status::from_errno(error, "ibv_query_device_ex").text());
            continue;
        }
        if (auto why = odp_why_not({attributes.odp_caps.general_caps,
                                    attributes.odp_caps.per_transport_caps.rc_odp_caps});
            !why.empty()) {
            reject(std::move(why));
            continue;
        }
        for (unsigned port = 1; port <= attributes.orig_attr.phys_port_cnt; ++port) {
            candidate.port = static_cast<std::uint8_t>(port);
            if (wanted->port != 0 && wanted->port != port) {
                reject("another port was asked for (" + options.device + ")");
                continue;
            }
            ibv_port_attr state{};
            if (const int error = ibv_query_port(verbs.get(), candidate.port, &state); error != 0) {
                reject(Status::from_errno(error, "ibv_query_port").text());
                continue;
            }
            candidate.why_not = port_why_not(state);
            found.emplace_back(candidate, link_mbps(state.active_width, state.active_speed));
        }
    }
    // The nearest; among equals the fastest; then the first.
    std::pair<Candidate, double> *best = nullptr;
    for (auto &entry : found) {
        if (entry.first.why_not.empty() &&
            (best == nullptr || (entry.first.local && !best->first.local) ||
             (entry.first.local == best->first.local && entry.second > best->second))) {
            best = &entry;
        }
    }
    if (best != nullptr) {
        best->first.chosen = true;
    }
    return found;
}

} // namespace

std::vector<Candidate> Device::candidates(const Options &options)
{
    DeviceList list;
    Status problem;
    std::vector<Candidate> result;
    for (auto &entry : survey(options, list, problem)) {
        result.push_back(std::move(entry.first));
    }
    return result;
}

std::string Device::explain(const std::vector<Candidate> &candidates)
{
    if (candidates.empty()) {
        return "there is no RDMA device: is the driver loaded (modprobe rdma_odp) and "
               "/dev/infiniband present?";
    }
    std::string text;
    for (const Candidate &candidate : candidates) {
        text += text.empty() ? "" : "; ";
        text += candidate.name;
        if (candidate.port != 0) {
            text += format(":%u", candidate.port);
        }
        text += ": " + (candidate.why_not.empty() ? std::string("it will do") : candidate.why_not);
    }
    return text;
}

Result<Device> Device::open(const Options &options)
{
    DeviceList list;
    Status problem;
    const auto found = survey(options, list, problem);
    if (problem.failed()) {
        return problem;
    }
    for (const auto &[candidate, speed] : found) {
        if (!candidate.chosen) {
            continue;
        }
        auto state = std::make_unique<State>();
        state->name = candidate.name;
        state->port = candidate.port;
        for (int i = 0; i < list.count; ++i) {
            if (candidate.name == ibv_get_device_name(list.devices[i])) {
                errno = 0;
                state->verbs = VerbsContext(ibv_open_device(list.devices[i]));
            }
        }
        if (!state->verbs ||
            ibv_query_device_ex(state->verbs.get(), nullptr, &state->attributes) != 0 ||
            ibv_query_port(state->verbs.get(), state->port, &state->port_attributes) != 0) {
            return Status::from_errno(errno,
                                      candidate.name + " could be opened and then not again");
        }
        return Device(std::move(state));
    }
    std::vector<Candidate> list_of_reasons;
    list_of_reasons.reserve(found.size());
    for (const auto &[candidate, speed] : found) {
        list_of_reasons.push_back(candidate);
    }
    std::string text = explain(list_of_reasons);
    if (!options.device.empty() && list.count > 0 &&
        std::none_of(found.begin(), found.end(), [&](const auto &entry) {
            return options.device.substr(0, options.device.find(':')) == entry.first.name;
        })) {
        text = "there is no device \"" + options.device + "\"; " + text;
    }
    return {Code::no_device, "no device will do: " + text};
}

Device::Device(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Device::Device(Device &&) noexcept = default;
Device &Device::operator=(Device &&) noexcept = default;
Device::~Device() = default;

const std::string &Device::name() const noexcept
{
    return state_->name;
}

std::uint8_t Device::port() const noexcept
{
    return state_->port;
}

bool Device::ethernet() const noexcept
{
    return state_->port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
}

bool Device::atomics() const noexcept
{
    return state_->attributes.orig_attr.atomic_cap != IBV_ATOMIC_NONE &&
           (state_->attributes.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC) !=
               0;
}

std::uint32_t Device::max_message() const noexcept
{
    return state_->port_attributes.max_msg_sz;
}

double Device::bandwidth_mbps() const noexcept
{
    return link_mbps(state_->port_attributes.active_width, state_->port_attributes.active_speed);
}

std::string Device::str() const
{
    return format("%s:%u", state_->name.c_str(), state_->port);
}

ibv_context *Device::verbs() const noexcept
{
    return state_->verbs.get();
}

const ibv_device_attr_ex &Device::attributes() const noexcept
{
    return state_->attributes;
}

const ibv_port_attr &Device::port_attributes() const noexcept
{
    return state_->port_attributes;
}

} // namespace odp
