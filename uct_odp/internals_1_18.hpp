// SPDX-License-Identifier: BSD-3-Clause
//
// What UCX 1.18 keeps to itself of the interface between libuct and a transport: the layouts in
// src/uct/base and src/uct/api/v2, of which distributions install no headers. Declared again here,
// as far as this transport uses them; check_layout() compares them with the live library.
//
// Structures that belong to libuct have all their members; of those that the transport only passes
// on there is just a declaration.
#pragma once

#define ODP_UCX_MAJOR 1
#define ODP_UCX_MINOR 18

// uct/api/v2/uct_v2.h

enum : std::uint64_t {
    UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD = UCS_BIT(5),
    UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD = UCS_BIT(6),
    UCT_PERF_ATTR_FIELD_RECV_OVERHEAD = UCS_BIT(7),
    UCT_PERF_ATTR_FIELD_BANDWIDTH = UCS_BIT(8),
    UCT_PERF_ATTR_FIELD_LATENCY = UCS_BIT(9),
    UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS = UCS_BIT(10),
};

enum : std::uint64_t {
    UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR = UCS_BIT(0),
    UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR = UCS_BIT(1),
    UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING = UCS_BIT(2),
    UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH = UCS_BIT(3),
    UCT_IFACE_IS_REACHABLE_FIELD_SCOPE = UCS_BIT(4),
};

enum uct_iface_reachability_scope_t {
    UCT_IFACE_REACHABILITY_SCOPE_DEVICE,
    UCT_IFACE_REACHABILITY_SCOPE_NETWORK,
};

struct uct_iface_is_reachable_params_t {
    std::uint64_t field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t *iface_addr;
    char *info_string;
    std::size_t info_string_length;
    uct_iface_reachability_scope_t scope;
    std::size_t device_addr_length;
    std::size_t iface_addr_length;
};

struct uct_ep_is_connected_params_t;
struct uct_ep_connect_to_ep_params_t;
struct uct_perf_attr_t;
struct uct_rkey_compare_params_t;
struct uct_md_mem_reg_params_t;
struct uct_md_mem_dereg_params_t;
struct uct_md_mkey_pack_params_t;
struct uct_md_mem_attach_params_t;

struct uct_md_attr_v2_t {
    std::uint64_t field_mask;
    std::uint64_t max_alloc;
    std::size_t max_reg;
    std::uint64_t flags;
    std::uint64_t reg_mem_types;
    std::uint64_t reg_nonblock_mem_types;
    std::uint64_t cache_mem_types;
    std::uint64_t gva_mem_types;
    std::uint64_t detect_mem_types;
    std::uint64_t alloc_mem_types;
    std::uint64_t access_mem_types;
    std::uint64_t dmabuf_mem_types;
    ucs_linear_func_t reg_cost;
    char component_name[UCT_COMPONENT_NAME_MAX];
    std::size_t rkey_packed_size;
    ucs_cpu_set_t local_cpus;
    std::size_t exported_mkey_packed_size;
    char global_id[UCT_MD_GLOBAL_ID_MAX];
    std::size_t reg_alignment;
};

// uct/base/uct_component.h

struct uct_component {
    char name[UCT_COMPONENT_NAME_MAX];
    ucs_status_t (*query_md_resources)(uct_component *component, uct_md_resource_desc_t **resources,
                                       unsigned *count);
    ucs_status_t (*md_open)(uct_component *component, const char *name,
                            const uct_md_config_t *config, uct_md_h *md);
    ucs_status_t (*cm_open)(uct_component *component, uct_worker_h worker,
                            const uct_cm_config_t *config, uct_cm_h *cm);
    ucs_status_t (*rkey_unpack)(uct_component *component, const void *buffer, uct_rkey_t *rkey,
                                void **handle);
    ucs_status_t (*rkey_ptr)(uct_component *component, uct_rkey_t rkey, void *handle,
                             std::uint64_t remote, void **local);
    ucs_status_t (*rkey_release)(uct_component *component, uct_rkey_t rkey, void *handle);
    ucs_status_t (*rkey_compare)(uct_component *component, uct_rkey_t a, uct_rkey_t b,
                                 const uct_rkey_compare_params_t *params, int *result);
    ucs_config_global_list_entry_t md_config;
    ucs_config_global_list_entry_t cm_config;
    ucs_list_link_t tl_list;
    ucs_list_link_t list;
    std::uint64_t flags;
    void (*md_vfs_init)(uct_md_h md);
};

