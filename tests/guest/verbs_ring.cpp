// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_ring.hpp"

#include <grp.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

namespace vt {

std::vector<std::span<std::byte>> uverbs_mappings()
{
    std::vector<std::span<std::byte>> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("/dev/infiniband/uverbs") == std::string::npos) {
            continue;
        }
        size_t end = 0;
        uint64_t first = std::stoull(line, &end, 16);
        uint64_t last = std::stoull(line.substr(end + 1), nullptr, 16);
        found.emplace_back(reinterpret_cast<std::byte *>(first), last - first);
    }
    return found;
}

namespace {

// The mappings that appeared since `before`. The kernel may merge none of these.
std::vector<Ring> appeared(const std::vector<std::span<std::byte>> &before)
{
    std::vector<Ring> fresh;
    for (auto bytes : uverbs_mappings()) {
        bool old = std::any_of(before.begin(), before.end(),
                               [&](auto &other) { return other.data() == bytes.data(); });
        if (!old) {
            fresh.emplace_back(bytes);
        }
    }
    return fresh;
}

} // namespace

std::pair<std::unique_ptr<Endpoint>, Rings> endpoint_with_rings(const Device &device, ibv_pd *pd,
                                                                EndpointConfig config)
{
    config.max_sge = 1; // tells the queues apart: a receive is then shorter than a send
    auto before = uverbs_mappings();
    auto endpoint = std::make_unique<Endpoint>(device, pd, config);
    auto rings = appeared(before);
    if (rings.size() != 4) {
        throw Skip(str("the endpoint came with ", rings.size(), " mapped rings, want 4"));
    }
    // Send WQEs take 208 bytes and more; receive WQEs and completions fit 64.
    auto is_send = [](const Ring &ring) { return ring.element_size() >= sizeof(rxe_send_wqe); };
    auto send = std::find_if(rings.begin(), rings.end(), is_send);
    expect(send != rings.end(), "no send queue among the rings");
    Ring send_ring = *send;
    rings.erase(send);
    // Recognised by use: a posted receive moves exactly one producer index, a mark in wr_id.
    expect_zero(endpoint->to_init(), "RESET -> INIT");
    endpoint->post_receive({}, 0x5eed);
    auto receive = std::find_if(rings.begin(), rings.end(),
                                [](const Ring &ring) { return ring.header().producer_index == 1; });
    expect(receive != rings.end(), "no receive queue among the rings");
    Ring receive_ring = *receive;
    rings.erase(receive);
    expect_zero(endpoint->to(IBV_QPS_RESET), "INIT -> RESET");
    while (endpoint->received().poll()) {
    }
    Rings result{send_ring, receive_ring, rings[0], rings[1]};
    return {std::move(endpoint), result};
}

int ring_doorbell(ibv_context *context, uint32_t qp_handle, uint32_t wr_count, uint32_t sge_count,
                  uint32_t wqe_size)
{
    struct {
        ib_uverbs_cmd_hdr header;
        ib_uverbs_post_send command;
    } request{};
    ib_uverbs_post_send_resp response{};
    request.header.command = IB_USER_VERBS_CMD_POST_SEND;
    request.header.in_words = sizeof(request) / 4;
    request.header.out_words = sizeof(response) / 4;
    request.command.response = reinterpret_cast<uintptr_t>(&response);
    request.command.qp_handle = qp_handle;
    request.command.wr_count = wr_count;
    request.command.sge_count = sge_count;
    request.command.wqe_size = wqe_size;
    ssize_t written = write(context->cmd_fd, &request, sizeof(request));
    return written == static_cast<ssize_t>(sizeof(request)) ? 0 : errno;
}

void drop_privileges()
{
    constexpr uid_t nobody = 65534;
    expect_sys(setgroups(0, nullptr), "setgroups");
    expect_sys(setresgid(nobody, nobody, nobody), "setresgid");
    expect_sys(setresuid(nobody, nobody, nobody), "setresuid");
    expect_eq(geteuid(), nobody, "effective uid");
}

} // namespace vt
