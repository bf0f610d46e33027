// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that comes and goes under the messages: each case would see stale translations.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <memory>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using namespace mpitest;

/// Each rank sends @p out's pattern and checks what it receives into @p in; sizes are equal.
void swap_messages(Test &t, std::span<std::byte> out, std::span<std::byte> in,
                   std::string_view what)
{
    const std::uint64_t seed = t.next_seed();
    pattern::fill(out, seed + t.rank());
    MPI_Request request = isend(out, t.peer());
    receive(in, t.peer());
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    t.check(in, seed + t.peer(), what);
}

/// Bytes of a message: any protocol, often whole pages.
std::size_t draw_bytes(Test &t, std::size_t max)
{
    const std::size_t bytes = t.draw(1, std::size_t{1} << t.draw(0, 22));
    return std::min(max, t.draw(0, 1) ? pages(bytes) : bytes);
}

/// Buffers mapped for one message and unmapped after it, at the same addresses again and again.
void fresh_mmap(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    // Reserve a place, so that every mapping can come to the same address.
    constexpr std::size_t most = 4u << 20;
    std::byte *place = Mapping(2 * most + (1u << 20)).data();
    for (int i = 0; i < 60 * t.effort(); ++i) {
        const std::size_t bytes = draw_bytes(t, most);
        const Mapping out(bytes, place);
        const Mapping in(bytes, place + most);
        swap_messages(t, out.slice(0, bytes), in.slice(0, bytes), "message in a fresh mapping");
    }
}

/// The same, but the kernel chooses the addresses, and each side maps for itself.
void fresh_mmap_one_side(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    constexpr std::size_t most = 4u << 20;
    std::vector<std::byte> steady(most);
    for (int i = 0; i < 40 * t.effort(); ++i) {
        const std::size_t bytes = draw_bytes(t, most);
        const int fresh_side = i / 2 % 2;
        const int sender = i % 2;
        const std::uint64_t seed = t.next_seed();
        std::unique_ptr<Mapping> mapping;
        std::span<std::byte> data(steady.data(), bytes);
        if (t.rank() == fresh_side) {
            mapping = std::make_unique<Mapping>(bytes);
            data = mapping->slice(0, bytes);
        }
        if (t.rank() == sender) {
            pattern::fill(data, seed);
            send(data, t.peer());
        } else {
            receive(data, t.peer());
            t.check(data, seed, "message with one fresh mapping");
        }
    }
}

