// SPDX-License-Identifier: BSD-3-Clause
//
// Non-contiguous datatypes on either side, against a map of the bytes that is made here.
#include "memory.hpp"
#include "messages.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <vector>

namespace {

using namespace mpitest;

/// A datatype with the bytes that it covers, in the order of its type map.
struct Layout {
    struct Block {
        std::size_t offset;
        std::size_t bytes;
    };
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int count = 1;
    std::vector<Block> blocks; ///< of all `count` elements
    std::size_t span = 0;      ///< bytes from the first to after the last, gaps included

    void commit() { MPI_Type_commit(&type); }
    void free()
    {
        if (type != MPI_BYTE) {
            MPI_Type_free(&type);
        }
    }
};

Layout contiguous(std::size_t bytes, Test &)
{
    return {MPI_BYTE, static_cast<int>(bytes), {{0, bytes}}, bytes};
}

/// Rows of 24 bytes in lines of 56, as a column block of a matrix has them.
Layout strided(std::size_t bytes, Test &)
{
    constexpr std::size_t row = 24;
    constexpr std::size_t line = 56;
    Layout layout;
    const std::size_t rows = bytes / row;
    MPI_Type_vector(static_cast<int>(rows), row, line, MPI_BYTE, &layout.type);
    layout.commit();
    for (std::size_t i = 0; i < rows; ++i) {
        layout.blocks.push_back({i * line, row});
    }
    layout.span = rows * line;
    return layout;
}

/// Blocks of random lengths with random gaps, visited in random order.
Layout indexed(std::size_t bytes, Test &t)
{
    Layout layout;
    const std::size_t longest = std::max<std::size_t>(bytes / 40, 90);
    for (std::size_t left = bytes; left > 0;) {
        const std::size_t length = std::min(left, t.draw(1, longest));
        layout.span += t.draw(0, 40);
        layout.blocks.push_back({layout.span, length});
        layout.span += length;
        left -= length;
    }
    std::shuffle(layout.blocks.begin(), layout.blocks.end(), t.shared_random());
    std::vector<int> lengths;
    std::vector<MPI_Aint> offsets;
    for (const auto &block : layout.blocks) {
        lengths.push_back(static_cast<int>(block.bytes));
        offsets.push_back(static_cast<MPI_Aint>(block.offset));
    }
    MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), offsets.data(),
                             MPI_BYTE, &layout.type);
    layout.commit();
    return layout;
}

/// Records of 4, 8 and 3 bytes with the padding that a compiler leaves.
Layout record(std::size_t bytes, Test &)
{
    constexpr std::size_t payload = 15;
    constexpr MPI_Aint extent = 32;
    Layout layout;
    const int lengths[] = {4, 8, 3};
    const MPI_Aint offsets[] = {0, 8, 16};
    const MPI_Datatype types[] = {MPI_BYTE, MPI_BYTE, MPI_BYTE};
    MPI_Datatype bare;
    MPI_Type_create_struct(3, lengths, offsets, types, &bare);
    MPI_Type_create_resized(bare, 0, extent, &layout.type);
    MPI_Type_free(&bare);
    layout.commit();
    layout.count = static_cast<int>(bytes / payload);
    for (int i = 0; i < layout.count; ++i) {
        for (int k = 0; k < 3; ++k) {
            layout.blocks.push_back({static_cast<std::size_t>(i * extent + offsets[k]),
                                     static_cast<std::size_t>(lengths[k])});
        }
    }
    layout.span = static_cast<std::size_t>(layout.count * extent);
    return layout;
}

void send_layout(Test &t, const Layout &layout, std::uint64_t seed)
{
    std::vector<std::byte> memory(layout.span, Guarded::paint);
    std::size_t at = 0;
    for (const auto &block : layout.blocks) {
        pattern::fill({memory.data() + block.offset, block.bytes}, seed, at);
        at += block.bytes;
    }
    MPI_Send(memory.data(), layout.count, layout.type, t.peer(), data_tag, MPI_COMM_WORLD);
}

void receive_layout(Test &t, const Layout &layout, std::size_t bytes, std::uint64_t seed)
{
    std::vector<std::byte> memory(layout.span, Guarded::paint);
    MPI_Status status;
    MPI_Recv(memory.data(), layout.count, layout.type, t.peer(), data_tag, MPI_COMM_WORLD, &status);
    t.check_status(status, t.peer(), data_tag, bytes);
    std::size_t at = 0;
    for (const auto &block : layout.blocks) {
        t.check({memory.data() + block.offset, block.bytes}, seed, "block of a datatype", at);
        at += block.bytes;
    }
    auto blocks = layout.blocks;
    std::sort(blocks.begin(), blocks.end(),
              [](const auto &a, const auto &b) { return a.offset < b.offset; });
    std::size_t end = 0;
    for (const auto &block : blocks) {
        t.check_untouched({memory.data() + end, block.offset - end}, Guarded::paint,
                          "gap of a datatype");
        end = block.offset + block.bytes;
    }
    t.check_untouched({memory.data() + end, layout.span - end}, Guarded::paint,
                      "gap of a datatype");
}

void datatypes(Test &t)
{
    if (t.rank() > 1) {
        return;
    }
    using Make = Layout (*)(std::size_t, Test &);
    constexpr Make kinds[] = {contiguous, strided, indexed, record};
    // Multiples of 24 and 15, below and above the eager limits, and of several fragments.
    std::vector<std::size_t> lengths{360, 3600, 36000, 72000, 1080000};
    if (t.effort() > 1) {
        lengths.push_back(8640000);
    }
    int sender = 0;
    for (const std::size_t bytes : lengths) {
        for (const Make from : kinds) {
            for (const Make to : kinds) {
                sender = 1 - sender;
                const std::uint64_t seed = t.next_seed();
                Layout source = from(bytes, t);
                Layout target = to(bytes, t);
                if (t.rank() == sender) {
                    send_layout(t, source, seed);
                } else {
                    receive_layout(t, target, bytes, seed);
                }
                source.free();
                target.free();
            }
        }
    }
}

const Register r{{"datatypes", 2, datatypes,
                  "contiguous, strided, indexed and struct types, each to each, gaps untouched"}};

} // namespace
