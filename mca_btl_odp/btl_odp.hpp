// SPDX-License-Identifier: BSD-3-Clause
//
// What the parts of the BTL share. The contract of each function of the module is that of
// opal/mca/btl/btl.h; all of them may be called by several threads.
#pragma once

#include "odp/context.hpp"

#include "opal.hpp"
#include "rdma_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

extern "C" {
extern mca_btl_base_component_t mca_btl_odp_component;
}

// A peer. Made by add_procs, or by the first message of a peer that isn't known here yet.
struct mca_btl_base_endpoint_t {
    opal_proc_t *proc = nullptr; // holds a reference
    odp::Address address;
    odp::Endpoint *connection = nullptr; // nullptr before the first use
    bool failed = false;                 // the upper layer has been told
};

namespace btl_odp {

// MCA parameters besides those that all BTLs have.
struct Parameters {
    char *device = nullptr;
    unsigned recv_depth = 0;
    unsigned send_depth = 0;
    unsigned max_send_buffers = 0;
    unsigned max_inline = 0;
    unsigned timeout = 0;
    unsigned retry_count = 0;
    unsigned connect_timeout = 0; // s
    unsigned peer_check = 0;      // ms
    unsigned service_level = 0;
    unsigned traffic_class = 0;
    int gid_index = -1;
    bool stats = false;
};

extern Parameters parameters;
// Limits and flags as the parameters set them; a Module starts as a copy.
extern mca_btl_base_module_t settings;

void register_parameters();
void register_counters();

struct Module;

// A descriptor. It lives beside the registered buffer that its segment is in, so that what the
// upper layer writes there is sent from there.
struct Frag : mca_btl_base_descriptor_t, odp::Completion {
    mca_btl_base_segment_t segment;
    odp::SendBuffer *buffer;
    Module *module;
    mca_btl_base_endpoint_t *endpoint;
};

struct Module : mca_btl_base_module_t {
    // Nullptr if there is no usable device, or with a message if that is the user's to correct.
    static std::unique_ptr<Module> create();
    explicit Module(std::unique_ptr<odp::Context> opened);
    ~Module();
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;

    // The peer's endpoint; nullptr if it can't be reached or there is no memory.
    mca_btl_base_endpoint_t *endpoint_of(opal_proc_t *proc);
    void forget(mca_btl_base_endpoint_t *endpoint);
    // Makes `connection` usable; the peer learns with the first message who is connecting.
    odp::Status connect(mca_btl_base_endpoint_t &endpoint);
    // Tells the upper layer, once, that the peer can't be reached any more.
    void lost(mca_btl_base_endpoint_t &endpoint, const odp::Status &status);

    // Room for `size` bytes, or nullptr: too large or out of buffers.
    Frag *make_frag(mca_btl_base_endpoint_t *endpoint, std::size_t size, std::uint32_t flags);
    void free_frag(Frag &frag);
    // A quarter of the buffers is kept for messages whose end the upper layer hears of, since that
    // is when it tries again what didn't get a buffer.
    [[nodiscard]] bool few_buffers_left() const
    {
        return buffers_used >= std::size_t{context->options().max_send_buffers} * 3 / 4;
    }

    void note_pinned();
    void print_statistics();

    // Recursive: what the upper layer is told during progress makes it call again.
    std::recursive_mutex mutex;
    std::unique_ptr<odp::Context> context;
    std::unordered_map<std::uint64_t, std::unique_ptr<mca_btl_base_endpoint_t>>
        endpoints; // by name
    RdmaPool rdma_pool;
    mca_btl_base_module_error_cb_fn_t error_callback = nullptr;
    std::size_t buffers_used = 0;
    std::uint64_t pinned_most = 0; // bytes
};

// Between init and finalize; nullptr else.
extern Module *active;

inline Module &module_of(mca_btl_base_module_t *btl)
{
    return *static_cast<Module *>(btl);
}

// Holds the module's lock, if the process has several threads.
class Guard {
public:
    explicit Guard(Module &module)
    {
        if (opal_using_threads()) {
            lock_ = std::unique_lock(module.mutex);
        }
    }

private:
    std::unique_lock<std::recursive_mutex> lock_;
};

// OPAL_ERR_... of a failed status.
int opal_error(const odp::Status &status);

// A message whose payload is the sender's process name. BTLs have tags 0x20..0x3f for their own
// use.
constexpr mca_btl_base_tag_t hello_tag = MCA_BTL_TAG_BTL + 0x0f;

// What a process publishes for its peers.
int publish(const odp::Context &context);
// False if the process has published no address, or one that can't be reached from here; why is
// told at verbose level.
bool find_address(const odp::Context &context, const opal_proc_t &proc, odp::Address &address);

// For odp::Context.
void on_message(void *module, odp::Endpoint &from, std::uint8_t tag,
                std::span<const std::byte> data);
void on_hello(void *module, odp::Endpoint &from, std::uint8_t tag, std::span<const std::byte> data);
void on_error(void *module, odp::Endpoint &connection, const odp::Status &status);
void on_log(void *arg, odp::LogLevel level, const char *line);

// The module's functions.
extern "C" {
int btl_odp_add_procs(mca_btl_base_module_t *btl, std::size_t count, opal_proc_t **procs,
                      mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable);
int btl_odp_del_procs(mca_btl_base_module_t *btl, std::size_t count, opal_proc_t **procs,
                      mca_btl_base_endpoint_t **endpoints);
int btl_odp_finalize(mca_btl_base_module_t *btl);
int btl_odp_register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t callback);
mca_btl_base_descriptor_t *btl_odp_alloc(mca_btl_base_module_t *btl,
                                         mca_btl_base_endpoint_t *endpoint, std::uint8_t order,
                                         std::size_t size, std::uint32_t flags);
int btl_odp_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);
mca_btl_base_descriptor_t *btl_odp_prepare_src(mca_btl_base_module_t *btl,
                                               mca_btl_base_endpoint_t *endpoint,
                                               opal_convertor_t *convertor, std::uint8_t order,
                                               std::size_t reserve, std::size_t *size,
                                               std::uint32_t flags);
int btl_odp_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                 mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int btl_odp_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                  opal_convertor_t *convertor, void *header, std::size_t header_size,
                  std::size_t payload_size, std::uint8_t order, std::uint32_t flags,
                  mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor);
int btl_odp_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                std::uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                mca_btl_base_registration_handle_t *remote_handle, std::size_t size, int flags,
                int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
int btl_odp_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, void *local,
                std::uint64_t remote, mca_btl_base_registration_handle_t *local_handle,
                mca_btl_base_registration_handle_t *remote_handle, std::size_t size, int flags,
                int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data);
}

} // namespace btl_odp