// uct/base/uct_md.h

struct uct_md_config {
    char unused;
};

struct uct_md_ops {
    void (*close)(uct_md_h md);
    ucs_status_t (*query)(uct_md_h md, uct_md_attr_v2_t *attr);
    ucs_status_t (*mem_alloc)(uct_md_h md, std::size_t *length, void **address,
                              ucs_memory_type_t type, unsigned flags, const char *name,
                              uct_mem_h *memh);
    ucs_status_t (*mem_free)(uct_md_h md, uct_mem_h memh);
    ucs_status_t (*mem_advise)(uct_md_h md, uct_mem_h memh, void *address, std::size_t length,
                               unsigned advice);
    ucs_status_t (*mem_reg)(uct_md_h md, void *address, std::size_t length,
                            const uct_md_mem_reg_params_t *params, uct_mem_h *memh);
    ucs_status_t (*mem_dereg)(uct_md_h md, const uct_md_mem_dereg_params_t *params);
    ucs_status_t (*mem_query)(uct_md_h md, const void *address, std::size_t length,
                              uct_md_mem_attr_t *attr);
    ucs_status_t (*mkey_pack)(uct_md_h md, uct_mem_h memh, void *address, std::size_t length,
                              const uct_md_mkey_pack_params_t *params, void *buffer);
    ucs_status_t (*mem_attach)(uct_md_h md, const void *buffer, uct_md_mem_attach_params_t *params,
                               uct_mem_h *memh);
    ucs_status_t (*detect_memory_type)(uct_md_h md, const void *address, std::size_t length,
                                       ucs_memory_type_t *type);
};

struct uct_md {
    uct_md_ops *ops;
    uct_component *component;
};

// uct/base/uct_worker.h

struct uct_priv_worker_t {
    uct_worker_t super;
    ucs_async_context_t *async;
    ucs_thread_mode_t thread_mode;
    ucs_list_link_t tl_data;
};

struct uct_worker_progress_t {
    uct_worker_cb_id_t id;
    std::uint32_t refcount;
};

// uct/base/uct_iface.h

struct uct_am_handler_t {
    uct_am_callback_t cb;
    void *arg;
    std::uint32_t flags;
};

struct uct_iface_internal_ops_t {
    ucs_status_t (*iface_estimate_perf)(uct_iface_h iface, uct_perf_attr_t *attr);
    void (*iface_vfs_refresh)(uct_iface_h iface);
    ucs_status_t (*ep_query)(uct_ep_h ep, uct_ep_attr_t *attr);
    ucs_status_t (*ep_invalidate)(uct_ep_h ep, unsigned flags);
    ucs_status_t (*ep_connect_to_ep_v2)(uct_ep_h ep, const uct_device_addr_t *device,
                                        const uct_ep_addr_t *address,
                                        const uct_ep_connect_to_ep_params_t *params);
    int (*iface_is_reachable_v2)(uct_iface_h iface, const uct_iface_is_reachable_params_t *params);
    int (*ep_is_connected)(uct_ep_h ep, const uct_ep_is_connected_params_t *params);
};

