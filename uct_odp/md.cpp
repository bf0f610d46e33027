// SPDX-License-Identifier: BSD-3-Clause
#include "md.hpp"

#include "iface.hpp"
#include "log.hpp"
#include "odp/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

namespace uct_odp {

namespace {

struct MdConfig {
    uct_md_config_t super;
};

ucs_config_field_t md_config_table[] = {
    {"", "", nullptr, offsetof(MdConfig, super), UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},
    {nullptr, nullptr, nullptr, 0, {}},
};

std::vector<odp::Candidate> usable_devices()
{
    const odp::Options options;
    std::vector<odp::Candidate> all = odp::Device::candidates(options);
    const std::string reasons = odp::Device::explain(all);
    std::erase_if(all, [](const odp::Candidate &one) { return !one.why_not.empty(); });
    if (all.empty()) {
        log_line(UCS_LOG_LEVEL_DEBUG, reasons.c_str());
    }
    return all;
}

// With REG and without NEED_MEMH and NEED_RKEY UCP leaves memory and keys alone: the region that
// each process has covers all of it. CMA declares itself like this, too.
ucs_status_t query_md(uct_md_h, uct_md_attr_v2_t *attr)
{
    uct_md_base_md_query(attr);
    attr->flags = UCT_MD_FLAG_REG;
    attr->reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->reg_nonblock_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    return UCS_OK;
}

uct_md_ops md_ops = {
    .close = [](uct_md_h) {},
    .query = query_md,
    .mem_alloc = [](uct_md_h, std::size_t *, void **, ucs_memory_type_t, unsigned, const char *,
                    uct_mem_h *) { return UCS_ERR_UNSUPPORTED; },
    .mem_free = [](uct_md_h, uct_mem_h) { return UCS_ERR_UNSUPPORTED; },
    .mem_advise = [](uct_md_h, uct_mem_h, void *, std::size_t,
                     unsigned) { return UCS_ERR_UNSUPPORTED; },
    .mem_reg = uct_md_dummy_mem_reg,
    .mem_dereg = uct_md_dummy_mem_dereg,
    .mem_query = [](uct_md_h, const void *, std::size_t,
                    uct_md_mem_attr_t *) { return UCS_ERR_UNSUPPORTED; },
    .mkey_pack = [](uct_md_h, uct_mem_h, void *, std::size_t, const uct_md_mkey_pack_params_t *,
                    void *) { return UCS_OK; },
    .mem_attach = [](uct_md_h, const void *, uct_md_mem_attach_params_t *,
                     uct_mem_h *) { return UCS_ERR_UNSUPPORTED; },
    .detect_memory_type = [](uct_md_h, const void *, std::size_t,
                             ucs_memory_type_t *) { return UCS_ERR_UNSUPPORTED; },
};

uct_md domain = {.ops = &md_ops, .component = &component};

ucs_status_t query_md_resources(uct_component *self, uct_md_resource_desc_t **resources,
                                unsigned *count)
{
    return usable_devices().empty() ? uct_md_query_empty_md_resource(resources, count)
                                    : uct_md_query_single_md_resource(self, resources, count);
}

ucs_status_t open_md(uct_component *, const char *, const uct_md_config_t *, uct_md_h *md)
{
    *md = &domain;
    return UCS_OK;
}

ucs_status_t query_devices(uct_md_h, uct_tl_device_resource_t **devices_p, unsigned *count)
{
    const std::vector<odp::Candidate> usable = usable_devices();
    *devices_p = nullptr;
    *count = 0;
    if (usable.empty()) {
        return UCS_OK;
    }
    // UCX frees it with free(3).
    auto *devices =
        static_cast<uct_tl_device_resource_t *>(std::calloc(usable.size(), sizeof(**devices_p)));
    if (devices == nullptr) {
        return UCS_ERR_NO_MEMORY;
    }
    for (const odp::Candidate &one : usable) {
        uct_tl_device_resource_t &device = devices[(*count)++];
        std::snprintf(device.name, sizeof(device.name), "%s:%u", one.name.c_str(), one.port);
        device.type = UCT_DEVICE_TYPE_NET;
        device.sys_device = UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    *devices_p = devices;
    return UCS_OK;
}

} // namespace

uct_component component = {
    .name = "odp",
    .query_md_resources = query_md_resources,
    .md_open = open_md,
    .cm_open = [](uct_component *, uct_worker_h, const uct_cm_config_t *,
                  uct_cm_h *) { return UCS_ERR_UNSUPPORTED; },
    .rkey_unpack = uct_md_stub_rkey_unpack,
    .rkey_ptr = [](uct_component *, uct_rkey_t, void *, std::uint64_t,
                   void **) { return UCS_ERR_UNSUPPORTED; },
    .rkey_release = [](uct_component *, uct_rkey_t, void *) { return UCS_OK; },
    .rkey_compare = uct_base_rkey_compare,
    .md_config = {.name = "ODP memory domain",
                  .prefix = "ODP_",
                  .table = md_config_table,
                  .size = sizeof(MdConfig),
                  .list = {},
                  .flags = 0},
    .cm_config = {.name = "", .prefix = "", .table = nullptr, .size = 0, .list = {}, .flags = 0},
    .tl_list = {.prev = &component.tl_list, .next = &component.tl_list},
    .list = {},
    .flags = 0,
    .md_vfs_init = [](uct_md_h) {},
};

uct_tl_t transport = {
    .name = "rc_odp",
    .query_devices = query_devices,
    .iface_open = iface_open,
    .config = {.name = "rc_odp transport",
               .prefix = "RC_ODP_",
               .table = iface_config_table,
               .size = sizeof(IfaceConfig),
               .list = {},
               .flags = 0},
    .list = {},
};

} // namespace uct_odp
