// SPDX-License-Identifier: BSD-3-Clause
//
// Lines to UCX's log (UCX_LOG_LEVEL, UCX_LOG_FILE).
#pragma once

#include "uct.hpp"

namespace uct_odp {

// One line; longer than UCX's limit is cut there. Thread-safe.
inline void log_line(ucs_log_level_t level, const char *line)
{
    ucs_log_component_config_t *component = &ucs_global_opts.log_component;
    if (level <= component->log_level) {
        ucs_log_dispatch(__FILE__, __LINE__, "rc_odp", level, component, "rc_odp: %s", line);
    }
}

} // namespace uct_odp