struct uct_base_iface_t {
    uct_iface_t super;
    uct_iface_internal_ops_t *internal_ops;
    uct_md_h md;
    uct_priv_worker_t *worker;
    uct_am_handler_t am[UCT_AM_ID_MAX];
    uct_am_tracer_t am_tracer;
    void *am_tracer_arg;
    uct_error_handler_t err_handler;
    void *err_handler_arg;
    std::uint32_t err_handler_flags;
    uct_worker_progress_t prog;
    unsigned progress_flags;
    struct {
        unsigned num_alloc_methods;
        uct_alloc_method_t alloc_methods[UCT_ALLOC_METHOD_LAST];
        ucs_log_level_t failure_level;
        std::size_t max_num_eps;
    } config;
};

struct uct_base_ep_t {
    uct_ep_t super;
};

struct uct_iface_config {
    struct {
        uct_alloc_method_t *methods;
        unsigned count;
    } alloc_methods;
    int failure;
    std::size_t max_num_eps;
};

struct uct_tl_device_resource_t {
    char name[UCT_DEVICE_NAME_MAX];
    uct_device_type_t type;
    ucs_sys_device_t sys_device;
};

struct uct_tl_t {
    char name[UCT_TL_NAME_MAX];
    ucs_status_t (*query_devices)(uct_md_h md, uct_tl_device_resource_t **devices, unsigned *count);
    ucs_status_t (*iface_open)(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
                               const uct_iface_config_t *config, uct_iface_h *iface);
    ucs_config_global_list_entry_t config;
    ucs_list_link_t list;
};

extern "C" {
extern ucs_list_link_t uct_components_list;
extern ucs_config_field_t uct_md_config_table[];
extern ucs_config_field_t uct_iface_config_table[];
extern ucs_class_t uct_base_iface_t_class;

ucs_status_t uct_base_iface_t_init(uct_base_iface_t *self, ucs_class_t *type, int *init_count,
                                   uct_iface_ops_t *ops, uct_iface_internal_ops_t *internal_ops,
                                   uct_md_h md, uct_worker_h worker,
                                   const uct_iface_params_t *params,
                                   const uct_iface_config_t *config);
void uct_base_iface_query(uct_base_iface_t *iface, uct_iface_attr_t *attr);
void uct_base_iface_progress_enable(uct_iface_h iface, unsigned flags);
void uct_base_iface_progress_disable(uct_iface_h iface, unsigned flags);
ucs_status_t uct_base_iface_estimate_perf(uct_iface_h iface, uct_perf_attr_t *attr);
int uct_base_iface_is_reachable(uct_iface_h iface, const uct_device_addr_t *device,
                                const uct_iface_addr_t *address);
int uct_base_ep_is_connected(uct_ep_h ep, const uct_ep_is_connected_params_t *params);
ucs_status_t uct_iface_handle_ep_err(uct_iface_h iface, uct_ep_h ep, ucs_status_t status);

void uct_md_base_md_query(uct_md_attr_v2_t *attr);
ucs_status_t uct_md_query_single_md_resource(uct_component *component,
                                             uct_md_resource_desc_t **resources, unsigned *count);
ucs_status_t uct_md_query_empty_md_resource(uct_md_resource_desc_t **resources, unsigned *count);
ucs_status_t uct_md_stub_rkey_unpack(uct_component *component, const void *buffer, uct_rkey_t *rkey,
                                     void **handle);
ucs_status_t uct_md_dummy_mem_reg(uct_md_h md, void *address, std::size_t length,
                                  const uct_md_mem_reg_params_t *params, uct_mem_h *memh);
ucs_status_t uct_md_dummy_mem_dereg(uct_md_h md, const uct_md_mem_dereg_params_t *params);
ucs_status_t uct_base_rkey_compare(uct_component *component, uct_rkey_t a, uct_rkey_t b,
                                   const uct_rkey_compare_params_t *params, int *result);
void uct_component_register(uct_component *component);
void uct_component_unregister(uct_component *component);
void uct_tl_register(uct_component *component, uct_tl_t *tl);
void uct_tl_unregister(uct_tl_t *tl);
}
