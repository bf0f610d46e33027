// SPDX-License-Identifier: BSD-3-Clause
//
// What Open MPI finds in mca_btl_odp.so.
#include "btl_odp.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

template <std::size_t Size> void name(char (&to)[Size], const char *from)
{
    std::strncpy(to, from, Size - 1);
}

extern "C" int btl_odp_register()
{
#ifdef BTL_ODP_HELP_DIR
    (void)opal_show_help_add_dir(BTL_ODP_HELP_DIR); // it may not be Open MPI's own
#endif
    btl_odp::register_parameters();
    btl_odp::register_counters();
    return OPAL_SUCCESS;
}

// open and close: the device is opened by init and closed by the module's finalize.
extern "C" int btl_odp_open()
{
    return OPAL_SUCCESS;
}

extern "C" int btl_odp_close()
{
    return OPAL_SUCCESS;
}

extern "C" mca_btl_base_module_t **btl_odp_init(int *count, bool, bool)
{
    *count = 0;
    // The caller frees it.
    auto **modules = static_cast<mca_btl_base_module_t **>(std::malloc(sizeof(void *)));
    if (modules == nullptr) {
        return nullptr;
    }
    auto module = btl_odp::Module::create();
    if (module == nullptr) {
        std::free(static_cast<void *>(modules));
        return nullptr;
    }
    btl_odp::active = module.release();
    modules[0] = btl_odp::active;
    *count = 1;
    return modules;
}

extern "C" int btl_odp_progress()
{
    btl_odp::Module *module = btl_odp::active;
    if (module == nullptr) {
        return 0;
    }
    if (!opal_using_threads()) {
        return module->context->progress();
    }
    // A thread that finds another one at it has nothing to add.
    const std::unique_lock lock(module->mutex, std::try_to_lock);
    return lock.owns_lock() ? module->context->progress() : 0;
}

mca_btl_base_component_t make_component()
{
    mca_btl_base_component_t component{};
    mca_base_component_t &base = component.btl_version;
    base.mca_major_version = MCA_BASE_VERSION_MAJOR;
    base.mca_minor_version = MCA_BASE_VERSION_MINOR;
    base.mca_release_version = MCA_BASE_VERSION_RELEASE;
    name(base.mca_project_name, "opal");
    base.mca_project_major_version = OPAL_MAJOR_VERSION;
    base.mca_project_minor_version = OPAL_MINOR_VERSION;
    base.mca_project_release_version = OPAL_RELEASE_VERSION;
    name(base.mca_type_name, "btl");
    base.mca_type_major_version = MCA_BTL_BASE_MAJOR_VERSION;
    base.mca_type_minor_version = MCA_BTL_BASE_MINOR_VERSION;
    base.mca_type_release_version = MCA_BTL_BASE_PATCH_VERSION;
    name(base.mca_component_name, "odp");
    base.mca_component_major_version = OPAL_MAJOR_VERSION;
    base.mca_component_minor_version = OPAL_MINOR_VERSION;
    base.mca_component_release_version = OPAL_RELEASE_VERSION;
    base.mca_open_component = btl_odp_open;
    base.mca_close_component = btl_odp_close;
    base.mca_register_component_params = btl_odp_register;
    component.btl_data.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT;
    component.btl_init = btl_odp_init;
    component.btl_progress = btl_odp_progress;
    return component;
}

} // namespace

__attribute__((visibility("default"))) mca_btl_base_component_t mca_btl_odp_component =
    make_component();
