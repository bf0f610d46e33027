// SPDX-License-Identifier: BSD-3-Clause
//
// MCA parameters. Limits are checked where they are known: by libodp, when the device is opened.
#include "btl_odp.hpp"

namespace btl_odp {

namespace {

const odp::Options defaults;

void add(const char *name, const char *help, mca_base_var_type_t type,
         mca_base_var_info_lvl_t level, void *storage)
{
    (void)mca_base_component_var_register(&mca_btl_odp_component.btl_version, name, help, type,
                                          nullptr, 0, mca_base_var_flag_t{}, level,
                                          MCA_BASE_VAR_SCOPE_READONLY, storage);
}

void add(const char *name, const char *help, mca_base_var_info_lvl_t level, unsigned &storage)
{
    add(name, help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, level, &storage);
}

} // namespace

Parameters parameters;

mca_btl_base_module_t settings = [] {
    mca_btl_base_module_t module{};
    module.btl_component = &mca_btl_odp_component;
    // Descriptors live in the buffers, so both limits are the size of a buffer; a receive ring of
    // recv_depth buffers is pinned for each peer.
    module.btl_eager_limit = 8192;
    module.btl_max_send_size = 8192;
    module.btl_rndv_eager_limit = 8192;
    // All of a large message goes by RDMA: nothing has to be registered meanwhile.
    module.btl_rdma_pipeline_send_length = 0;
    module.btl_rdma_pipeline_frag_size = SIZE_MAX;
    module.btl_min_rdma_pipeline_size = 0;
    module.btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
    module.btl_latency = 4;
    module.btl_bandwidth = 0; // the link's
    module.btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_GET |
                       MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION;
    module.btl_get_limit = SIZE_MAX;
    module.btl_put_limit = SIZE_MAX;
    module.btl_add_procs = btl_odp_add_procs;
    module.btl_del_procs = btl_odp_del_procs;
    module.btl_finalize = btl_odp_finalize;
    module.btl_alloc = btl_odp_alloc;
    module.btl_free = btl_odp_free;
    module.btl_prepare_src = btl_odp_prepare_src;
    module.btl_send = btl_odp_send;
    module.btl_sendi = btl_odp_sendi;
    module.btl_put = btl_odp_put;
    module.btl_get = btl_odp_get;
    module.btl_dump = mca_btl_base_dump;
    // No btl_register_mem: for the upper layers that means that no memory needs registration.
    module.btl_register_error = btl_odp_register_error;
    return module;
}();

void register_parameters()
{
    parameters.device = nullptr;
    parameters.recv_depth = defaults.recv_depth;
    parameters.send_depth = defaults.send_depth;
    parameters.max_send_buffers = defaults.max_send_buffers;
    parameters.max_inline = defaults.max_inline;
    parameters.timeout = defaults.timeout;
    parameters.retry_count = defaults.retry_count;
    parameters.connect_timeout = static_cast<unsigned>(defaults.connect_timeout.count() / 1000);
    parameters.peer_check = 1000;
    parameters.service_level = defaults.service_level;
    parameters.traffic_class = defaults.traffic_class;
    parameters.gid_index = defaults.gid_index;
    parameters.stats = false;

    add("device",
        "RDMA device to use, NAME or NAME:PORT. Empty: the nearest one with implicit on-demand "
        "paging "
        "and an active port. Set it if a node has several and the choice is wrong; "
        "btl_base_verbose 1 "
        "tells why a device won't do.",
        MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_2, static_cast<void *>(&parameters.device));
    add("stats",
        "Print, at MPI_Finalize, a line for each process with what this BTL has carried and "
        "pinned. Set "
        "it to see whether the BTL is in use.",
        MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_2, &parameters.stats);
    add("recv_depth",
        "Receives kept posted for each peer, 5 to 4096; each takes the larger of eager_limit and "
        "max_send_size bytes of pinned memory. Raise it if senders of many small messages wait "
        "(the "
        "performance variable btl_odp_waited grows); lower it to save memory with many peers.",
        OPAL_INFO_LVL_4, parameters.recv_depth);
    add("send_depth",
        "Requests outstanding for each peer, 16 to 8192. Raise it for windows of more messages or "
        "one-sided operations than that; lower it to save memory with many peers.",
        OPAL_INFO_LVL_4, parameters.send_depth);
    add("max_send_buffers",
        "Messages on their way to all peers together; further ones wait in the upper layer. Each "
        "takes "
        "the larger of eager_limit and max_send_size bytes of pinned memory once it is used. Lower "
        "it "
        "if locked memory is scarce (ulimit -l).",
        OPAL_INFO_LVL_4, parameters.max_send_buffers);
    add("max_inline",
        "Messages up to this many bytes, headers included, are handed to the device in the request "
        "itself, if it can do so many. Lower it to save memory in send queues.",
        OPAL_INFO_LVL_5, parameters.max_inline);
    add("timeout",
        "Local ACK timeout of the connections: 4.096 us * 2^timeout, 1 to 31. Raise it on "
        "congested "
        "fabrics if jobs end with 'transport retry counter exceeded'.",
        OPAL_INFO_LVL_5, parameters.timeout);
    add("retry_count",
        "Retries of the device before it gives a peer up, 0 to 7. Lower it, or timeout, to hear "
        "sooner "
        "of dead nodes.",
        OPAL_INFO_LVL_5, parameters.retry_count);
    add("connect_timeout",
        "Seconds after which a peer that doesn't answer a connection request is given up. Peers "
        "answer "
        "only inside MPI calls: raise it if processes compute longer than that without one.",
        OPAL_INFO_LVL_4, parameters.connect_timeout);
    add("peer_check",
        "A connection on which nothing has moved for this many milliseconds is checked with an "
        "empty "
        "RDMA write, so that a process that waits for a dead peer ends with an error. 0: off; set "
        "it "
        "to 0 if the environment always ends jobs of which a process has died.",
        OPAL_INFO_LVL_4, parameters.peer_check);
    add("service_level",
        "InfiniBand service level, 0 to 15. Set it if the fabric's quality of service or routing "
        "asks "
        "for one.",
        OPAL_INFO_LVL_5, parameters.service_level);
    add("traffic_class",
        "Traffic class of RoCE packets, 0 to 255. Set it if the network's quality of service asks "
        "for "
        "one.",
        OPAL_INFO_LVL_5, parameters.traffic_class);
    add("gid_index",
        "Index of the port's GID, -1: chosen (RoCE v2 and routable first). Set it if a RoCE port "
        "has "
        "several networks and peers can't be reached.",
        MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, &parameters.gid_index);
    (void)mca_btl_base_param_register(&mca_btl_odp_component.btl_version, &settings);
}

} // namespace btl_odp
