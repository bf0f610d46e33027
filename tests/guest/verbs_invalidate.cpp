// SPDX-License-Identifier: BSD-3-Clause
// Invalidation: whatever the owner does to its address space, the device follows at once.
// Each case first warms the translations up, so that a missing invalidation is seen as old data.
#include "verbs_remote.hpp"

#include <atomic>
#include <thread>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // since Linux 6.1, glibc 2.37
#endif

namespace vt {
namespace {

constexpr size_t size = 32 * page_size;

void warm_up(Remote &t, size_t length = size)
{
    t.write_checked(0, length, 1, "warm-up");
    t.read_checked(0, length, 1, "warm-up");
}

const Register replaced{"inv.munmap_mmap", "munmap, then mmap at the same address, 20 times", [] {
                            Memory target(size);
                            Remote t(target);
                            warm_up(t);
                            for (uint64_t round = 0; round < 20; ++round) {
                                target.replace();
                                expect_all(t.read(0, size), 0, "new mapping read by the peer");
                                target.replace();
                                t.write_checked(0, size, round, "written to the new mapping");
                                target.replace();
                                fill(target.bytes(), round + 100);
                                t.write_from(0, size);
                                expect_pattern(t.local().bytes(0, size), round + 100,
                                               "WRITE from the new mapping");
                            }
                        }};

const Register local_replaced{
    "inv.local", "the same for memory that is the local side of a READ", [] {
        Memory target(size);
        Remote t(target);
        warm_up(t);
        for (uint64_t round = 0; round < 20; ++round) {
            fill(t.local().bytes(0, size), round);
            target.replace();
            t.read_into(0, size);
            expect_pattern(target.bytes(), round, "READ into the new mapping");
        }
    }};

const Register dontneed{
    "inv.dontneed", "MADV_DONTNEED, whole and single pages", [] {
        Memory target(size);
        Remote t(target);
        warm_up(t);
        target.advise(MADV_DONTNEED);
        expect_all(t.read(0, size), 0, "after MADV_DONTNEED");
        t.write_checked(0, size, 2, "written after MADV_DONTNEED");
        expect_sys(madvise(target.data() + 5 * page_size, page_size, MADV_DONTNEED), "madvise");
        auto got = t.read(0, size);
        expect_all(got.subspan(5 * page_size, page_size), 0, "the page given back");
        fill(target.bytes(), 2);
        expect_sys(madvise(target.data() + 5 * page_size, page_size, MADV_DONTNEED), "madvise");
        t.read(0, size);
        expect(std::memcmp(t.local().data(), target.data(), size) == 0,
               "the owner's and the peer's "
               "view differ");
    }};

const Register moved{
    "inv.mremap", "mremap: the data is at the new address, the old one faults", [] {
        Memory target(size);
        Device probe;
        if (!probe.has_implicit()) {
            throw Skip(str(Device::name(), " has no implicit ODP, a region can't follow mremap"));
        }
        Remote t(target);
        warm_up(t);
        Memory hole(size); // reserves the destination
        void *moved = mremap(target.data(), size, size, MREMAP_MAYMOVE | MREMAP_FIXED, hole.data());
        expect_eq(moved, static_cast<void *>(hole.data()), "mremap");
        uint64_t old_address = target.address();
        target.release();
        t.a.post(Work::read({t.near().sge(t.local().bytes(0, size))}, hole.address(),
                            t.region().rkey()));
        t.a.sent().wait_ok();
        expect_pattern(t.local().bytes(0, size), 1, "read at the new address");
        fill(t.local().bytes(0, size), 5);
        t.a.post(Work::write({t.near().sge(t.local().bytes(0, size))}, hole.address(),
                             t.region().rkey()));
        t.a.sent().wait_ok();
        expect_pattern(hole.bytes(), 5, "written at the new address");
        t.a.post(
            Work::write({t.near().sge(t.local().bytes(0, size))}, old_address, t.region().rkey()));
        t.a.sent().wait_status(IBV_WC_REM_ACCESS_ERR);
        expect_pattern(hole.bytes(), 5, "after a write to the old address");
    }};

const Register unmapped{
    "inv.munmap", "after munmap the peer's write fails and lands nowhere", [] {
        Memory target(size);
        Remote t(target);
        warm_up(t);
        expect_sys(munmap(target.data() + 4 * page_size, 4 * page_size), "munmap");
        t.write_checked(0, 4 * page_size, 7, "written before the hole");
        t.write_checked(8 * page_size, 4 * page_size, 8, "written behind the hole");
        t.a.post(Work::write({t.near().sge(t.local().bytes(0, 64))},
                             target.address() + 4 * page_size, t.region().rkey()));
        t.a.sent().wait_status(IBV_WC_REM_ACCESS_ERR);
        expect_device_works();
    }};

const Register to_read_only{
    "inv.mprotect_read", "PROT_READ: the peer reads, but no longer writes", [] {
        Memory target(size);
        Remote t(target);
        warm_up(t);
        target.protect(PROT_READ);
        t.read_checked(0, size, 1, "read from PROT_READ");
        fill(t.local().bytes(0, size), 9);
        expect_status(
            remote_write_status(t.device, t.pd.get(), target.address(), 100, t.region().rkey()),
            IBV_WC_REM_ACCESS_ERR, "WRITE to PROT_READ memory");
        expect_pattern(target.bytes(), 1, "the memory after a refused write");
        target.protect(PROT_READ | PROT_WRITE);
        t.write_checked(0, size, 3, "written after PROT_WRITE came back");
    }};

const Register to_none{
    "inv.mprotect_none", "PROT_NONE: neither reads nor writes", [] {
        Memory target(size);
        Remote t(target);
        warm_up(t);
        target.protect(PROT_NONE);
        uint32_t rkey = t.region().rkey();
        expect_status(remote_read_status(t.device, t.pd.get(), target.address(), 100, rkey),
                      IBV_WC_REM_ACCESS_ERR, "READ of PROT_NONE memory");
        expect_status(remote_write_status(t.device, t.pd.get(), target.address(), 100, rkey),
                      IBV_WC_REM_ACCESS_ERR, "WRITE to PROT_NONE memory");
        target.protect(PROT_READ | PROT_WRITE);
        t.read_checked(0, size, 1, "read after the protection was lifted");
    }};

const Register truncated{
    "inv.ftruncate", "a shared file mapping that is cut off and grows again", [] {
        int fd = expect_sys(memfd_create("odp-test", MFD_CLOEXEC), "memfd_create");
        expect_sys(ftruncate(fd, size), "ftruncate");
        Memory target(size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
        Remote t(target);
        warm_up(t);
        expect_sys(ftruncate(fd, size / 2), "ftruncate");
        expect_status(remote_write_status(t.device, t.pd.get(), target.address() + size / 2, 100,
                                          t.region().rkey()),
                      IBV_WC_REM_ACCESS_ERR, "WRITE behind the end of the file");
        t.read_checked(0, size / 2, 1, "read before the end of the file");
        expect_sys(ftruncate(fd, size), "ftruncate");
        expect_all(t.read(size / 2, size / 2), 0, "the part that came back");
        t.write_checked(size / 2, size / 2, 4, "written to the part that came back");
        close(fd);
    }};

const Register huge{
    "inv.thp", "transparent huge pages: formed, split, given back in part", [] {
        Memory space(3 * huge_size);
        auto start = (space.address() + huge_size - 1) / huge_size * huge_size - space.address();
        Remote t(space);
        space.advise(MADV_HUGEPAGE);
        t.write_checked(start, huge_size, 1, "2 MiB first touched by the peer");
        t.read_checked(start, huge_size, 1, "read back");
        // Splits the huge mapping under warm translations.
        expect_sys(madvise(space.data() + start + 17 * page_size, page_size, MADV_DONTNEED),
                   "madvise");
        expect_all(t.read(start + 17 * page_size, page_size), 0, "the page given back");
        t.write_checked(start, huge_size, 2, "written over the split huge page");
        // Small pages first, then collapsed to a huge one: every page moves.
        expect_sys(madvise(space.data() + start, huge_size, MADV_DONTNEED), "madvise");
        space.advise(MADV_NOHUGEPAGE);
        t.write_checked(start, huge_size, 3, "written to small pages");
        space.advise(MADV_HUGEPAGE);
        if (madvise(space.data() + start, huge_size, MADV_COLLAPSE) != 0) {
            expect(errno == EINVAL || errno == EAGAIN || errno == ENOMEM,
                   str("MADV_COLLAPSE: ", std::strerror(errno)));
            throw Skip(str("all but MADV_COLLAPSE passed, which says: ", std::strerror(errno)));
        }
        t.read_checked(start, huge_size, 3, "read after the collapse");
        t.write_checked(start, huge_size, 4, "written after the collapse");
        expect_sys(munmap(space.data() + start + huge_size / 2, page_size), "munmap");
        expect_status(remote_write_status(t.device, t.pd.get(),
                                          space.address() + start + huge_size / 2, 8,
                                          t.region().rkey()),
                      IBV_WC_REM_ACCESS_ERR, "WRITE to a page unmapped from a huge one");
        t.write_checked(start, huge_size / 2, 5, "written before the hole");
    }};

const Register churn{"inv.fresh_buffers", "each message from and to memory mapped only for it", [] {
                         Pair pair;
                         Region region = pair.device.implicit(pair.pd.get());
                         for (uint64_t round = 0; round < 200; ++round) {
                             Memory from((1 + round % 20) * page_size);
                             Memory to(from.size());
                             fill(from.bytes(), round);
                             pair.b.post_receive({region.sge(to.bytes())});
                             pair.a.post(Work::send({region.sge(from.bytes())}));
                             pair.a.sent().wait_ok();
                             pair.b.received().wait_ok();
                             expect_pattern(to.bytes(), round, "received");
                         }
                     }};

// A second thread disturbs the address space all the time while transfers go on.
template <class Disturb> void storm(Disturb disturb, int rounds)
{
    Memory target(size);
    Remote t(target);
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> times{0};
    std::thread thread([&] {
        while (!stop) {
            disturb(target);
            ++times;
        }
    });
    std::string problem;
    try {
        for (int round = 0; round < rounds; ++round) {
            t.write(0, size, static_cast<uint64_t>(round) + 1);
            t.read(16 * page_size, 16 * page_size);
        }
    } catch (const Failure &failure) {
        problem = failure.what();
    }
    stop = true;
    thread.join();
    expect(problem.empty(), problem);
    expect(times > 0, "the disturbing thread never ran");
    t.write_checked(0, size, 1000, "written after the storm");
}

const Register storm_dontneed{
    "inv.storm_dontneed", "transfers while pages are given back all the time",
    [] { storm([](Memory &m) { madvise(m.data(), m.size(), MADV_DONTNEED); }, 150); }};

const Register storm_protect{
    "inv.storm_mprotect", "transfers to pages whose neighbours change protection all the time", [] {
        Memory beside(size);
        storm(
            [&](Memory &) {
                mprotect(beside.data(), size, PROT_READ);
                mprotect(beside.data(), size, PROT_READ | PROT_WRITE);
            },
            150);
    }};

const Register storm_data{
    "inv.storm_data", "giving back other pages never touches these ones", [] {
        Memory target(64 * page_size);
        target.advise(MADV_NOHUGEPAGE);
        Remote t(target);
        std::atomic<bool> stop{false};
        std::thread thread([&] {
            while (!stop) { // odd pages go, even pages are under test
                for (size_t page = 1; page < 64; page += 2) {
                    madvise(target.data() + page * page_size, page_size, MADV_DONTNEED);
                }
            }
        });
        std::string problem;
        try {
            for (uint64_t round = 0; round < 60; ++round) {
                for (size_t page = 0; page < 64; page += 8) {
                    t.write_checked(page * page_size, page_size, round * 64 + page, "even page");
                    t.read_checked(page * page_size, page_size, round * 64 + page, "even page");
                }
            }
        } catch (const Failure &failure) {
            problem = failure.what();
        }
        stop = true;
        thread.join();
        expect(problem.empty(), problem);
    }};

} // namespace
} // namespace vt
