// SPDX-License-Identifier: BSD-3-Clause
//
// Coming and going of the module and its peers.
#include "btl_odp.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

namespace btl_odp {

namespace {

std::uint64_t key_of(const opal_process_name_t &name)
{
    return std::uint64_t{name.jobid} << 32U | name.vpid;
}

odp::Options make_options()
{
    odp::Options options;
    options.device = parameters.device != nullptr ? parameters.device : "";
    const std::size_t room = std::max(settings.btl_eager_limit, settings.btl_max_send_size);
    options.payload_room =
        static_cast<std::uint32_t>(std::min<std::size_t>((room + 7) / 8 * 8, UINT32_MAX / 8 * 8));
    options.recv_depth = parameters.recv_depth;
    options.send_depth = parameters.send_depth;
    options.max_inline = parameters.max_inline;
    options.max_send_buffers = parameters.max_send_buffers;
    options.buffer_user_bytes = sizeof(Frag);
    options.connect_timeout = std::chrono::seconds(parameters.connect_timeout);
    options.idle_probe = std::chrono::milliseconds(parameters.peer_check);
    if (parameters.peer_check != 0) {
        options.stall_probe = options.idle_probe;
    }
    options.timeout = static_cast<std::uint8_t>(std::min(parameters.timeout, 255U));
    options.retry_count = static_cast<std::uint8_t>(std::min(parameters.retry_count, 255U));
    options.service_level = static_cast<std::uint8_t>(std::min(parameters.service_level, 255U));
    options.traffic_class = static_cast<std::uint8_t>(std::min(parameters.traffic_class, 255U));
    options.gid_index = parameters.gid_index;
    options.log = on_log;
    return options;
}

// Silent unless the user has asked for what can't be had.
void explain_refusal(const odp::Status &status)
{
    const bool asked = parameters.device != nullptr && parameters.device[0] != '\0';
    const char *topic = nullptr;
    switch (status.code()) {
    case odp::Code::no_device:
        topic = asked ? "device" : nullptr;
        break;
    case odp::Code::invalid_argument:
        topic = "parameter";
        break;
    case odp::Code::no_memory:
        topic = "memory";
        break;
    default:
        topic = "other";
        break;
    }
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl:odp: withdraws, no device is usable: %s", status.text());
    if (topic != nullptr) {
        opal_show_help("help-mpi-btl-odp.txt", topic, true, opal_process_info.nodename,
                       asked ? parameters.device : "(nearest)", status.text());
    }
}

} // namespace

Module *active = nullptr;

int opal_error(const odp::Status &status)
{
    switch (status.code()) {
    case odp::Code::no_resource:
    case odp::Code::no_memory:
        return OPAL_ERR_OUT_OF_RESOURCE;
    case odp::Code::invalid_argument:
        return OPAL_ERR_BAD_PARAM;
    case odp::Code::unsupported:
        return OPAL_ERR_NOT_SUPPORTED;
    case odp::Code::timed_out:
    case odp::Code::rejected:
    case odp::Code::peer_lost:
    case odp::Code::flushed:
        return OPAL_ERR_UNREACH;
    default:
        return OPAL_ERROR;
    }
}

std::unique_ptr<Module> Module::create()
{
    auto context = odp::Context::create(make_options());
    if (!context) {
        explain_refusal(context.status());
        return nullptr;
    }
    std::unique_ptr<Module> module(new (std::nothrow) Module(std::move(*context)));
    if (module == nullptr) {
        return nullptr;
    }
    if (const int rc = publish(*module->context); rc != OPAL_SUCCESS) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl:odp: withdraws, its address can't be published (error %d)", rc);
        return nullptr;
    }
    return module;
}

Module::Module(std::unique_ptr<odp::Context> opened)
    : mca_btl_base_module_t(settings),
      context(std::move(opened))
{
    const odp::Device &device = context->device();
    btl_get_limit = std::min<std::size_t>(btl_get_limit, device.max_message());
    btl_put_limit = std::min<std::size_t>(btl_put_limit, device.max_message());
    if (btl_bandwidth == 0) {
        constexpr double unknown = 10000;
        const double rate = device.bandwidth_mbps();
        btl_bandwidth = static_cast<std::uint32_t>(rate > 0 ? rate : unknown);
    }
    context->set_am_handler(on_message, this);
    context->set_am_handler(hello_tag, on_hello, this);
    context->set_error_handler(on_error, this);
    opal_output_verbose(10, opal_btl_base_framework.framework_output, "btl:odp: uses %s at %s",
                        device.str().c_str(), context->address().str().c_str());
}

Module::~Module()
{
    // Operations that are still outstanding end inside; nobody is told any more.
    for (auto &[name, endpoint] : endpoints) {
        odp::Endpoint *connection = std::exchange(endpoint->connection, nullptr);
        if (connection != nullptr) {
            connection->user_data = nullptr;
            context->close(*connection);
        }
        OBJ_RELEASE(endpoint->proc);
    }
    context.reset();
}

