// SPDX-License-Identifier: BSD-3-Clause
// Each completion status that stands for an error, provoked over every kind of MR, with what
// both ends see of it: completions, flushed work, states, asynchronous events, memory.
#include "verbs_endpoint.hpp"

#include <array>

namespace vt {
namespace {

constexpr unsigned every_access = all_access | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint64_t failing = 1; // wr_id of the request that fails
constexpr uint64_t behind = 2;  // and of what was posted behind it

// What one failing request leaves behind.
struct Outcome {
    ibv_wc_status requester;
    std::optional<ibv_wc_status> receiver{}; // of the receive that it used up
    std::optional<ibv_event_type> event{};   // of the responder's QP
};

constexpr Outcome local_protection{IBV_WC_LOC_PROT_ERR};
constexpr Outcome remote_access{IBV_WC_REM_ACCESS_ERR, std::nullopt, IBV_EVENT_QP_ACCESS_ERR};
constexpr Outcome remote_request{IBV_WC_REM_INV_REQ_ERR, std::nullopt, IBV_EVENT_QP_REQ_ERR};
constexpr Outcome remote_operation{IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR};

// A connected pair, a region over the two middle pages of `memory`, and pinned memory for the
// other side of a transfer.
struct Trial : Pair {
    static constexpr uint64_t seed = 1;
    MrKind kind;
    Memory memory{6 * page_size};
    Memory near_memory{page_size};
    Region region;
    Region near;

    explicit Trial(MrKind kind, unsigned access = every_access, EndpointConfig for_a = {},
                   EndpointConfig for_b = {})
        : Pair(for_a, for_b),
          kind(kind),
          region(device.region(kind, pd.get(), window(), access)),
          near(device.pinned(pd.get(), near_memory.bytes(), every_access))
    {
        fill(memory.bytes(), seed);
    }
    std::span<std::byte> window() const { return memory.bytes(2 * page_size, 2 * page_size); }
    uint64_t first() const { return memory.address() + 2 * page_size; }
    uint64_t end() const { return memory.address() + 4 * page_size; }
    Work::Sges pinned_sge(size_t length = 8) const
    {
        return {near.sge(near_memory.bytes(0, length))};
    }

