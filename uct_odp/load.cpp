// SPDX-License-Identifier: BSD-3-Clause
//
// Registration with libuct when the plugin is loaded; declined where the internals may differ.
#include "log.hpp"
#include "md.hpp"

#include <cstring>
#include <dlfcn.h>
#include <string>

namespace uct_odp {

namespace {

constexpr const char *advice = "not loaded; build implicit-odp with the headers of this UCX";

// Empty, or why the running UCX isn't the one that this was built for. libuct doesn't tell its
// version, libucp of the same package does.
std::string check_version()
{
    using GetVersion = void (*)(unsigned *, unsigned *, unsigned *);
    void *library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL);
    auto *get =
        library != nullptr ? reinterpret_cast<GetVersion>(dlsym(library, "ucp_get_version")) : nullptr;
    std::string found = "of unknown version (no libucp.so.0 beside libuct)";
    if (get != nullptr) {
        unsigned major = 0;
        unsigned minor = 0;
        unsigned patch = 0;
        get(&major, &minor, &patch);
        if (major == ODP_UCX_MAJOR && minor == ODP_UCX_MINOR) {
            found.clear();
        } else {
            found = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
        }
    }
    if (library != nullptr) {
        dlclose(library);
    }
    return found.empty() ? found
                         : "built for UCX " + std::to_string(ODP_UCX_MAJOR) + "." +
                               std::to_string(ODP_UCX_MINOR) + ", but UCX here is " + found + ": " +
                               advice;
}

template <typename T> T *container(ucs_list_link_t *link, std::size_t offset)
{
    return reinterpret_cast<T *>(reinterpret_cast<char *>(link) - offset);
}

// Compares the layouts declared here with a component that every libuct has.
std::string check_layout()
{
    int steps = 0;
    constexpr int many = 1000;
    for (ucs_list_link_t *link = uct_components_list.next;
         link != &uct_components_list && steps < many; link = link->next, ++steps) {
        auto *one = container<uct_component>(link, offsetof(uct_component, list));
        if (std::strncmp(one->name, "self", sizeof(one->name)) != 0) {
            continue;
        }
        auto *tl = container<uct_tl_t>(one->tl_list.next, offsetof(uct_tl_t, list));
        const bool same = one->md_config.prefix != nullptr &&
                          std::strcmp(one->md_config.prefix, "SELF_") == 0 &&
                          std::strncmp(tl->name, "self", sizeof(tl->name)) == 0 &&
                          tl->config.prefix != nullptr &&
                          std::strcmp(tl->config.prefix, "SELF_") == 0 && one->tl_list.prev == &tl->list;
        return same ? std::string()
                    : std::string("the structures of this libuct aren't those of UCX 1.18: ") + advice;
    }
    return std::string("libuct has no component \"self\" to compare with: ") + advice;
}

struct Registration {
    bool done = false;

    Registration()
    {
        std::string reason = check_version();
        if (reason.empty()) {
            reason = check_layout();
        }
        if (!reason.empty()) {
            log_line(UCS_LOG_LEVEL_WARN, reason.c_str());
            return;
        }
        uct_component_register(&component);
        uct_tl_register(&component, &transport);
        done = true;
    }

    Registration(const Registration &) = delete;
    Registration &operator=(const Registration &) = delete;

    ~Registration()
    {
        if (done) {
            uct_tl_unregister(&transport);
            uct_component_unregister(&component);
        }
    }
};

// The objects it registers are constant-initialized but for the operations, which come from another
// file's initializer and are used later only.
const Registration registration;

} // namespace

} // namespace uct_odp
