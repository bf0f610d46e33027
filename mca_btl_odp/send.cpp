// SPDX-License-Identifier: BSD-3-Clause
//
// Messages: descriptors, sending, receiving.
#include "btl_odp.hpp"

#include <algorithm>
#include <cstring>

namespace btl_odp {

namespace {

// Ends a message that the library has accepted.
void on_sent(odp::Completion *completion, const odp::Status &status)
{
    Frag &frag = *static_cast<Frag *>(completion);
    Module &module = *frag.module;
    // The upper layer may free the descriptor in its callback unless it has left that to us.
    const bool ours = (frag.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0;
    if (frag.endpoint->connection == nullptr) {
        module.free_frag(frag); // del_procs has closed it
        return;
    }
    if (status.failed()) {
        module.lost(*frag.endpoint, status);
    }
    if (frag.des_cbfunc != nullptr) {
        frag.des_cbfunc(&module, frag.endpoint, &frag,
                        status.failed() ? opal_error(status) : OPAL_SUCCESS);
    }
    if (ours) {
        module.free_frag(frag);
    }
}

// Answers as btl_send does.
int send(Module &module, mca_btl_base_endpoint_t &endpoint, Frag &frag, mca_btl_base_tag_t tag)
{
    odp::Status status = module.connect(endpoint);
    if (status.failed()) {
        return opal_error(status);
    }
    frag.endpoint = &endpoint;
    frag.done = on_sent;
    const bool ours = (frag.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0;
    status = endpoint.connection->send(*frag.buffer, tag, frag.segment.seg_len, &frag);
    if (status.in_progress()) {
        return OPAL_SUCCESS;
    }
    if (status.failed()) {
        return opal_error(status);
    }
    if ((frag.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) != 0 && frag.des_cbfunc != nullptr) {
        frag.des_cbfunc(&module, &endpoint, &frag, OPAL_SUCCESS);
    }
    if (ours) {
        module.free_frag(frag);
    }
    return 1;
}

// Packs up to `size` bytes of the user's data behind the first `reserve` bytes of the segment;
// `size` becomes what it was. False if the datatype engine failed.
bool pack(Frag &frag, opal_convertor_t *convertor, std::size_t reserve, std::size_t &size)
{
    iovec part{};
    part.iov_base = static_cast<std::byte *>(frag.segment.seg_addr.pval) + reserve;
    part.iov_len = size;
    std::uint32_t parts = 1;
    if (opal_convertor_pack(convertor, &part, &parts, &size) < 0) {
        return false;
    }
    frag.segment.seg_len = reserve + size;
    return true;
}

} // namespace

Frag *Module::make_frag(mca_btl_base_endpoint_t *endpoint, std::size_t size, std::uint32_t flags)
{
    if (size > context->options().payload_room) {
        return nullptr;
    }
    odp::SendBuffer *buffer = context->alloc();
    if (buffer == nullptr) {
        return nullptr;
    }
    ++buffers_used;
    auto *frag = static_cast<Frag *>(buffer->user());
    OBJ_CONSTRUCT(static_cast<mca_btl_base_descriptor_t *>(frag), mca_btl_base_descriptor_t);
    frag->des_segments = &frag->segment;
    frag->des_segment_count = 1;
    frag->des_context = nullptr;
    frag->des_flags = flags;
    frag->order = MCA_BTL_NO_ORDER;
    frag->segment.seg_addr.lval = 0;
    frag->segment.seg_addr.pval = buffer->payload().data();
    frag->segment.seg_len = size;
    frag->buffer = buffer;
    frag->module = this;
    frag->endpoint = endpoint;
    return frag;
}

void Module::free_frag(Frag &frag)
{
    --buffers_used;
    context->release(*frag.buffer);
}

mca_btl_base_descriptor_t *btl_odp_alloc(mca_btl_base_module_t *btl,
                                         mca_btl_base_endpoint_t *endpoint, std::uint8_t,
                                         std::size_t size, std::uint32_t flags)
{
    Module &module = module_of(btl);
    const Guard guard(module);
    return module.make_frag(endpoint, size, flags);
}

int btl_odp_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    Module &module = module_of(btl);
    const Guard guard(module);
    module.free_frag(*static_cast<Frag *>(descriptor));
    return OPAL_SUCCESS;
}

mca_btl_base_descriptor_t *btl_odp_prepare_src(mca_btl_base_module_t *btl,
                                               mca_btl_base_endpoint_t *endpoint,
                                               opal_convertor_t *convertor, std::uint8_t,
                                               std::size_t reserve, std::size_t *size,
                                               std::uint32_t flags)
{
    Module &module = module_of(btl);
    const Guard guard(module);
    const std::size_t room = module.context->options().payload_room;
    if (reserve > room) {
        return nullptr;
    }
    *size = std::min(*size, room - reserve);
    Frag *frag = module.make_frag(endpoint, reserve + *size, flags);
    if (frag == nullptr) {
        return nullptr;
    }
    if (!pack(*frag, convertor, reserve, *size)) {
        module.free_frag(*frag);
        return nullptr;
    }
    return frag;
}

int btl_odp_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                 mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    Module &module = module_of(btl);
    const Guard guard(module);
    return send(module, *endpoint, *static_cast<Frag *>(descriptor), tag);
}

// Saves the upper layer a request: the data is out of the user's buffer on return.
int btl_odp_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                  opal_convertor_t *convertor, void *header, std::size_t header_size,
                  std::size_t payload_size, std::uint8_t, std::uint32_t flags,
                  mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor)
{
    Module &module = module_of(btl);
    const Guard guard(module);
    if (descriptor != nullptr) {
        *descriptor = nullptr;
    }
    const std::size_t size = header_size + payload_size;
    if (module.few_buffers_left()) {
        if (descriptor != nullptr) {
            *descriptor = module.make_frag(endpoint, size, flags);
        }
        return OPAL_ERR_RESOURCE_BUSY;
    }
    Frag *frag = module.make_frag(endpoint, size, flags | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (frag == nullptr) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (header_size != 0) {
        std::memcpy(frag->segment.seg_addr.pval, header, header_size);
    }
    if (payload_size != 0 && !pack(*frag, convertor, header_size, payload_size)) {
        module.free_frag(*frag);
        return OPAL_ERROR;
    }
    const int rc = send(module, *endpoint, *frag, tag);
    if (rc < 0) {
        module.free_frag(*frag);
        return rc;
    }
    return OPAL_SUCCESS;
}

void on_message(void *arg, odp::Endpoint &from, std::uint8_t tag, std::span<const std::byte> data)
{
    auto &module = *static_cast<Module *>(arg);
    const mca_btl_active_message_callback_t *receiver = nullptr;
    if (tag < MCA_BTL_TAG_MAX) {
        receiver = &mca_btl_base_active_message_trigger[tag];
    }
    if (receiver == nullptr || receiver->cbfunc == nullptr) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl:odp: a message of %zu bytes with tag 0x%x, which nobody expects, "
                            "was dropped (%s)",
                            data.size(), tag, from.str().c_str());
        return;
    }
    mca_btl_base_segment_t segment{};
    segment.seg_addr.pval = const_cast<std::byte *>(data.data());
    segment.seg_len = data.size();
    mca_btl_base_receive_descriptor_t message{};
    message.endpoint = static_cast<mca_btl_base_endpoint_t *>(from.user_data);
    message.des_segments = &segment;
    message.des_segment_count = 1;
    message.tag = tag;
    message.cbdata = receiver->cbdata;
    receiver->cbfunc(&module, &message);
}

} // namespace btl_odp
