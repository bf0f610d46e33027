// SPDX-License-Identifier: BSD-3-Clause
// Who may reach what: addresses, keys, rights, protection domains.
#include "verbs_remote.hpp"

#include <sys/syscall.h>

namespace vt {
namespace {

struct Bad {
    const char *what;
    uint64_t address;
    size_t length;
};

// The ends of user space on x86-64 with 4 and 5 levels of page tables.
constexpr uint64_t task_size = 0x7ffffffff000;
constexpr uint64_t task_size_5 = 0xfffffffffff000;

// Addresses that no process owns. The lengths stay below any message limit.
std::vector<Bad> bad_addresses(uint64_t unmapped)
{
    return {
        {"unmapped", unmapped, 64},
        {"page 0", 0, 64},
        {"the last user page", task_size - 4096, 4096},
        {"across the end of user space", task_size - 8, 64},
        {"the first address behind user space", task_size, 8},
        {"the last user page of 5 levels", task_size_5 - 4096, 4096},
        {"across the end of 5 levels", task_size_5 - 8, 64},
        {"the first address behind 5 levels", task_size_5, 8},
        {"not canonical with 4 levels", 0x0000800000000000, 8},
        {"not canonical with 5 levels", 0x0100000000000000, 8},
        {"the kernel's direct map", 0xffff888000000000, 64},
        {"the kernel's direct map with 5 levels", 0xff11000000000000, 64},
        {"the kernel's text", 0xffffffff81000000, 64},
        {"the vsyscall page", 0xffffffffff600000, 64},
        {"wrapping around at 2^64", UINT64_MAX - 10, 64},
        {"ending at 2^64", UINT64_MAX - 63, 64},
        {"the last byte", UINT64_MAX, 1},
    };
}

// Far from where the kernel places mappings by itself, so that it stays unmapped.
uint64_t unmapped_address()
{
    constexpr uint64_t address = 0x200000000000;
    unsigned char present = 0;
    expect(mincore(reinterpret_cast<void *>(address), page_size, &present) == -1 && errno == ENOMEM,
           "the address chosen as an unmapped one is mapped");
    return address;
}

const Register remote_addresses{
    "access.remote_address", "bad remote addresses: remote access error", [] {
        Device device;
        Pd pd = device.pd();
        Region region = device.implicit(pd.get());
        for (const Bad &bad : bad_addresses(unmapped_address())) {
            expect_status(
                remote_write_status(device, pd.get(), bad.address, bad.length, region.rkey()),
                IBV_WC_REM_ACCESS_ERR, str("WRITE to ", bad.what));
            expect_status(
                remote_read_status(device, pd.get(), bad.address, bad.length, region.rkey()),
                IBV_WC_REM_ACCESS_ERR, str("READ from ", bad.what));
        }
        expect_device_works();
    }};

const Register local_addresses{
    "access.local_address", "bad local addresses: local protection error", [] {
        Device device;
        Pd pd = device.pd();
        Region region = device.implicit(pd.get());
        for (const Bad &bad : bad_addresses(unmapped_address())) {
            ibv_sge sge{bad.address, static_cast<uint32_t>(bad.length), region.lkey()};
            expect_status(local_send_status(device, pd.get(), sge), IBV_WC_LOC_PROT_ERR,
                          str("SEND from ", bad.what));
            expect_status(local_read_status(device, pd.get(), sge), IBV_WC_LOC_PROT_ERR,
                          str("READ into ", bad.what));
        }
        expect_device_works();
    }};

const Register into_nothing{"access.recv_address",
                            "a receive into unmapped memory: both sides told", [] {
                                Pair pair;
                                Region region = pair.device.implicit(pair.pd.get());
                                Memory from(page_size);
                                pair.b.post_receive({{unmapped_address(), 64, region.lkey()}});
                                pair.a.post(Work::send({region.sge(from.bytes(0, 64))}));
                                pair.b.received().wait_status(IBV_WC_LOC_PROT_ERR);
                                pair.a.sent().wait_status(IBV_WC_REM_OP_ERR);
                                expect_device_works();
                            }};

const Register read_into_constant{
    "access.read_into_read_only", "READ into and RECV to read-only memory: refused, unchanged", [] {
        Memory target(4 * page_size);
        fill(target.bytes(), 1);
        target.protect(PROT_READ);
        Pair pair;
        Region region = pair.device.on_demand(pair.pd.get(), target.bytes());
        expect_status(
            local_read_status(pair.device, pair.pd.get(), region.sge(target.bytes(0, 100))),
            IBV_WC_LOC_PROT_ERR, "READ into PROT_READ memory");
        Memory from(page_size);
        Region source = pair.device.pinned(pair.pd.get(), from.bytes());
        pair.b.post_receive({region.sge(target.bytes(0, 100))});
        pair.a.post(Work::send({source.sge(from.bytes(0, 100))}));
        pair.b.received().wait_status(IBV_WC_LOC_PROT_ERR);
        expect_pattern(target.bytes(), 1, "read-only memory");
    }};

const Register keys{
    "access.keys", "wrong, deregistered and foreign keys", [] {
        Device device;
        Pd pd = device.pd();
        Pd other_pd = device.pd();
        Memory memory(4 * page_size);
        Region region = device.pinned(pd.get(), memory.bytes());
        Region foreign = device.pinned(other_pd.get(), memory.bytes());
        uint64_t address = memory.address();
        for (uint32_t rkey : {0U, 1U, UINT32_MAX, region.rkey() + 1, region.rkey() ^ 0x80000000U,
                              region.rkey() + 256, foreign.rkey()}) {
            expect_status(remote_write_status(device, pd.get(), address, 64, rkey),
                          IBV_WC_REM_ACCESS_ERR, str("WRITE with rkey 0x", std::hex, rkey));
            expect_status(local_send_status(device, pd.get(), {address, 64, rkey}),
                          IBV_WC_LOC_PROT_ERR, str("SEND with lkey 0x", std::hex, rkey));
        }
        expect_all(memory.bytes(), 0, "memory behind refused writes");
        expect_status(remote_write_status(device, pd.get(), address, 64, region.rkey()),
                      IBV_WC_SUCCESS, "WRITE with the right rkey");
    }};

const Register implicit_keys{
    "access.implicit_pd", "an implicit region's key of another PD is refused", [] {
        Device device;
        Pd pd = device.pd();
        Pd other_pd = device.pd();
        Region foreign = device.implicit(other_pd.get());
        Memory memory(page_size);
        expect_status(remote_write_status(device, pd.get(), memory.address(), 64, foreign.rkey()),
                      IBV_WC_REM_ACCESS_ERR, "WRITE");
        expect_status(remote_read_status(device, pd.get(), memory.address(), 64, foreign.rkey()),
                      IBV_WC_REM_ACCESS_ERR, "READ");
        expect_status(local_send_status(device, pd.get(), foreign.sge(memory.bytes(0, 64))),
                      IBV_WC_LOC_PROT_ERR, "SEND");
        expect_all(memory.bytes(), 0, "memory behind refused writes");
    }};

void check_rights(const Device &device, ibv_pd *pd, const std::function<Region(unsigned)> &make,
                  const Memory &memory)
{
    Region none = make(0);
    Region local = make(IBV_ACCESS_LOCAL_WRITE);
    Region readable = make(IBV_ACCESS_REMOTE_READ);
    Region writable = make(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    uint64_t at = memory.address();
    auto write = [&](const Region &r) { return remote_write_status(device, pd, at, 64, r.rkey()); };
    auto read = [&](const Region &r) { return remote_read_status(device, pd, at, 64, r.rkey()); };
    expect_status(write(none), IBV_WC_REM_ACCESS_ERR, "WRITE without any right");
    expect_status(write(local), IBV_WC_REM_ACCESS_ERR, "WRITE with LOCAL_WRITE only");
    expect_status(write(readable), IBV_WC_REM_ACCESS_ERR, "WRITE with REMOTE_READ only");
    expect_status(write(writable), IBV_WC_SUCCESS, "WRITE with REMOTE_WRITE");
    expect_status(read(none), IBV_WC_REM_ACCESS_ERR, "READ without any right");
    expect_status(read(local), IBV_WC_REM_ACCESS_ERR, "READ with LOCAL_WRITE only");
    expect_status(read(writable), IBV_WC_REM_ACCESS_ERR, "READ with REMOTE_WRITE only");
    expect_status(read(readable), IBV_WC_SUCCESS, "READ with REMOTE_READ");
    auto sge = [&](const Region &r) { return r.sge(memory.bytes(0, 64)); };
    expect_status(local_send_status(device, pd, sge(none)), IBV_WC_SUCCESS,
                  "SEND, no right needed");
    expect_status(local_read_status(device, pd, sge(readable)), IBV_WC_LOC_PROT_ERR,
                  "READ into a region without LOCAL_WRITE");
    expect_status(local_read_status(device, pd, sge(local)), IBV_WC_SUCCESS,
                  "READ into a region with LOCAL_WRITE");
}

const Register rights{
    "access.rights_pinned", "each right of a pinned region, given and missing", [] {
        Device device;
        Pd pd = device.pd();
        Memory memory(page_size);
        check_rights(
            device, pd.get(),
            [&](unsigned access) { return device.pinned(pd.get(), memory.bytes(), access); },
            memory);
    }};

const Register odp_rights{
    "access.rights_odp", "each right of an on-demand region, given and missing", [] {
        Device device;
        Pd pd = device.pd();
        Memory memory(page_size);
        check_rights(
            device, pd.get(),
            [&](unsigned access) { return device.on_demand(pd.get(), memory.bytes(), access); },
            memory);
    }};

const Register qp_rights{
    "access.qp_rights", "the QP's own access flags restrict the peer", [] {
        EndpointConfig closed;
        closed.access = 0;
        Memory memory(page_size);
        for (bool reading : {false, true}) {
            Pair pair(EndpointConfig{}, closed);
            Region region = pair.device.pinned(pair.pd.get(), memory.bytes());
            auto sge = region.sge(memory.bytes(0, 64));
            pair.a.post(reading ? Work::read({sge}, memory.address() + 512, region.rkey())
                                : Work::write({sge}, memory.address() + 512, region.rkey()));
            // Invalid request is the specification's word for a request class that is off, access
            // error is what several devices answer.
            ibv_wc wc = pair.a.sent().wait();
            expect(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_ACCESS_ERR,
                   str("got ", ibv_wc_status_str(wc.status)));
        }
    }};

const Register range{
    "access.range", "one byte before, behind and around a pinned region", [] {
        Device device;
        Pd pd = device.pd();
        Memory memory(4 * page_size);
        Region region = device.pinned(pd.get(), memory.bytes(page_size + 100, page_size));
        uint64_t first = memory.address() + page_size + 100;
        auto write = [&](uint64_t address, size_t length) {
            return remote_write_status(device, pd.get(), address, length, region.rkey());
        };
        expect_status(write(first, page_size), IBV_WC_SUCCESS, "exactly the region");
        expect_status(write(first - 1, 1), IBV_WC_REM_ACCESS_ERR, "the byte before");
        expect_status(write(first - 1, 2), IBV_WC_REM_ACCESS_ERR, "across the start");
        expect_status(write(first + page_size, 1), IBV_WC_REM_ACCESS_ERR, "the byte behind");
        expect_status(write(first + page_size - 1, 2), IBV_WC_REM_ACCESS_ERR, "across the end");
        expect_status(write(first, page_size + 1), IBV_WC_REM_ACCESS_ERR, "one byte too long");
        expect_status(write(UINT64_MAX - 10, 64), IBV_WC_REM_ACCESS_ERR, "wrapping around");
        ibv_sge outside{first + page_size, 8, region.lkey()};
        expect_status(local_send_status(device, pd.get(), outside), IBV_WC_LOC_PROT_ERR,
                      "SEND from behind the region");
        // A zero-length WRITE checks neither key nor address (o9-... of the specification).
        expect_status(write(0, 0), IBV_WC_SUCCESS, "a WRITE of nothing");
    }};

const Register bad_registrations{
    "access.bad_registrations", "registrations that must be refused", [] {
        Device device;
        Pd pd = device.pd();
        Memory memory(page_size);
        auto refused = [&](void *address, size_t length, unsigned access, std::string_view what) {
            MrPtr mr(ibv_reg_mr(pd.get(), address, length, access));
            expect(mr == nullptr, str("registered: ", what));
        };
        refused(memory.data(), page_size, IBV_ACCESS_REMOTE_WRITE,
                "REMOTE_WRITE without LOCAL_WRITE");
        refused(memory.data(), SIZE_MAX, IBV_ACCESS_LOCAL_WRITE, "pinned, wrapping around");
        refused(reinterpret_cast<void *>(unmapped_address()), page_size, IBV_ACCESS_LOCAL_WRITE,
                "pinned, unmapped");
        refused(reinterpret_cast<void *>(0xffff888000000000), page_size, IBV_ACCESS_LOCAL_WRITE,
                "pinned, kernel memory");
        if (device.has_odp()) {
            constexpr unsigned odp = IBV_ACCESS_ON_DEMAND;
            refused(memory.data(), SIZE_MAX - 100, odp, "ODP, wrapping around");
        }
        memory.protect(PROT_READ);
        refused(memory.data(), page_size, IBV_ACCESS_LOCAL_WRITE, "pinned for writing, read-only");
    }};

const Register secret{
    "access.secretmem", "memfd_secret memory: an access error, no kernel fault", [] {
        int fd = static_cast<int>(syscall(SYS_memfd_secret, 0));
        if (fd < 0) {
            throw Skip(str("memfd_secret: ", std::strerror(errno)));
        }
        expect_sys(ftruncate(fd, 4 * page_size), "ftruncate");
        Memory target(4 * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
        close(fd);
        fill(target.bytes(), 1);
        Device device;
        Pd pd = device.pd();
        Region region = device.on_demand(pd.get(), target.bytes());
        expect_status(remote_read_status(device, pd.get(), target.address(), 64, region.rkey()),
                      IBV_WC_REM_ACCESS_ERR, "READ of secret memory");
        expect_status(remote_write_status(device, pd.get(), target.address(), 64, region.rkey()),
                      IBV_WC_REM_ACCESS_ERR, "WRITE to secret memory");
        expect_pattern(target.bytes(), 1, "secret memory");
    }};

const Register partial{
    "access.partial", "a WRITE that runs into a hole: an error, all before it intact", [] {
        Memory target(8 * page_size);
        Device device;
        Pd pd = device.pd();
        Region region = device.on_demand(pd.get(), target.bytes());
        expect_sys(munmap(target.data() + 4 * page_size, page_size), "munmap");
        fill(target.bytes(5 * page_size, 3 * page_size), 4);
        expect_status(
            remote_write_status(device, pd.get(), target.address(), 8 * page_size, region.rkey()),
            IBV_WC_REM_ACCESS_ERR, "WRITE across a hole");
        expect_pattern(target.bytes(5 * page_size, 3 * page_size), 4, "memory behind the hole");
    }};

} // namespace
} // namespace vt
