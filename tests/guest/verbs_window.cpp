// SPDX-License-Identifier: BSD-3-Clause
// Memory windows: what they let through, what not, and that nothing does once they are revoked.
#include "verbs_remote.hpp"

#include <atomic>
#include <thread>

namespace vt {
namespace {

using MwPtr = std::unique_ptr<ibv_mw, Destroyer<ibv_dealloc_mw>>;

constexpr unsigned wc_with_inv = IBV_WC_WITH_INV;

constexpr ibv_mw_type types[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2};

constexpr unsigned bindable = all_access | IBV_ACCESS_MW_BIND;
constexpr unsigned read_write = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// The part that is lent in most cases: neither begins nor ends with a page.
constexpr size_t lent_offset = page_size + 16;
constexpr size_t lent_length = page_size + 100;

// Memory of b, a part of which is lent to a.
struct Lender : Pair {
    Memory memory{4 * page_size};
    Memory near_memory{4 * page_size};
    Region region;
    Region near;
    MwPtr window;
    uint32_t key = 0;

    explicit Lender(ibv_mw_type type, MrKind kind = MrKind::implicit, unsigned access = bindable)
        : region(device.region(kind, pd.get(), memory.bytes(), access)),
          near(device.pinned(pd.get(), near_memory.bytes())),
          window(ibv_alloc_mw(pd.get(), type))
    {
        expect(window != nullptr, str("ibv_alloc_mw: ", std::strerror(errno)));
    }
    // Posts the binding to `on` and returns its status; the window's key is then `key`.
    ibv_wc_status bind_on(Endpoint &on, uint64_t address, size_t length, unsigned access)
    {
        Work work = Work::send({});
        ibv_send_wr &wr = work.raw();
        wr.opcode = IBV_WR_BIND_MW;
        wr.bind_mw.mw = window.get();
        wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
        wr.bind_mw.bind_info = {region.get(), address, length, access};
        on.post(work);
        ibv_wc_status const status = on.sent().wait().status;
        if (status == IBV_WC_SUCCESS) {
            key = wr.bind_mw.rkey;
            window->rkey = key; // what the next binding names as the key before
        }
        return status;
    }
    void bind(size_t offset = lent_offset, size_t length = lent_length,
              unsigned access = read_write)
    {
        expect_status(bind_on(b, memory.address() + offset, length, access), IBV_WC_SUCCESS,
                      "binding a window");
    }
    ibv_wc_status write(size_t offset, size_t length)
    {
        fill(near_memory.bytes(), 7);
        a.post(
            Work::write({near.sge(near_memory.bytes(0, length))}, memory.address() + offset, key));
        return a.sent().wait().status;
    }
    ibv_wc_status read(size_t offset, size_t length)
    {
        a.post(
            Work::read({near.sge(near_memory.bytes(0, length))}, memory.address() + offset, key));
        return a.sent().wait().status;
    }
    ibv_wc_status invalidate_on(Endpoint &on, uint32_t rkey)
    {
        Work work = Work::send({});
        work.raw().opcode = IBV_WR_LOCAL_INV;
        work.raw().invalidate_rkey = rkey;
        on.post(work);
        return on.sent().wait().status;
    }
    void expect_revoked(std::string_view how)
    {
        expect_status(write(lent_offset, 8), IBV_WC_REM_ACCESS_ERR, str("a WRITE after ", how));
        expect_all(memory.bytes(), 0, "the memory after a refused WRITE");
    }
};

const Register bounds{
    "window.bounds", "every byte inside a window, none outside, for all kinds of MR", [] {
        struct Range {
            size_t offset;
            size_t length;
            bool inside;
        };
        constexpr Range ranges[] = {
            {lent_offset, lent_length, true},
            {lent_offset, 1, true},
            {lent_offset + lent_length - 1, 1, true},
            {lent_offset - 1, 1, false},
            {lent_offset - 1, 2, false},
            {lent_offset + lent_length, 1, false},
            {lent_offset + lent_length - 1, 2, false},
            {lent_offset, lent_length + 1, false},
            {0, 2 * page_size, false},
        };
        for (MrKind const kind : mr_kinds) {
            for (ibv_mw_type const type : types) {
                for (const Range &range : ranges) {
                    Lender t(type, kind);
                    t.bind();
                    std::string const what = str("type ", int(type), ", ", name(kind), ", offset ",
                                                 range.offset, ", length ", range.length);
                    expect_status(t.write(range.offset, range.length),
                                  range.inside ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR,
                                  "WRITE, " + what);
                    if (!range.inside) {
                        expect_all(t.memory.bytes(), 0, "after a refused WRITE, " + what);
                        continue;
                    }
                    expect_pattern(t.memory.bytes(range.offset, range.length), 7, what);
                    expect_all(t.memory.bytes(0, range.offset), 0, "before it, " + what);
                    expect_status(t.read(range.offset, range.length), IBV_WC_SUCCESS,
                                  "READ, " + what);
                }
            }
        }
    }};

const Register rights{"window.rights", "a window gives the rights it was bound with, and no more",
                      [] {
                          for (ibv_mw_type const type : types) {
                              Lender reader(type);
                              reader.bind(lent_offset, lent_length, IBV_ACCESS_REMOTE_READ);
                              expect_status(reader.read(lent_offset, 64), IBV_WC_SUCCESS, "READ");
                              expect_status(reader.write(lent_offset, 64), IBV_WC_REM_ACCESS_ERR,
                                            "WRITE through a window for READ");
                              Lender writer(type);
                              writer.bind(lent_offset, lent_length, IBV_ACCESS_REMOTE_WRITE);
                              expect_status(writer.write(lent_offset, 64), IBV_WC_SUCCESS, "WRITE");
                              expect_status(writer.read(lent_offset, 64), IBV_WC_REM_ACCESS_ERR,
                                            "READ through a window for WRITE");
                          }
                      }};

const Register revoked{
    "window.revoked", "no access after invalidation, unbinding, deallocation", [] {
        {
            Lender t(IBV_MW_TYPE_2);
            t.bind();
            expect_status(t.invalidate_on(t.b, t.key), IBV_WC_SUCCESS, "LOCAL_INV");
            t.expect_revoked("LOCAL_INV");
        }
        {
            Lender t(IBV_MW_TYPE_1);
            t.bind();
            uint32_t const before = t.key;
            t.bind(lent_offset, 0, 0);
            t.expect_revoked("a binding of no bytes");
            expect(before != t.key, "the key has stayed the same");
        }
        for (ibv_mw_type const type : types) {
            Lender t(type);
            t.bind();
            t.window.reset();
            t.expect_revoked("ibv_dealloc_mw");
        }
        {
            Lender t(IBV_MW_TYPE_1);
            t.bind();
            uint32_t const before = t.key;
            t.bind(0, page_size);
            t.key = before;
            t.expect_revoked("another binding, by the key before");
        }
    }};

const Register by_peer{
    "window.send_with_inv", "SEND with invalidate: tells the key, and revokes it", [] {
        Lender t(IBV_MW_TYPE_2);
        t.bind();
        t.b.post_receive({t.region.sge(t.memory.bytes(0, 64))});
        Work work = Work::send({});
        work.raw().opcode = IBV_WR_SEND_WITH_INV;
        work.raw().invalidate_rkey = t.key;
        t.a.post(work);
        t.a.sent().wait_ok();
        ibv_wc const wc = t.b.received().wait_ok();
        expect((wc.wc_flags & wc_with_inv) != 0, "the completion has no IBV_WC_WITH_INV");
        expect_eq(wc.invalidated_rkey, t.key, "the key in the completion");
        t.expect_revoked("SEND with invalidate");
    }};

const Register foreign_inv{
    "window.foreign_inv", "a key that isn't the peer's to invalidate: errors, nothing revoked", [] {
        Lender t(IBV_MW_TYPE_2);
        Lender other(IBV_MW_TYPE_2);
        other.bind();
        t.b.post_receive({t.region.sge(t.memory.bytes(0, 64))});
        Work work = Work::send({});
        work.raw().opcode = IBV_WR_SEND_WITH_INV;
        work.raw().invalidate_rkey = other.key;
        t.a.post(work);
        expect_status(t.a.sent().wait().status, IBV_WC_REM_OP_ERR, "the sender");
        expect_status(t.b.received().wait().status, IBV_WC_MW_BIND_ERR, "the receiver");
        expect_status(other.write(lent_offset, 8), IBV_WC_SUCCESS, "the other's window");
    }};

const Register refused{
    "window.refused", "bindings that aren't allowed: memory window bind error", [] {
        for (ibv_mw_type const type : types) {
            {
                Lender t(type, MrKind::explicit_odp);
                expect_status(
                    t.bind_on(t.b, t.memory.address() + 3 * page_size, page_size + 1, read_write),
                    IBV_WC_MW_BIND_ERR, "beyond the end of the MR");
            }
            {
                Lender t(type, MrKind::explicit_odp);
                expect_status(t.bind_on(t.b, t.memory.address() - 1, 8, read_write),
                              IBV_WC_MW_BIND_ERR, "before the MR");
            }
            {
                Lender t(type, MrKind::implicit);
                expect_status(t.bind_on(t.b, UINT64_MAX - 4, 64, read_write), IBV_WC_MW_BIND_ERR,
                              "around the end of all addresses");
            }
            {
                Lender t(type, MrKind::implicit, all_access);
                expect_status(t.bind_on(t.b, t.memory.address(), 8, read_write), IBV_WC_MW_BIND_ERR,
                              "to an MR without IBV_ACCESS_MW_BIND");
            }
            {
                Lender t(type, MrKind::implicit, IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ);
                expect_status(t.bind_on(t.b, t.memory.address(), 8, IBV_ACCESS_REMOTE_WRITE),
                              IBV_WC_MW_BIND_ERR, "for WRITE to an MR that can't be written");
            }
            {
                // keys, windows and QPs belong to a PD
                Lender t(type);
                Lender other(type);
                expect_status(t.bind_on(other.b, t.memory.address(), 8, read_write),
                              IBV_WC_MW_BIND_ERR, "from a QP of another PD");
            }
        }
        Lender t(IBV_MW_TYPE_2);
        t.bind();
        expect_status(t.bind_on(t.b, t.memory.address(), 8, read_write), IBV_WC_MW_BIND_ERR,
                      "a type 2 window that is bound");
    }};

const Register one_qp{
    "window.type2_one_qp", "a type 2 window serves the QP that bound it", [] {
        Lender t(IBV_MW_TYPE_2);
        // bound by a, so that only a's peer may use it, and that is b
        expect_status(t.bind_on(t.a, t.memory.address() + lent_offset, lent_length, read_write),
                      IBV_WC_SUCCESS, "binding");
        t.expect_revoked("binding to the other QP");
    }};

const Register busy{"window.dereg_busy", "an MR with a window can't be deregistered", [] {
                        for (MrKind const kind : mr_kinds) {
                            Lender t(IBV_MW_TYPE_2, kind);
                            t.bind();
                            expect_eq(ibv_dereg_mr(t.region.get()), EBUSY, "ibv_dereg_mr");
                            expect_status(t.write(lent_offset, 8), IBV_WC_SUCCESS,
                                          "the window afterwards");
                            expect_status(t.invalidate_on(t.b, t.key), IBV_WC_SUCCESS, "LOCAL_INV");
                        } // ~Region fails loudly if it still can't
                    }};

const Register remapped{
    "window.remapped", "a window of an implicit MR lends addresses, whatever is mapped there", [] {
        Lender t(IBV_MW_TYPE_2);
        t.bind();
        expect_status(t.write(lent_offset, lent_length), IBV_WC_SUCCESS, "WRITE");
        t.memory.replace();
        expect_all(t.memory.bytes(), 0, "new memory at the same address");
        expect_status(t.write(lent_offset, lent_length), IBV_WC_SUCCESS, "WRITE to new memory");
        expect_pattern(t.memory.bytes(lent_offset, lent_length), 7, "new memory");
        t.memory.protect(PROT_NONE);
        expect_status(t.write(lent_offset, 8), IBV_WC_REM_ACCESS_ERR, "WRITE to PROT_NONE");
        t.memory.protect(PROT_READ | PROT_WRITE);
    }};

const Register race{
    "window.revoke_race", "once a window is revoked, a WRITE under way writes no more", [] {
        for (int round = 0; round < 20; round++) {
            Lender t(IBV_MW_TYPE_2);
            t.bind(0, t.memory.size());
            std::atomic<bool> writing{false};
            std::thread writer([&t, &writing] {
                for (uint64_t seed = 0;; seed++) {
                    fill(t.near_memory.bytes(), seed);
                    t.a.post(Work::write({t.near.sge(t.near_memory.bytes())}, t.memory.address(),
                                         t.key));
                    if (t.a.sent().wait().status != IBV_WC_SUCCESS) {
                        return;
                    }
                    writing = true;
                }
            });
            bool const began = wait_until([&writing] { return writing.load(); });
            ibv_wc_status const status = t.invalidate_on(t.b, t.key);
            std::vector<std::byte> then(t.memory.bytes().begin(), t.memory.bytes().end());
            writer.join();
            expect(began, "no WRITE came through");
            expect_status(status, IBV_WC_SUCCESS, "LOCAL_INV");
            expect(std::equal(then.begin(), then.end(), t.memory.bytes().begin()),
                   "the memory was written after its window was revoked");
        }
    }};

} // namespace
} // namespace vt