mca_btl_base_endpoint_t *Module::endpoint_of(opal_proc_t *proc)
{
    try {
        auto &known = endpoints[key_of(proc->proc_name)];
        if (known == nullptr) {
            known = std::make_unique<mca_btl_base_endpoint_t>();
            OBJ_RETAIN(proc);
            known->proc = proc;
        }
        return known.get();
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void Module::forget(mca_btl_base_endpoint_t *endpoint)
{
    odp::Endpoint *connection = std::exchange(endpoint->connection, nullptr);
    if (connection != nullptr) {
        note_pinned();
        connection->user_data = nullptr;
        context->close(*connection);
    }
    opal_proc_t *proc = endpoint->proc;
    endpoints.erase(key_of(proc->proc_name));
    OBJ_RELEASE(proc);
}

odp::Status Module::connect(mca_btl_base_endpoint_t &endpoint)
{
    if (endpoint.connection != nullptr) {
        return {};
    }
    auto connection = context->endpoint(endpoint.address);
    if (!connection) {
        return connection.status();
    }
    odp::SendBuffer *buffer = context->alloc();
    if (buffer == nullptr) {
        return odp::Code::no_resource;
    }
    const opal_process_name_t name = OPAL_PROC_MY_NAME;
    std::memcpy(buffer->payload().data(), &name, sizeof(name));
    odp::Status status = (*connection)->send(*buffer, hello_tag, sizeof(name), nullptr);
    if (status.failed()) {
        context->release(*buffer);
        return status;
    }
    endpoint.connection = *connection;
    endpoint.connection->user_data = &endpoint;
    return {};
}

void Module::lost(mca_btl_base_endpoint_t &endpoint, const odp::Status &status)
{
    if (endpoint.failed) {
        return;
    }
    endpoint.failed = true;
    // What ended first may have been flushed by the error of another operation.
    const odp::Status &error =
        endpoint.connection != nullptr ? endpoint.connection->error() : status;
    const odp::Status &cause = error.failed() ? error : status;
    char text[1024];
    std::snprintf(text, sizeof(text), "btl odp, process %s: %s",
                  OPAL_NAME_PRINT(endpoint.proc->proc_name), cause.text());
    // All that an orderly end of a peer can't cause is printed here, since mpirun may show the
    // message of only one process. A peer that leaves may do so in MPI_Finalize, which the upper
    // layer recognizes.
    const bool left = cause.code() == odp::Code::peer_lost || cause.code() == odp::Code::flushed;
    if (left) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output, "%s", text);
    } else {
        opal_output(0, "%s", text);
    }
    if (error_callback != nullptr) {
        error_callback(this, MCA_BTL_ERROR_FLAGS_FATAL, endpoint.proc, text);
    }
}

void on_hello(void *arg, odp::Endpoint &from, std::uint8_t, std::span<const std::byte> data)
{
    auto &module = *static_cast<Module *>(arg);
    opal_process_name_t name;
    if (from.user_data != nullptr || data.size() != sizeof(name)) {
        return;
    }
    std::memcpy(&name, data.data(), sizeof(name));
    opal_proc_t *proc = opal_proc_for_name(name);
    mca_btl_base_endpoint_t *endpoint = proc != nullptr ? module.endpoint_of(proc) : nullptr;
    if (endpoint == nullptr || endpoint->connection != nullptr) {
        return;
    }
    auto connection = module.context->endpoint(from.peer());
    if (!connection) {
        return;
    }
    endpoint->address = from.peer();
    endpoint->connection = *connection;
    endpoint->connection->user_data = endpoint;
}

void on_error(void *arg, odp::Endpoint &connection, const odp::Status &status)
{
    auto *endpoint = static_cast<mca_btl_base_endpoint_t *>(connection.user_data);
    if (endpoint != nullptr) {
        static_cast<Module *>(arg)->lost(*endpoint, status);
    }
}

void on_log(void *, odp::LogLevel level, const char *line)
{
    int verbosity = 40;
    switch (level) {
    case odp::LogLevel::error:
        verbosity = 1;
        break;
    case odp::LogLevel::warning:
        verbosity = 10;
        break;
    case odp::LogLevel::info:
        verbosity = 20;
        break;
    case odp::LogLevel::debug:
        break;
    }
    opal_output_verbose(verbosity, opal_btl_base_framework.framework_output, "btl:odp: %s", line);
}

int btl_odp_add_procs(mca_btl_base_module_t *btl, std::size_t count, opal_proc_t **procs,
                      mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    Module &module = module_of(btl);
    const Guard guard(module);
    for (std::size_t i = 0; i < count; ++i) {
        endpoints[i] = nullptr;
        if (procs[i] == opal_proc_local_get()) {
            continue; // btl self's
        }
        const auto known = module.endpoints.find(key_of(procs[i]->proc_name));
        odp::Address address;
        if (known != module.endpoints.end()) {
            endpoints[i] = known->second.get(); // it has connected to us, or is added again
        } else if (find_address(*module.context, *procs[i], address)) {
            endpoints[i] = module.endpoint_of(procs[i]);
            if (endpoints[i] == nullptr) {
                return OPAL_ERR_OUT_OF_RESOURCE;
            }
            endpoints[i]->address = address;
        }
        if (endpoints[i] != nullptr && reachable != nullptr) {
            const int rc = opal_bitmap_set_bit(reachable, static_cast<int>(i));
            if (rc != OPAL_SUCCESS) {
                return rc;
            }
        }
    }
    return OPAL_SUCCESS;
}

int btl_odp_del_procs(mca_btl_base_module_t *btl, std::size_t count, opal_proc_t **procs,
                      mca_btl_base_endpoint_t **endpoints)
{
    Module &module = module_of(btl);
    const Guard guard(module);
    for (std::size_t i = 0; i < count; ++i) {
        // The upper layer keeps the pointer in several lists, and may delete it twice.
        const auto known = module.endpoints.find(key_of(procs[i]->proc_name));
        if (known != module.endpoints.end() && known->second.get() == endpoints[i]) {
            module.forget(endpoints[i]);
        }
    }
    return OPAL_SUCCESS;
}

int btl_odp_finalize(mca_btl_base_module_t *btl)
{
    Module *module = &module_of(btl);
    if (parameters.stats) {
        module->print_statistics();
    }
    active = nullptr;
    delete module;
    return OPAL_SUCCESS;
}

int btl_odp_register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t callback)
{
    module_of(btl).error_callback = callback;
    return OPAL_SUCCESS;
}

} // namespace btl_odp
