// SPDX-License-Identifier: BSD-3-Clause
// Page faults: what an operation brings in, what the counters say, what stays unpinned.
#include "verbs_remote.hpp"

#include <fcntl.h>

#include <array>
#include <fstream>

namespace vt {
namespace {

// A field of /proc/self/status in KiB (proc_pid_status(5)).
uint64_t status_kib(std::string_view field)
{
    std::ifstream status("/proc/self/status");
    for (std::string name; status >> name;) {
        uint64_t value = 0;
        if (name == str(field, ":") && status >> value) {
            return value;
        }
    }
    fail(str("no ", field, " in /proc/self/status"));
}

const Register counters{
    "fault.counters", "page_faults and page_invalidations count, warm is flat", [] {
        constexpr size_t pages = 64;
        Memory target(pages * page_size);
        target.advise(MADV_NOHUGEPAGE);
        Remote t(target);
        uint64_t start = mr_counter("page_faults");
        t.write_checked(0, target.size(), 1, "written to cold memory");
        uint64_t cold = mr_counter("page_faults");
        expect(cold > start,
               str("page_faults stays at ", start, " although ", pages, " pages were cold"));
        for (uint64_t round = 2; round < 12; ++round) {
            t.write_checked(0, target.size(), round, "written to warm memory");
            t.read_checked(0, target.size(), round, "read from warm memory");
        }
        expect_eq(mr_counter("page_faults"), cold, "page_faults after 20 transfers on warm memory");
        uint64_t invalidations = mr_counter("page_invalidations");
        target.advise(MADV_DONTNEED);
        expect(mr_counter("page_invalidations") > invalidations,
               "page_invalidations doesn't count MADV_DONTNEED of warm memory");
        t.write_checked(0, target.size(), 20, "written after MADV_DONTNEED");
        expect(mr_counter("page_faults") > cold, "page_faults doesn't count what came after");
    }};

const Register both_cold{
    "fault.both_cold", "cold on both sides, each operation, 200 pages", [] {
        constexpr size_t size = 200 * page_size;
        Pair pair;
        Memory memory(2 * size);
        Region region = pair.device.on_demand(pair.pd.get(), memory.bytes());
        auto sge = [&](size_t offset) { return region.sge(memory.bytes(offset, size)); };
        pair.a.post(Work::read({sge(0)}, memory.address() + size, region.rkey()));
        pair.a.sent().wait_ok();
        expect_all(memory.bytes(0, size), 0, "read from memory never touched");
        memory.advise(MADV_DONTNEED);
        pair.b.post_receive({sge(size)});
        pair.a.post(Work::send({sge(0)}));
        pair.a.sent().wait_ok();
        pair.b.received().wait_ok();
        expect_all(memory.bytes(), 0, "sent from memory never touched");
    }};

const Register sparse{"fault.sparse", "one byte in each of 500 pages, only those come in", [] {
                          Memory target(1000 * page_size);
                          target.advise(MADV_NOHUGEPAGE);
                          Remote t(target);
                          for (size_t page = 0; page < 1000; page += 2) {
                              t.write(page * page_size + page % 4096, 1, page);
                          }
                          expect_eq(present_pages(target.bytes()), 500U, "pages present");
                          for (size_t page = 0; page < 1000; page += 2) {
                              expect_pattern(target.bytes(page * page_size + page % 4096, 1), page,
                                             "written byte");
                          }
                      }};

const Register nothing_pinned{
    "fault.nothing_pinned", "registering populates and pins nothing", [] {
        Memory target(64 * mib);
        target.advise(MADV_NOHUGEPAGE);
        Device device;
        Pd pd = device.pd();
        uint64_t before = status_kib("VmPin");
        {
            Region region = device.on_demand(pd.get(), target.bytes());
            expect_eq(status_kib("VmPin"), before, "VmPin (KiB) with an on-demand region");
            expect_eq(present_pages(target.bytes()), 0U, "pages brought in by registering");
        }
        // The same measure does see a pinned region.
        Region pinned = device.pinned(pd.get(), target.bytes(0, mib));
        expect_eq(status_kib("VmPin"), before + 1024, "VmPin (KiB) with 1 MiB pinned");
    }};

const Register unpinned_after{
    "fault.unpinned_after", "pages used by the device can still be reclaimed", [] {
        Memory target(8 * mib);
        target.advise(MADV_NOHUGEPAGE);
        Remote t(target);
        t.write_checked(0, target.size(), 1, "written");
        uint64_t used = status_kib("VmRSS");
        target.advise(MADV_DONTNEED);
        expect_eq(present_pages(target.bytes()), 0U, "pages present after MADV_DONTNEED");
        expect(status_kib("VmRSS") + 7 * 1024 < used, "VmRSS doesn't fall by what was given back");
    }};

const Register read_only{
    "fault.read_only_source", "read-only memory: readable by SEND and by READ", [] {
        static const std::array<char, 64> constant{"constants live in a read-only page"};
        Memory target(4 * page_size);
        fill(target.bytes(), 6);
        target.protect(PROT_READ);
        Remote t(target);
        t.read_checked(0, target.size(), 6, "READ of a PROT_READ mapping");
        t.write_from(0, target.size());
        expect_pattern(t.local().bytes(0, target.size()), 6, "WRITE from a PROT_READ mapping");
        if (t.device.has_implicit()) {
            t.b.post_receive({t.near().sge(t.local().bytes(0, 64))});
            t.a.post(Work::send({t.region().sge(constant.data(), constant.size())}));
            t.a.sent().wait_ok();
            t.b.received().wait_ok();
            expect(std::memcmp(t.local().data(), constant.data(), constant.size()) == 0,
                   "sent from .rodata: wrong data");
        }
    }};

const Register stack{
    "fault.stack", "messages from and to the stack and the heap", [] {
        Pair pair;
        Region region = pair.device.implicit(pair.pd.get());
        std::array<std::byte, 10000> on_stack{};
        std::vector<std::byte> on_heap(10000);
        fill(on_stack, 8);
        pair.a.post(Work::write({region.sge(on_stack)}, reinterpret_cast<uintptr_t>(on_heap.data()),
                                region.rkey()));
        pair.a.sent().wait_ok();
        expect_pattern(on_heap, 8, "stack to heap");
        fill(on_heap, 9);
        pair.a.post(Work::read({region.sge(on_stack)}, reinterpret_cast<uintptr_t>(on_heap.data()),
                               region.rkey()));
        pair.a.sent().wait_ok();
        expect_pattern(on_stack, 9, "heap to stack");
    }};

const Register file{"fault.file", "private and shared file mappings", [] {
                        int fd = expect_sys(memfd_create("odp-test", MFD_CLOEXEC), "memfd_create");
                        constexpr size_t size = 16 * page_size;
                        expect_sys(ftruncate(fd, size), "ftruncate");
                        {
                            Memory shared(size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
                            Remote t(shared);
                            t.write_checked(100, 9000, 1, "written to a shared mapping");
                            std::vector<std::byte> content(9000);
                            expect_eq(pread(fd, content.data(), 9000, 100), ssize_t{9000}, "pread");
                            expect_pattern(content, 1, "what the file holds");
                        }
                        Memory own(size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
                        Remote t(own);
                        t.read_checked(100, 9000, 1, "read from a private mapping");
                        t.write_checked(100, 9000, 2, "written to a private mapping");
                        std::vector<std::byte> content(9000);
                        expect_eq(pread(fd, content.data(), 9000, 100), ssize_t{9000}, "pread");
                        close(fd);
                        expect_pattern(content, 1, "the file after a write to a private mapping");
                    }};

const Register zero_page{
    "fault.zero_page", "a page first read, then written, by both sides", [] {
        Memory target(8 * page_size);
        target.advise(MADV_NOHUGEPAGE);
        Remote t(target);
        expect_all(t.read(0, target.size()), 0, "never touched"); // maps the shared zero page
        t.write_checked(0, target.size(), 3, "written by the peer after a read");
        target.advise(MADV_DONTNEED);
        expect_all(t.read(0, target.size()), 0, "given back");
        fill(target.bytes(), 4); // the CPU's own write breaks the zero page
        t.read_checked(0, target.size(), 4, "read after the owner's write");
    }};

const Register same_page{
    "fault.shared_table", "two implicit regions of one process see the same data", [] {
        Memory target(4 * page_size);
        Remote t(target);
        Region second = t.device.on_demand(t.pd.get(), target.bytes());
        t.write_checked(0, 4000, 1, "written by the first region");
        t.a.post(
            Work::read({t.near().sge(t.local().bytes(0, 4000))}, target.address(), second.rkey()));
        t.a.sent().wait_ok();
        expect_pattern(t.local().bytes(0, 4000), 1, "read by the second region");
        target.replace();
        t.a.post(
            Work::read({t.near().sge(t.local().bytes(0, 4000))}, target.address(), second.rkey()));
        t.a.sent().wait_ok();
        expect_all(t.local().bytes(0, 4000), 0, "read by the second region after munmap and mmap");
    }};

} // namespace
} // namespace vt