    // Posts it, and checks all that can be seen of its failure.
    void expect_outcome(Work work, const Outcome &want, std::string_view what,
                        const Location &at = Location::current())
    {
        b.post_receive(pinned_sge(64), failing, at);
        b.post_receive(pinned_sge(64), behind, at);
        run(std::move(work), want, what, at);
    }
    // The same, the receives being posted already.
    void run(Work work, const Outcome &want, std::string_view what,
             const Location &at = Location::current())
    {
        a.post({std::move(work.id(failing)), Work::send({}).id(behind).unsignalled()}, at);
        expect_wc(a.sent(), failing, want.requester, str("the requester, ", what), at);
        expect_wc(a.sent(), behind, IBV_WC_WR_FLUSH_ERR, str("the requester, ", what), at);
        a.wait_state(IBV_QPS_ERR, at);
        if (want.event) {
            device.expect_event(*want.event, b.qp(), what, at);
        }
        if (want.receiver || want.event) {
            expect_wc(b.received(), failing, want.receiver.value_or(IBV_WC_WR_FLUSH_ERR),
                      str("the responder, ", what), at);
            expect_wc(b.received(), behind, IBV_WC_WR_FLUSH_ERR, str("the responder, ", what), at);
            b.wait_state(IBV_QPS_ERR, at);
        } else {
            b.wait_state(IBV_QPS_RTS, at);
            b.received().expect_empty(str("the requester's own failure, ", what), at);
        }
        device.expect_no_event(what, at);
    }
    static void expect_wc(CompletionQueue &cq, uint64_t id, ibv_wc_status status,
                          std::string_view what, const Location &at)
    {
        ibv_wc const wc = cq.wait(at);
        expect_eq(wc.wr_id, id, str("wr_id, ", what), at);
        expect_eq(std::string(ibv_wc_status_str(wc.status)), ibv_wc_status_str(status),
                  str("wr_id ", id, ", ", what), at);
    }
    void expect_unchanged(std::string_view what, const Location &at = Location::current()) const
    {
        expect_pattern(memory.bytes(0, 2 * page_size), seed, str("before the region, ", what), at);
        expect_pattern_from(2 * page_size, 4 * page_size, str("the region and behind, ", what), at);
    }
    void expect_pattern_from(size_t offset, size_t length, std::string_view what,
                             const Location &at) const
    {
        Memory want(memory.size());
        fill(want.bytes(), seed);
        expect(std::memcmp(want.data() + offset, memory.data() + offset, length) == 0,
               str("memory has changed: ", what), at);
    }
};

// Eight bytes that can't be had: where, by which key.
struct Target {
    uint64_t address;
    uint32_t key;
};

struct Flaw {
    const char *what;
    bool on_demand_only; // pinned pages stay, whatever becomes of their mapping
    Target (*make)(Trial &t);
};

Region spare(const Trial &t, ibv_pd *pd)
{
    return t.device.region(t.kind, pd, t.window(), every_access);
}

const Flaw flaws[] = {
    {"a key that never was", false,
     [](Trial &t) { return Target{t.first(), t.region.rkey() ^ 0x100}; }},
    {"the low bits of the key wrong", false,
     [](Trial &t) { return Target{t.first(), t.region.rkey() ^ 1}; }},
    {"a deregistered key", false,
     [](Trial &t) {
         uint32_t const key = spare(t, t.pd.get()).rkey();
         return Target{t.first(), key};
     }},
    {"around the end of all addresses", false,
     [](Trial &t) { return Target{UINT64_MAX - 7, t.region.rkey()}; }},
    {"outside the region", false,
     [](Trial &t) {
         return Target{t.kind == MrKind::implicit ? 0x1000 : t.end(), t.region.rkey()};
     }},
    {"across the end of the region", false,
     [](Trial &t) {
         return Target{t.kind == MrKind::implicit ? 0x7ffffffff000 - 8 : t.end() - 4,
                       t.region.rkey()};
     }},
    {"PROT_NONE", true,
     [](Trial &t) {
         t.memory.protect(PROT_NONE);
         return Target{t.first(), t.region.rkey()};
     }},
    {"unmapped after the registration", true,
     [](Trial &t) {
         expect_sys(munmap(t.window().data(), t.window().size()), "munmap");
         return Target{t.first(), t.region.rkey()};
     }},
};

struct Operation {
    const char *what;
    Work (*make)(const Trial &t, const Target &target);
};

Work::Sges sge(const Target &target)
{
    return {{target.address, 8, target.key}};
}

// With the target as the local side.
const Operation local_operations[] = {
    {"SEND from", [](const Trial &, const Target &at) { return Work::send(sge(at)); }},
    {"WRITE from",
     [](const Trial &t, const Target &at) {
         return Work::write(sge(at), t.near_memory.address(), t.near.rkey());
     }},
    {"READ into",
     [](const Trial &t, const Target &at) {
         return Work::read(sge(at), t.near_memory.address(), t.near.rkey());
     }},
    {"FETCH_ADD into",
     [](const Trial &t, const Target &at) {
         return Work::fetch_add(sge(at), t.near_memory.address(), t.near.rkey(), 1);
     }},
};

// As the remote one. Aligned, since librxe refuses atomics that aren't.
const Operation remote_operations[] = {
    {"WRITE to", [](const Trial &t,
                    const Target &at) { return Work::write(t.pinned_sge(), at.address, at.key); }},
    {"WRITE with immediate to",
     [](const Trial &t, const Target &at) {
         return Work::write_imm(t.pinned_sge(), at.address, at.key, 5);
     }},
    {"READ from", [](const Trial &t,
                     const Target &at) { return Work::read(t.pinned_sge(), at.address, at.key); }},
    {"FETCH_ADD to",
     [](const Trial &t, const Target &at) {
         return Work::fetch_add(t.pinned_sge(), at.address & ~7ULL, at.key, 1);
     }},
    {"CMP_SWP to",
     [](const Trial &t, const Target &at) {
         return Work::compare_swap(t.pinned_sge(), at.address & ~7ULL, at.key, 0, 1);
     }},
};

void check_flaws(std::span<const Operation> operations, const Outcome &want)
{
    for (MrKind const kind : mr_kinds) {
        for (const Flaw &flaw : flaws) {
            for (const Operation &operation : operations) {
                if (flaw.on_demand_only && kind == MrKind::pinned) {
                    continue;
                }
                Trial t(kind);
                Target const target = flaw.make(t);
                std::string const what =
                    str(operation.what, " ", flaw.what, ", ", name(kind), " MR");
                Work work = operation.make(t, target);
                if (work.raw().opcode >= IBV_WR_ATOMIC_CMP_AND_SWP && target.address % 8 != 0 &&
                    &want == &remote_access) {
                    continue; // the whole word is inside then
                }
                t.expect_outcome(std::move(work), want, what);
            }
        }
    }
    expect_device_works();
}

const Register local{"status.local_protection",
                     "local keys, bounds, mappings of no use: LOC_PROT_ERR, the peer unharmed",
                     [] { check_flaws(local_operations, local_protection); }};

const Register remote{"status.remote_access",
                      "remote keys, bounds, mappings of no use: REM_ACCESS_ERR, event at the peer",
                      [] { check_flaws(remote_operations, remote_access); }};

const Register other_pd{
    "status.other_pd", "a key of another PD, on either side and for receives", [] {
        for (MrKind const kind : mr_kinds) {
            Trial local(kind);
            Pd const pd = local.device.pd();
            Region const foreign = spare(local, pd.get());
            local.expect_outcome(Work::send({foreign.sge(local.window().first(8))}),
                                 local_protection, str("SEND, ", name(kind)));
            Trial remote(kind);
            Pd const pd2 = remote.device.pd();
            Region const foreign2 = spare(remote, pd2.get());
            remote.expect_outcome(Work::write(remote.pinned_sge(), remote.first(), foreign2.rkey()),
                                  remote_access, str("WRITE, ", name(kind)));
            remote.expect_unchanged(name(kind));
            Trial receive(kind);
            Pd const pd3 = receive.device.pd();
            Region const foreign3 = spare(receive, pd3.get());
            receive.b.post_receive({foreign3.sge(receive.window())}, failing);
            receive.b.post_receive({}, behind);
            receive.run(Work::send(receive.pinned_sge()), remote_operation,
                        str("RECV, ", name(kind)));
            receive.expect_unchanged(name(kind));
        }
    }};

const Register rights{
    "status.rights", "each right of an MR that is missing, at the end that misses it", [] {
        constexpr unsigned write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        constexpr unsigned atomic = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        struct Right {
            unsigned access; // all but the one that is needed
            const Operation &operation;
            const Outcome &want;
        };
        const Right missing[] = {
            {IBV_ACCESS_REMOTE_READ, local_operations[2], local_protection},
            {IBV_ACCESS_REMOTE_READ, local_operations[3], local_protection},
            {atomic | IBV_ACCESS_REMOTE_READ, remote_operations[0], remote_access},
            {atomic | IBV_ACCESS_REMOTE_READ, remote_operations[1], remote_access},
            {write | atomic, remote_operations[2], remote_access},
            {write | IBV_ACCESS_REMOTE_READ, remote_operations[3], remote_access},
            {write | IBV_ACCESS_REMOTE_READ, remote_operations[4], remote_access},
        };
        for (MrKind const kind : mr_kinds) {
            for (const Right &right : missing) {
                Trial t(kind, right.access);
                std::string const what = str(right.operation.what, " ", name(kind), " MR");
                t.expect_outcome(right.operation.make(t, {t.first(), t.region.rkey()}), right.want,
                                 what);
                t.expect_unchanged(what);
            }
            Trial t(kind, IBV_ACCESS_REMOTE_READ);
            t.b.post_receive({t.region.sge(t.window())}, failing);
            t.b.post_receive({}, behind);
            t.run(Work::send(t.pinned_sge()), remote_operation,
                  str("RECV without LOCAL_WRITE, ", name(kind)));
            t.expect_unchanged(name(kind));
        }
    }};

const Register read_only{
    "status.read_only_mapping", "what writes to a PROT_READ mapping fails, what reads does not",
    [] {
        for (MrKind const kind : {MrKind::explicit_odp, MrKind::implicit}) {
            auto trial = [&](const Operation &operation, const Outcome &want) {
                Trial t(kind);
                t.memory.protect(PROT_READ);
                std::string const what = str(operation.what, " ", name(kind), " MR");
                t.expect_outcome(operation.make(t, {t.first(), t.region.rkey()}), want, what);
                t.expect_unchanged(what);
            };
            trial(local_operations[2], local_protection);
            trial(local_operations[3], local_protection);
            for (size_t const writing : {0, 1, 3, 4}) {
                trial(remote_operations[writing], remote_access);
            }
            Trial t(kind);
            t.memory.protect(PROT_READ);
            t.a.post({Work::read(t.pinned_sge(), t.first(), t.region.rkey()),
                      Work::write({t.region.sge(t.window().first(8))}, t.near_memory.address(),
                                  t.near.rkey())});
            t.a.sent().wait_ok();
            t.a.sent().wait_ok();
        }
    }};

const Register remapped{
    "status.pinned_unmapped", "pinned pages serve although their mapping is gone", [] {
        Trial t(MrKind::pinned);
        expect_sys(munmap(t.window().data(), t.window().size()), "munmap");
        t.a.post(Work::read(t.pinned_sge(), t.first(), t.region.rkey()));
        t.a.sent().wait_ok();
        Memory want(t.memory.size());
        fill(want.bytes(), Trial::seed);
        expect(std::memcmp(t.near_memory.data(), want.data() + 2 * page_size, 8) == 0,
               "what was read from the pinned page");
    }};

const Register length{
    "status.local_length", "sums over max_msg_sz, messages longer than the receive: LOC_LEN_ERR",
    [] {
        for (MrKind const kind : mr_kinds) {
            Trial sum(kind);
            auto const most = sum.device.port().max_msg_sz;
            ibv_sge huge = sum.region.sge(sum.window());
            huge.length = most;
            sum.expect_outcome(Work::send({huge, huge}), {IBV_WC_LOC_LEN_ERR},
                               str("SEND of twice max_msg_sz, ", name(kind)));
            Trial one(kind);
            huge = one.region.sge(one.window());
            huge.length = most;
            ibv_sge const more = one.region.sge(one.window().first(1));
            one.expect_outcome(Work::write({huge, more}, one.first(), one.region.rkey()),
                               {IBV_WC_LOC_LEN_ERR}, str("WRITE of max_msg_sz + 1, ", name(kind)));
            // librxe refuses a short result buffer itself; the kernel's own check is in hostile.*
            Trial word(kind);
            expect_eq(word.a.try_post({Work::fetch_add({word.region.sge(word.window().first(4))},
                                                       word.first(), word.region.rkey(), 1)}),
                      EINVAL, "posting an atomic with a result buffer of 4 bytes");
            // the receiver's own: the message is longer than the receive
            Trial receive(kind);
            receive.b.post_receive({receive.region.sge(receive.window().first(7))}, failing);
            receive.b.post_receive({}, behind);
            receive.run(Work::send(receive.pinned_sge()),
                        {IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR},
                        str("RECV of 7 bytes, ", name(kind)));
            receive.expect_unchanged(name(kind));
        }
    }};

const Register request{
    "status.remote_request", "operations that the peer's QP doesn't allow: REM_INV_REQ_ERR", [] {
        struct Closed {
            const Operation &operation;
            unsigned right;
        };
        const Closed classes[] = {
            {remote_operations[0], IBV_ACCESS_REMOTE_WRITE},
            {remote_operations[1], IBV_ACCESS_REMOTE_WRITE},
            {remote_operations[2], IBV_ACCESS_REMOTE_READ},
            {remote_operations[3], IBV_ACCESS_REMOTE_ATOMIC},
            {remote_operations[4], IBV_ACCESS_REMOTE_ATOMIC},
        };
        for (MrKind const kind : mr_kinds) {
            for (const Closed &closed : classes) {
                EndpointConfig without;
                without.access &= ~closed.right;
                Trial t(kind, every_access, EndpointConfig{}, without);
                std::string const what = str(closed.operation.what, " ", name(kind), " MR");
                t.expect_outcome(closed.operation.make(t, {t.first(), t.region.rkey()}),
                                 remote_request, what);
                t.expect_unchanged(what);
            }
        }
    }};

const Register operation{"status.remote_operation",
                         "a receive buffer that can't be written: REM_OP_ERR at the sender", [] {
                             for (MrKind const kind : mr_kinds) {
                                 for (const Flaw &flaw : flaws) {
                                     if (flaw.on_demand_only && kind == MrKind::pinned) {
                                         continue;
                                     }
                                     Trial t(kind);
                                     Target const target = flaw.make(t);
                                     t.b.post_receive(sge(target), failing);
                                     t.b.post_receive({}, behind);
                                     t.run(Work::send(t.pinned_sge()), remote_operation,
                                           str("RECV into ", flaw.what, ", ", name(kind), " MR"));
                                 }
                             }
                             expect_device_works();
                         }};

const Register rnr{
    "status.rnr_exceeded", "no receive within rnr_retry: RNR_RETRY_EXC_ERR, the peer unharmed", [] {
        EndpointConfig few;
        few.rnr_retry = 2;
        for (MrKind const kind : mr_kinds) {
            for (bool const imm : {false, true}) {
                Trial t(kind, every_access, few);
                Work::Sges const from{t.region.sge(t.window())};
                t.run(imm ? Work::write_imm({}, t.first(), t.region.rkey(), 1) : Work::send(from),
                      {IBV_WC_RNR_RETRY_EXC_ERR},
                      str(imm ? "WRITE with immediate, " : "SEND, ", name(kind)));
            }
        }
    }};

const Register retry{"status.retry_exceeded",
                     "a peer that is not there: RETRY_EXC_ERR after retry_cnt timeouts", [] {
                         EndpointConfig quick;
                         quick.retry = 3;
                         quick.timeout = 13; // 33.6 ms
                         for (MrKind const kind : mr_kinds) {
                             for (const Operation &operation : remote_operations) {
                                 Trial t(kind, every_access, quick, quick);
                                 t.b.destroy_qp();
                                 auto const since = Clock::now();
                                 t.a.post(
                                     {operation.make(t, {t.first(), t.region.rkey()}).id(failing),
                                      Work::send({}).id(behind)});
                                 Trial::expect_wc(t.a.sent(), failing, IBV_WC_RETRY_EXC_ERR,
                                                  operation.what, Location::current());
                                 expect(Clock::now() - since >= std::chrono::milliseconds(100),
                                        "gave up before three timeouts of 33.6 ms");
                                 Trial::expect_wc(t.a.sent(), behind, IBV_WC_WR_FLUSH_ERR,
                                                  operation.what, Location::current());
                                 t.a.wait_state(IBV_QPS_ERR);
                                 t.device.expect_no_event(operation.what);
                                 t.expect_unchanged(operation.what);
                             }
                         }
                     }};

const Register flush{
    "status.flush", "all that is posted to a QP in error, before and after: flushed, in order", [] {
        constexpr uint64_t count = 20;
        for (MrKind const kind : mr_kinds) {
            Trial t(kind);
            // b's own requests wait, since a posts no receives, when a's failure ends b
            for (uint64_t id = 0; id < count; id++) {
                t.b.post(Work::send({t.region.sge(t.window())}).id(id).unsignalled());
                t.b.post_receive({t.region.sge(t.window())}, id);
            }
            t.a.post(Work::write(t.pinned_sge(), t.first(), t.region.rkey() ^ 0x100));
            t.a.sent().wait_status(IBV_WC_REM_ACCESS_ERR);
            auto const here = Location::current();
            for (uint64_t id = 0; id < count; id++) {
                Trial::expect_wc(t.b.sent(), id, IBV_WC_WR_FLUSH_ERR, "the peer's sends", here);
                Trial::expect_wc(t.b.received(), id, IBV_WC_WR_FLUSH_ERR, "receives", here);
            }
            t.device.expect_event(IBV_EVENT_QP_ACCESS_ERR, t.b.qp(), "the responder");
            for (Endpoint *end : {&t.a, &t.b}) {
                end->post({Work::send({}).id(7).unsignalled(),
                           Work::read(t.pinned_sge(), t.first(), t.region.rkey()).id(8)});
                Trial::expect_wc(end->sent(), 7, IBV_WC_WR_FLUSH_ERR, "posted in ERR", here);
                Trial::expect_wc(end->sent(), 8, IBV_WC_WR_FLUSH_ERR, "posted in ERR", here);
                end->wait_state(IBV_QPS_ERR);
            }
            t.expect_unchanged(name(kind));
        }
    }};

} // namespace
} // namespace vt
