// SPDX-License-Identifier: BSD-3-Clause
#include "counters.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

std::vector<Counter> read_counters(const std::string &device, unsigned port)
{
    const std::filesystem::path folder =
        "/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/hw_counters";
    std::vector<Counter> counters;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator(folder, error)) {
        std::ifstream file(entry.path());
        std::string value;
        // "lifespan" is a setting of the statistics, not one of them
        if (entry.path().filename() != "lifespan" && std::getline(file, value)) {
            counters.push_back({entry.path().filename(), value});
        }
    }
    std::sort(counters.begin(), counters.end(),
              [](const Counter &a, const Counter &b) { return a.name < b.name; });
    return counters;
}
