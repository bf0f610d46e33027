// SPDX-License-Identifier: BSD-3-Clause
//
// What the BTL has carried: a line at MPI_Finalize, and MPI_T performance variables.
#include "btl_odp.hpp"

#include <algorithm>
#include <cinttypes>

namespace btl_odp {

namespace {

struct Counter {
    const char *name;
    const char *help;
    std::uint64_t odp::Statistics::*value;
    int kind;
};

const Counter counters[] = {
    {"sends", "Messages sent (headers, small messages, fragments)", &odp::Statistics::messages_sent,
     MCA_BASE_PVAR_CLASS_COUNTER},
    {"send_bytes", "Bytes of messages sent", &odp::Statistics::bytes_sent,
     MCA_BASE_PVAR_CLASS_COUNTER},
    {"receives", "Messages received", &odp::Statistics::messages_received,
     MCA_BASE_PVAR_CLASS_COUNTER},
    {"receive_bytes", "Bytes of messages received", &odp::Statistics::bytes_received,
     MCA_BASE_PVAR_CLASS_COUNTER},
    {"puts", "RDMA writes", &odp::Statistics::puts, MCA_BASE_PVAR_CLASS_COUNTER},
    {"put_bytes", "Bytes of RDMA writes", &odp::Statistics::put_bytes, MCA_BASE_PVAR_CLASS_COUNTER},
    {"gets", "RDMA reads", &odp::Statistics::gets, MCA_BASE_PVAR_CLASS_COUNTER},
    {"get_bytes", "Bytes of RDMA reads", &odp::Statistics::get_bytes, MCA_BASE_PVAR_CLASS_COUNTER},
    {"connections", "Connections made", &odp::Statistics::connections, MCA_BASE_PVAR_CLASS_COUNTER},
    {"waited",
     "Operations that were queued first: for a connection, the peer's receives or the send queue. "
     "Many of them: raise btl_odp_recv_depth and btl_odp_send_depth",
     &odp::Statistics::waited, MCA_BASE_PVAR_CLASS_COUNTER},
    {"credit_messages", "Messages that only return receives to the peer",
     &odp::Statistics::credit_messages, MCA_BASE_PVAR_CLASS_COUNTER},
    {"handshake_resent", "Connection requests sent again", &odp::Statistics::handshake_resent,
     MCA_BASE_PVAR_CLASS_COUNTER},
    {"pinned_bytes", "Bytes pinned for the BTL's own rings; users' memory is never pinned",
     &odp::Statistics::pinned_bytes, MCA_BASE_PVAR_CLASS_LEVEL},
};

extern "C" int btl_odp_read_counter(const mca_base_pvar_t *variable, void *value, void *)
{
    const auto &counter = *static_cast<const Counter *>(variable->ctx);
    auto &result = *static_cast<unsigned long long *>(value);
    result = 0;
    if (active != nullptr) {
        const Guard guard(*active);
        result = active->context->statistics().*counter.value;
    }
    return OPAL_SUCCESS;
}

} // namespace

void register_counters()
{
    // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): a set of flags
    constexpr auto read_only = static_cast<mca_base_pvar_flag_t>(MCA_BASE_PVAR_FLAG_READONLY |
                                                                 MCA_BASE_PVAR_FLAG_CONTINUOUS);
    for (const Counter &counter : counters) {
        (void)mca_base_component_pvar_register(
            &mca_btl_odp_component.btl_version, counter.name, counter.help, OPAL_INFO_LVL_4,
            counter.kind, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, nullptr,
            MCA_BASE_VAR_BIND_NO_OBJECT, read_only, btl_odp_read_counter, nullptr, nullptr,
            const_cast<Counter *>(&counter));
    }
}

// The rings of a connection go with it, so the most is kept.
void Module::note_pinned()
{
    pinned_most = std::max(pinned_most, context->statistics().pinned_bytes);
}

void Module::print_statistics()
{
    note_pinned();
    const odp::Statistics &s = context->statistics();
    opal_output(0,
                "btl odp: rank=%u device=%s sends=%" PRIu64 " send_bytes=%" PRIu64
                " receives=%" PRIu64 " receive_bytes=%" PRIu64 " puts=%" PRIu64
                " put_bytes=%" PRIu64 " gets=%" PRIu64 " get_bytes=%" PRIu64 " connections=%" PRIu64
                " waited=%" PRIu64 " credit_messages=%" PRIu64 " handshake_resent=%" PRIu64
                " pinned_bytes=%" PRIu64 " user_bytes_registered=0",
                static_cast<unsigned>(OPAL_PROC_MY_NAME.vpid), context->device().str().c_str(),
                s.messages_sent, s.bytes_sent, s.messages_received, s.bytes_received, s.puts,
                s.put_bytes, s.gets, s.get_bytes, s.connections, s.waited, s.credit_messages,
                s.handshake_resent, pinned_most);
}

} // namespace btl_odp
