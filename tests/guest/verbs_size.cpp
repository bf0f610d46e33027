// SPDX-License-Identifier: BSD-3-Clause
// Large and many-sized transfers over every combination of region kinds on the two sides.
#include "verbs_endpoint.hpp"

namespace vt {
namespace {

enum class Kind { pinned, on_demand };

Region make(const Pair &pair, Kind kind, std::span<std::byte> bytes)
{
    return kind == Kind::pinned ? pair.device.pinned(pair.pd.get(), bytes)
                                : pair.device.on_demand(pair.pd.get(), bytes);
}

// SEND, WRITE and READ of each size; on-demand buffers are made cold before each.
void transfer(Kind local, Kind remote, std::initializer_list<size_t> sizes)
{
    Pair pair;
    size_t most = std::max(sizes) + page_size;
    Memory from(most);
    Memory to(most);
    Region source = make(pair, local, from.bytes());
    Region sink = make(pair, remote, to.bytes());
    uint64_t seed = 0;
    auto cool = [&] {
        if (remote == Kind::on_demand) {
            to.advise(MADV_DONTNEED);
        }
        if (local == Kind::on_demand) {
            from.advise(MADV_DONTNEED);
        }
    };
    for (size_t size : sizes) {
        size_t shift = size % 61; // not always page-aligned, nor alike on the two sides
        auto out = from.bytes(shift, size);
        auto in = to.bytes(64 - shift, size);
        auto remote_address = reinterpret_cast<uintptr_t>(in.data());

        cool();
        fill(out, ++seed);
        pair.b.post_receive({sink.sge(in)});
        pair.a.post(Work::send({source.sge(out)}));
        pair.a.sent().wait_ok();
        expect_eq(pair.b.received().wait_ok().byte_len, size, "byte_len");
        expect_pattern(in, seed, str("SEND of ", size));

        cool();
        fill(out, ++seed);
        pair.a.post(Work::write({source.sge(out)}, remote_address, sink.rkey()));
        pair.a.sent().wait_ok();
        expect_pattern(in, seed, str("WRITE of ", size));

        cool();
        fill(in, ++seed);
        pair.a.post(Work::read({source.sge(out)}, remote_address, sink.rkey()));
        pair.a.sent().wait_ok();
        expect_pattern(out, seed, str("READ of ", size));
    }
}

// 64 MiB in one operation is what ob1 does with a large message.
const std::initializer_list<size_t> short_sizes{1, 63, 4096, 4097, 65536, 1000003};

const Register pinned_pinned{"size.pinned-pinned", "1 B..1 MB, pinned to pinned",
                             [] { transfer(Kind::pinned, Kind::pinned, short_sizes); }};
const Register odp_pinned{"size.odp-pinned", "1 B..1 MB, on-demand to pinned",
                          [] { transfer(Kind::on_demand, Kind::pinned, short_sizes); }};
const Register pinned_odp{"size.pinned-odp", "1 B..1 MB, pinned to on-demand",
                          [] { transfer(Kind::pinned, Kind::on_demand, short_sizes); }};
const Register odp_odp{"size.odp-odp", "1 B..1 MB, on-demand to on-demand",
                       [] { transfer(Kind::on_demand, Kind::on_demand, short_sizes); }};
const Register large{"size.large", "16 MiB and 64 MiB in one operation, on-demand on both sides",
                     [] { transfer(Kind::on_demand, Kind::on_demand, {16 * mib, 64 * mib}); }};

const Register over_limit{
    "size.over_limit", "a message longer than max_msg_sz ends in an error", [] {
        Pair pair;
        uint64_t limit = pair.device.port().max_msg_sz;
        Memory window(page_size);
        Region region = pair.device.on_demand(pair.pd.get(), window.bytes());
        if (!pair.device.has_implicit()) {
            throw Skip("needs a region larger than max_msg_sz");
        }
        // Two SGEs whose sum is over the limit (and over 2^32 where the limit is 2^31).
        auto huge = static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX));
        ibv_sge sge{window.address(), huge, region.lkey()};
        pair.a.post(Work::write({sge, sge, sge}, window.address(), region.rkey()));
        ibv_wc wc = pair.a.sent().wait();
        expect(wc.status == IBV_WC_LOC_LEN_ERR || wc.status == IBV_WC_LOC_PROT_ERR ||
                   wc.status == IBV_WC_LOC_QP_OP_ERR,
               str("completion with ", ibv_wc_status_str(wc.status), ", want a local error"));
        expect_device_works();
    }};

} // namespace
} // namespace vt
