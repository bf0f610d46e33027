// SPDX-License-Identifier: BSD-3-Clause
#include "fake_wire.hpp"

#include "message.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace odp::test {

FakeWire::FakeWire(FakeSide &side, std::uint32_t send_depth, std::uint32_t recv_depth,
                   std::size_t room)
    : side_(side),
      send_depth_(send_depth),
      stride_(room + MessageHeader::size),
      ring_(stride_ * recv_depth)
{
    for (std::uint32_t slot = 0; slot < recv_depth; ++slot) {
        receives_.push_back(slot);
    }
}

Status FakeWire::post(std::span<const WorkRequest> requests)
{
    if (stopped) {
        violation = "posted after stop()";
        return Code::system;
    }
    if (posts_until_failure >= 0 && posts_until_failure-- == 0) {
        return {Code::system, "post failed"};
    }
    ++doorbells;
    for (const WorkRequest &request : requests) {
        if (++occupied_ > send_depth_) {
            violation = "send queue overrun";
        }
        Posted posted{request, {}};
        if (request.inlined) {
            const auto *start = reinterpret_cast<const std::byte *>(request.local);
            posted.inlined.assign(start, start + request.length);
        }
        queue_.push_back(std::move(posted));
    }
    return {};
}

Status FakeWire::repost(std::uint32_t slot)
{
    for (const std::uint32_t posted : receives_) {
        if (posted == slot) {
            violation = "a receive posted twice";
        }
    }
    receives_.push_back(slot);
    return {};
}

std::span<const std::byte> FakeWire::received(std::uint32_t slot, std::uint32_t length)
{
    return std::span(ring_).subspan(slot * stride_, length);
}

void FakeWire::stop() noexcept
{
    stopped = true;
    queue_.clear();
    events.clear();
}

void FakeWire::flush()
{
    broken_ = true;
    while (!queue_.empty()) {
        const Posted posted = queue_.front();
        queue_.pop_front();
        events.push_back(
            {false,
             static_cast<std::uint32_t>(posted.request.sequence) & EndpointCore::sequence_mask,
             0,
             {Code::flushed, "flushed", 5, 0}});
    }
    while (!receives_.empty()) {
        events.push_back({true, receives_.front(), 0, {Code::flushed, "flushed", 5, 0}});
        receives_.pop_front();
    }
}

bool FakeWire::execute()
{
    if (queue_.empty()) {
        return false;
    }
    if (broken_) {
        flush();
        return true;
    }
    const Posted posted = std::move(queue_.front());
    queue_.pop_front();
    ++executed;
    const WorkRequest &request = posted.request;
    const auto item = static_cast<std::uint32_t>(request.sequence) & EndpointCore::sequence_mask;
    Code code = std::exchange(fail_next, Code::ok);
    if (code == Code::ok && (peer->stopped || peer->broken_)) {
        code = Code::peer_lost;
    }
    if (code != Code::ok) {
        events.push_back({false, item, 0, {code, "injected", 10, 0x77}});
        flush();
        peer->flush();
        return true;
    }
    const auto *local = request.inlined ? posted.inlined.data()
                                        : reinterpret_cast<const std::byte *>(request.local);
    switch (request.kind) {
    case OpKind::send:
    case OpKind::credits:
    case OpKind::bye: {
        if (peer->receives_.empty()) {
            violation = "a message found no receive";
            return true;
        }
        const std::uint32_t slot = peer->receives_.front();
        peer->receives_.pop_front();
        std::copy_n(local, request.length, peer->ring_.data() + slot * peer->stride_);
        peer->events.push_back({true, slot, request.length, {}});
        break;
    }
    case OpKind::put:
    case OpKind::probe:
        if (request.length != 0) {
            std::memcpy(reinterpret_cast<void *>(request.remote), local, request.length);
        }
        break;
    case OpKind::get:
        if (request.length != 0) {
            std::memcpy(reinterpret_cast<void *>(request.local),
                        reinterpret_cast<const void *>(request.remote), request.length);
        }
        break;
    }
    sizes_.push_back(item);
    if (request.signaled) {
        // Its completion gives back its slot and those of the silent ones before it.
        occupied_ -= static_cast<std::uint32_t>(sizes_.size());
        sizes_.clear();
        events.push_back({false, item, 0, {}});
    }
    return true;
}

namespace {

BufferPool::Allocator heap_allocator()
{
    return [](std::size_t bytes) -> Result<BufferPool::Memory> {
        std::shared_ptr<void> owner(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096),
                                    std::free);
        return BufferPool::Memory{{static_cast<std::byte *>(owner.get()), bytes}, 17, owner};
    };
}

Address peer_address()
{
    Address address;
    address.lid = 9;
    address.qpn = 0x1234;
    address.session = 5;
    return address;
}

} // namespace

FakeSide::FakeSide(const EndpointLimits &limits, std::uint32_t recv_depth, std::uint32_t room,
                   std::uint32_t buffers)
    : pool(heap_allocator(), room, 64, buffers),
      endpoint(*this, statistics, peer_address(), limits),
      wire(*this, limits.send_depth, recv_depth, room),
      recv_depth(recv_depth)
{
}

bool FakeSide::deliver(EndpointCore & /*endpoint*/, std::uint8_t am_id,
                       std::span<const std::byte> data)
{
    return handler && handler(am_id, data);
}

bool FakeSide::progress()
{
    if (deferred) {
        deferred = false;
        endpoint.run_deferred();
        return true;
    }
    if (wire.events.empty()) {
        return false;
    }
    const FakeWire::Event event = wire.events.front();
    wire.events.pop_front();
    if (!event.receive) {
        endpoint.on_sent(event.item, event.result);
    } else if (event.result.code != Code::ok) {
        endpoint.on_receive_error(event.result);
    } else {
        endpoint.on_received(event.item, event.length);
    }
    return true;
}

void join(FakeSide &a, FakeSide &b)
{
    a.wire.peer = &b.wire;
    b.wire.peer = &a.wire;
    a.endpoint.ready(a.wire, 1, Credits(b.recv_depth, a.recv_depth));
    b.endpoint.ready(b.wire, 2, Credits(a.recv_depth, b.recv_depth));
}

Counted::Counted()
{
    done = [](Completion *self, const Status &how) {
        auto &counted = static_cast<Counted &>(*self);
        ++counted.calls;
        counted.status = how;
        if (counted.then) {
            counted.then();
        }
    };
}

} // namespace odp::test