/// MAP_FIXED over the old pages, without an munmap that could be intercepted.
void map_over(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    const std::size_t half = 512 * page_size();
    const Mapping area(2 * half);
    for (int i = 0; i < 30 * t.effort(); ++i) {
        const std::size_t bytes = draw_bytes(t, half);
        if (mmap(area.data(), 2 * half, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area.data()) {
            die("mmap over a mapping");
        }
        swap_messages(t, area.slice(0, bytes), area.slice(half, bytes),
                      "message in replaced pages");
    }
}

/// Growing and shrinking by realloc, which moves large blocks by mremap.
void realloc_churn(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    std::byte *out = nullptr;
    std::byte *in = nullptr;
    for (int i = 0; i < 60 * t.effort(); ++i) {
        const std::size_t bytes = draw_bytes(t, 4u << 20);
        out = static_cast<std::byte *>(std::realloc(out, bytes));
        in = static_cast<std::byte *>(std::realloc(in, bytes));
        if (!out || !in) {
            die("realloc");
        }
        swap_messages(t, {out, bytes}, {in, bytes}, "message in realloc'ed memory");
    }
    std::free(out);
    std::free(in);
}

/// A heap that grows and shrinks through brk and mmap between the messages.
void malloc_churn(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    struct Block {
        std::unique_ptr<std::byte[]> data;
        std::size_t bytes = 0;
    };
    std::vector<Block> blocks(24);
    for (int i = 0; i < 200 * t.effort(); ++i) {
        Block &out = blocks[t.draw(0, 11)];
        Block &in = blocks[t.draw(12, 23)];
        const std::size_t bytes = t.draw(1, std::size_t{1} << t.draw(4, 19));
        for (Block *block : {&out, &in}) {
            block->data.reset(); // give it back first, so that the address comes round again
            block->data = std::make_unique_for_overwrite<std::byte[]>(bytes);
            block->bytes = bytes;
        }
        swap_messages(t, {out.data.get(), bytes}, {in.data.get(), bytes}, "message on the heap");
        if (i % 8 == 0) {
            blocks[t.draw(0, 23)].data.reset();
            malloc_trim(0);
        }
    }
}

/// The break itself moves up and down under the buffers.
void brk_churn(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    const std::size_t bytes = 256 * page_size();
    for (int i = 0; i < 20 * t.effort(); ++i) {
        // Nothing that the C library might take from the break runs between these calls.
        void *start = sbrk(static_cast<std::intptr_t>(2 * bytes));
        if (start == reinterpret_cast<void *>(-1)) {
            die("sbrk");
        }
        auto *out = static_cast<std::byte *>(start);
        swap_messages(t, {out, bytes}, {out + bytes, bytes}, "message above the old break");
        if (sbrk(0) == out + 2 * bytes) {
            sbrk(-static_cast<std::intptr_t>(2 * bytes));
        }
    }
}

/// Buffers on the stack, at changing depths.
void stack_message(Test &t, int depth)
{
    constexpr std::size_t most = 48 * 1024;
    std::byte out[most];
    std::byte in[most];
    const std::size_t bytes = t.draw(1, most);
    swap_messages(t, {out, bytes}, {in, bytes}, "message on the stack");
    if (depth > 0) {
        stack_message(t, depth - 1);
    }
    swap_messages(t, {in, bytes}, {out, bytes}, "message on the stack, coming back");
}

void stack(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (int i = 0; i < 2 * t.effort(); ++i) {
        stack_message(t, 15); // 1.5 MiB
    }
}

/// Pages dropped between the messages; the next ones are new, and zero where untouched.
void dontneed(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    const std::size_t bytes = 256 * page_size();
    const Mapping out(bytes);
    const Mapping in(bytes);
    for (int i = 0; i < 20 * t.effort(); ++i) {
        const std::size_t length = draw_bytes(t, bytes);
        out.advise(MADV_DONTNEED);
        in.advise(MADV_DONTNEED);
        if (i % 4 == 3) { // pages that nobody has written: zeros must arrive
            MPI_Request request = isend(out.slice(0, length), t.peer());
            std::memset(in.data(), 0xff, length);
            receive(in.slice(0, length), t.peer());
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            t.check_untouched(in.slice(0, length), std::byte{0}, "message from untouched pages");
            continue;
        }
        swap_messages(t, out.slice(0, length), in.slice(0, length), "message after MADV_DONTNEED");
        const std::uint64_t seed = t.next_seed();
        // A hole in the middle of both, then the same addresses again.
        const std::size_t hole = length / 2 / page_size() * page_size();
        madvise(out.data() + hole, page_size(), MADV_DONTNEED);
        madvise(in.data() + hole, page_size(), i % 2 ? MADV_DONTNEED : MADV_FREE);
        pattern::fill(out.slice(0, length), seed + t.rank());
        MPI_Request request = isend(out.slice(0, length), t.peer());
        receive(in.slice(0, length), t.peer());
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        t.check(in.slice(0, length), seed + t.peer(), "message over a hole");
    }
}

/// Transparent huge pages, then splits of them.
void thp(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    constexpr std::size_t huge = 2u << 20;
    const std::size_t bytes = 4 * huge;
    const Mapping out_area(bytes + huge);
    const Mapping in_area(bytes + huge);
    const auto aligned = [](const Mapping &area) {
        const auto at = reinterpret_cast<std::uintptr_t>(area.data());
        return area.data() + (huge - at % huge) % huge;
    };
    out_area.advise(MADV_HUGEPAGE);
    in_area.advise(MADV_HUGEPAGE);
    std::byte *out = aligned(out_area);
    std::byte *in = aligned(in_area);
    for (int i = 0; i < 2 * t.effort(); ++i) {
        std::memset(in, 0, bytes); // huge pages come with the first touch
        swap_messages(t, {out, bytes}, {in, bytes}, "message in huge pages");
        madvise(out + huge + page_size(), page_size(), MADV_DONTNEED);
        madvise(in + 2 * huge - page_size(), 2 * page_size(), MADV_DONTNEED);
        swap_messages(t, {out + 100, bytes - 100}, {in + 100, bytes - 100},
                      "message in split huge pages");
        mprotect(in + 3 * huge, page_size(), PROT_READ);
        mprotect(in + 3 * huge, page_size(), PROT_READ | PROT_WRITE);
        swap_messages(t, {out, bytes}, {in, bytes}, "message in protected and unprotected pages");
        madvise(out, bytes, MADV_DONTNEED);
        madvise(in, bytes, MADV_DONTNEED);
    }
}

/// mremap() to a given address. By system call, because UCX's hook of the function forgets the
/// fifth argument, and a program that uses it can't run with those hooks.
void *remap(void *old, std::size_t bytes, void *target)
{
    return reinterpret_cast<void *>(
        syscall(SYS_mremap, old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target));
}

/// Pages moved elsewhere by mremap, others put in their place: both addresses must be right.
void mremap_moves(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    for (int i = 0; i < 15 * t.effort(); ++i) {
        const std::size_t bytes = pages(draw_bytes(t, 2u << 20));
        Mapping old(2 * bytes);
        const Mapping target(2 * bytes);
        swap_messages(t, old.slice(0, bytes), old.slice(bytes, bytes), "message before mremap");
        const std::uint64_t seed = t.next_seed();
        pattern::fill(old.slice(0, bytes), seed + t.rank());
        std::byte *place = old.data();
        if (remap(place, 2 * bytes, target.data()) != target.data()) {
            die("mremap");
        }
        old.release();
        const Mapping successor(2 * bytes, place);
        swap_messages(t, successor.slice(0, bytes), successor.slice(bytes, bytes),
                      "message where pages were moved away");
        MPI_Request request = isend(target.slice(0, bytes), t.peer());
        receive(target.slice(bytes, bytes), t.peer());
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        t.check(target.slice(bytes, bytes), seed + t.peer(), "message from moved pages");
    }
}

const Register r1{{"fresh_mmap", 2, fresh_mmap, "mmap, message, munmap, at the same addresses"}};
const Register r2{{"fresh_one_side", 2, fresh_mmap_one_side, "the same on one side at a time"}};
const Register r3{{"map_over", 2, map_over, "MAP_FIXED over buffers in use before"}};
const Register r4{{"realloc", 2, realloc_churn, "realloc'ed buffers"}};
const Register r5{{"malloc_trim", 2, malloc_churn, "malloc, free, malloc_trim"}};
const Register r6{{"brk", 2, brk_churn, "buffers above a moving break"}};
const Register r7{{"stack", 2, stack, "buffers on the stack"}};
const Register r8{{"dontneed", 2, dontneed, "MADV_DONTNEED and MADV_FREE between messages"}};
const Register r9{{"thp", 2, thp, "transparent huge pages and their splitting"}};
const Register r10{{"mremap", 2, mremap_moves, "mremap'ed buffers and their old addresses"}};

} // namespace
