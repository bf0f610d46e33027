// SPDX-License-Identifier: BSD-3-Clause
//
// Counters of an RDMA port as the kernel shows them in sysfs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct Counter {
    std::string name;
    std::string value;
};

// /sys/class/infiniband/DEVICE/ports/PORT/hw_counters, by name; empty if the device has none.
std::vector<Counter> read_counters(const std::string &device, unsigned port);
