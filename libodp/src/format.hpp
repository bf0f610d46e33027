// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace odp {

// printf into a string of any length. Errors of the format give an empty string.
[[gnu::format(printf, 1, 2)]] std::string format(const char *pattern, ...);

} // namespace odp
