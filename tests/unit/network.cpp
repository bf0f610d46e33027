// SPDX-License-Identifier: BSD-3-Clause
#include "network.hpp"

#include <algorithm>

namespace odp::test {

Node::Node(Network &network, std::uint32_t qpn, const ConnectorLimits &limits)
    : network(network), limits(limits)
{
    address.lid = 1;
    address.qpn = qpn;
    address.qkey = 7;
    restart();
}

void Node::restart()
{
    address.session = nonce();
    wired.clear();
    connector = std::make_unique<Connector>(*this, address, limits);
}

void Node::send_datagram(const Address &to, std::span<const std::byte> bytes)
{
    network.transmit(to, bytes);
}

std::uint64_t Node::nonce()
{
    return network.random() | 1U;
}

Result<ConnParams> Node::prepare(Connection & /*connection*/)
{
    if (prepare_result.failed()) {
        return prepare_result;
    }
    ++prepared;
    ConnParams params;
    params.qpn = static_cast<std::uint32_t>(network.random()) & 0xffffffU;
    params.psn = static_cast<std::uint32_t>(network.random()) & 0xffffffU;
    params.rkey = static_cast<std::uint32_t>(network.random());
    params.payload_room = payload_room;
    params.recv_depth = 64;
    params.mtu = 5;
    params.rd_atomic = 16;
    return params;
}

Status Node::activate(Connection &connection, const ConnParams &peer)
{
    if (activate_result.failed()) {
        return activate_result;
    }
    ++activated;
    wired[&connection] = peer;
    return {};
}

void Node::established(Connection &connection)
{
    ++established_count;
    if (on_established) {
        on_established(*this, connection);
    }
}

void Node::failed(Connection & /*connection*/, const Status &why)
{
    failures.push_back(why);
}

Connection *Node::connect(const Node &peer)
{
    auto result = connector->connect(peer.address, nullptr, network.now);
    return result ? *result : nullptr;
}

Node &Network::add(const ConnectorLimits &limits)
{
    nodes.push_back(
        std::make_unique<Node>(*this, static_cast<std::uint32_t>(nodes.size() + 1), limits));
    return *nodes.back();
}

void Network::put(const Address &to, std::span<const std::byte> bytes)
{
    const auto low = rules.min_delay.count();
    const auto high = std::max(low, rules.max_delay.count());
    const Duration delay(std::uniform_int_distribution<Duration::rep>(low, high)(random));
    packets_.emplace(now + delay, Packet{to.qpn, {bytes.begin(), bytes.end()}});
}

void Network::transmit(const Address &to, std::span<const std::byte> bytes)
{
    if (chance() >= rules.loss) {
        put(to, bytes);
    }
    if (chance() < rules.duplicate) {
        put(to, bytes);
    }
}

bool Network::run(Duration limit)
{
    const TimePoint end = now + limit;
    constexpr std::chrono::milliseconds step{5}; // how often processes call tick()
    while (now < end) {
        const bool waiting = std::any_of(nodes.begin(), nodes.end(), [](const auto &node) {
            return node->connector->waiting();
        });
        if (!waiting && packets_.empty()) {
            return true;
        }
        const TimePoint until = now + step;
        std::multimap<TimePoint, Packet> kept;
        while (!packets_.empty() && packets_.begin()->first <= until) {
            auto entry = packets_.extract(packets_.begin());
            now = std::max(now, entry.key());
            const Packet &packet = entry.mapped();
            if (packet.qpn == 0 || packet.qpn > nodes.size()) {
                continue;
            }
            Node &node = *nodes[packet.qpn - 1];
            if (node.deaf) {
                kept.insert(std::move(entry));
                continue;
            }
            ++delivered;
            node.connector->receive(packet.bytes, now);
        }
        packets_.merge(kept);
        now = until;
        for (const auto &node : nodes) {
            if (!node->deaf) {
                node->connector->tick(now);
            }
        }
    }
    return false;
}

} // namespace odp::test
