// SPDX-License-Identifier: BSD-3-Clause
#include "endpoint_core.hpp"

#include "format.hpp"
#include "message.hpp"
#include "range.hpp"

#include <array>
#include <cinttypes>
#include <new>

namespace odp {

namespace {

constexpr std::size_t batch_size = 16;

const char *kind_name(OpKind kind) noexcept
{
    switch (kind) {
    case OpKind::send:
        return "send";
    case OpKind::put:
        return "put";
    case OpKind::get:
        return "get";
    case OpKind::credits:
        return "return of credits";
    case OpKind::bye:
        return "farewell";
    case OpKind::probe:
        return "sign-of-life write";
    }
    return "operation";
}

const char *advice(Code code) noexcept
{
    switch (code) {
    case Code::local_fault:
        return "; the local memory isn't mapped or lacks the access needed: was it freed "
               "before the operation was complete?";
    case Code::remote_fault:
        return "; the memory isn't mapped in the peer's process or lacks the access needed: was it "
               "freed before the operation was complete, or is the process ending?";
    case Code::peer_lost:
        return "; the peer's process has ended or lost its connection: look at its output";
    default:
        return "";
    }
}

} // namespace

EndpointCore::EndpointCore(EndpointHost &host, Statistics &statistics, const Address &peer,
                           const EndpointLimits &limits)
    : host_(host),
      statistics_(statistics),
      peer_(peer),
      limits_(limits),
      slots_(limits.send_depth)
{
}

std::string EndpointCore::name() const
{
    return "peer " + peer_.str() + " through " + host_.device_name();
}

Status EndpointCore::refuse(Code code, OpKind kind, std::uint64_t local, std::uint64_t remote,
                            std::uint64_t length, const char *why) const
{
    return {code, format("%s of %" PRIu64 " bytes, local address 0x%" PRIx64 ", remote 0x%" PRIx64
                         ", %s: %s",
                         kind_name(kind), length, local, remote, name().c_str(), why)};
}

Status EndpointCore::do_send(SendBuffer &buffer, std::uint8_t am_id, std::size_t length,
                             Completion *completion)
{
    if (length > buffer.room_) {
        return refuse(Code::invalid_argument, OpKind::send, 0, 0, length,
                      format("a message can carry %u bytes (payload_room)", buffer.room_).c_str());
    }
    Operation operation;
    operation.am_id = am_id;
    operation.local = reinterpret_cast<std::uint64_t>(buffer.payload_);
    operation.length = length;
    operation.buffer = &buffer;
    operation.completion = completion;
    return accept(operation);
}

Status EndpointCore::do_rdma(OpKind kind, std::uint64_t local, std::uint64_t remote,
                             std::size_t length, Completion *completion)
{
    if (!fits_address_space(local, length) || !fits_address_space(remote, length)) {
        return refuse(Code::invalid_argument, kind, local, remote, length,
                      "the range passes the end of the address space");
    }
    Operation operation;
    operation.kind = kind;
    operation.local = local;
    operation.remote = remote;
    operation.length = length;
    operation.completion = completion;
    return accept(operation);
}

Status EndpointCore::do_connect()
{
    if (host_.in_child()) {
        return {Code::unsupported, "connections don't survive fork(): use them in the parent only"};
    }
    if (state_ == State::failed || failing_ || left_) {
        return error_;
    }
    if (state_ == State::idle) {
        state_ = State::connecting;
        if (const Status status = host_.start_connecting(*this); status.failed()) {
            fail_later(status);
            return status;
        }
    }
    return Code::ok;
}

Status EndpointCore::accept(Operation &operation)
{
    if (state_ != State::ready || failing_ || left_ || host_.in_child()) {
        if (const Status status = do_connect(); status.failed()) {
            return status;
        }
    }
    const bool whole = operation.kind == OpKind::send || operation.length <= limits_.max_message;
    if (state_ == State::ready && queue_.empty() && whole && has_slot() &&
        (operation.kind != OpKind::send || credits_.take())) {
        count(operation);
        return post_one(operation);
    }
    try {
        queue_.push_back(operation);
    } catch (const std::bad_alloc &) {
        return Code::no_memory;
    }
    ++outstanding_;
    ++statistics_.waited;
    count(operation);
    if (!whole && queue_.size() == 1 && state_ == State::ready) {
        drain(); // pieces of a put or get don't complete inside, so no callback runs here
    }
    update_starving();
    return Code::in_progress;
}

void EndpointCore::count(const Operation &operation) noexcept
{
    switch (operation.kind) {
    case OpKind::send:
        ++statistics_.messages_sent;
        statistics_.bytes_sent += operation.length;
        break;
    case OpKind::put:
        ++statistics_.puts;
        statistics_.put_bytes += operation.length;
        break;
    case OpKind::get:
        ++statistics_.gets;
        statistics_.get_bytes += operation.length;
        break;
    case OpKind::credits:
    case OpKind::bye:
    case OpKind::probe:
        break;
    }
}

bool EndpointCore::has_slot() const noexcept
{
    return head_ - tail_ + control_slots < slots_.size();
}

// The next request of the operation, entered in its slot. The credit has been taken.
WorkRequest EndpointCore::make_request(Operation &operation)
{
    WorkRequest request;
    request.kind = operation.kind;
    request.sequence = head_;
    if (operation.buffer != nullptr) {
        MessageHeader header;
        header.am_id = operation.am_id;
        header.credits = credits_.collect();
        header.length = static_cast<std::uint32_t>(operation.length);
        std::byte *start = operation.buffer->payload_ - MessageHeader::size;
        header.encode(std::span<std::byte, MessageHeader::size>(start, MessageHeader::size));
        request.local = reinterpret_cast<std::uint64_t>(start);
        request.length = header.length + static_cast<std::uint32_t>(MessageHeader::size);
        request.lkey = operation.buffer->lkey_;
        request.inlined = request.length <= limits_.max_inline;
        operation.offset = operation.length;
    } else {
        request.length = piece_length(operation.length, operation.offset, limits_.max_message);
        request.local = operation.local + operation.offset;
        request.remote = operation.remote + operation.offset;
        request.lkey = limits_.lkey;
        request.rkey = rkey_;
        operation.offset += request.length;
    }
    // Inlined messages need no completion, but their slots are only known to be free when a later
    // request completes.
    if (request.inlined && unsignaled_ + 1 < slots_.size() / 4) {
        ++unsignaled_;
    } else {
        request.signaled = true;
        unsignaled_ = 0;
    }
    Slot &entry = slot(head_++);
    entry = {};
    entry.kind = operation.kind;
    entry.local = request.local;
    entry.remote = request.remote;
    entry.length = request.length;
    if (operation.offset == operation.length) {
        entry.last = true;
        entry.buffer = operation.buffer;
        entry.completion = operation.completion;
    }
    return request;
}

// The short way: nothing is queued, so the operation goes out at once.
Status EndpointCore::post_one(Operation &operation)
{
    const WorkRequest request = make_request(operation);
    ++outstanding_;
    if (const Status status = wire_->post({&request, 1}); status.failed()) {
        fail_later(status); // completes it, from progress()
        return Code::in_progress;
    }
    if (!request.inlined) {
        return Code::in_progress;
    }
    Slot &entry = slot(request.sequence);
    entry.last = false;
    entry.completion = nullptr;
    entry.buffer = nullptr;
    --outstanding_;
    if (operation.completion == nullptr) {
        host_.release(*operation.buffer);
    }
    return Code::ok;
}

// Posts what is queued as far as slots and credits reach, in batches with one doorbell each.
void EndpointCore::drain()
{
    while (state_ == State::ready && !failing_ && !queue_.empty()) {
        std::array<WorkRequest, batch_size> batch;
        std::array<Slot, batch_size> done;
        std::size_t count = 0;
        while (count < batch_size && !queue_.empty() && has_slot()) {
            Operation &first = queue_.front();
            if (first.kind == OpKind::send && !credits_.take()) {
                break;
            }
            batch[count++] = make_request(first);
            if (first.offset == first.length) {
                queue_.pop_front();
            }
        }
        if (count == 0) {
            break;
        }
        if (const Status status = wire_->post(std::span(batch).first(count)); status.failed()) {
            fail_later(status);
            break;
        }
        // Take them out of the slots first: a callback may post, and reuse the slots.
        std::size_t ended = 0;
        for (const WorkRequest &request : std::span(batch).first(count)) {
            if (request.inlined) {
                done[ended++] = std::exchange(slot(request.sequence), {});
            }
        }
        for (Slot &entry : std::span(done).first(ended)) {
            finish(entry, {});
        }
    }
    update_starving();
}

// Ends the operation whose last request this is.
void EndpointCore::finish(Slot &done, const Status &status)
{
    if (!done.last) {
        return;
    }
    done.last = false;
    --outstanding_;
    Completion *completion = std::exchange(done.completion, nullptr);
    SendBuffer *buffer = std::exchange(done.buffer, nullptr);
    if (completion != nullptr) {
        completion->done(completion, status);
    } else if (buffer != nullptr) {
        host_.release(*buffer);
    }
}

void EndpointCore::ready(Wire &wire, std::uint32_t peer_rkey, const Credits &credits)
{
    if (state_ == State::ready || state_ == State::failed) {
        return;
    }
    wire_ = &wire;
    rkey_ = peer_rkey;
    credits_ = credits;
    state_ = State::ready;
    drain();
}

void EndpointCore::on_sent(std::uint32_t sequence, const WireResult &result)
{
    if (state_ != State::ready) {
        return;
    }
    const std::uint64_t target =
        tail_ + ((sequence - static_cast<std::uint32_t>(tail_)) & sequence_mask);
    if (target >= head_) {
        fail({Code::protocol, format("%s completed request %u, which isn't posted",
                                     host_.device_name().c_str(), sequence)});
        return;
    }
    ++heard_;
    const bool failed = result.code != Code::ok;
    // Requests complete in order: those before this one are done.
    while (state_ == State::ready && tail_ <= target && (!failed || tail_ < target)) {
        Slot entry = std::exchange(slot(tail_), {});
        ++tail_;
        if (entry.kind == OpKind::probe) {
            probing_ = false;
        }
        finish(entry, {});
    }
    if (state_ != State::ready) {
        return;
    }
    const OpKind kind = slot(target).kind;
    if (failed && left_ && (kind == OpKind::credits || kind == OpKind::probe)) {
        return; // they crossed the peer's goodbye; nobody waits for them
    }
    if (failed) {
        fail(describe(slot(target), result));
        return;
    }
    drain();
    if (credits_held_) {
        send_credits();
    }
}

void EndpointCore::on_received(std::uint32_t slot, std::uint32_t length)
{
    if (state_ != State::ready) {
        return;
    }
    ++heard_;
    const auto bytes = wire_->received(slot, length);
    MessageHeader header;
    if (!MessageHeader::decode(bytes, header)) {
        fail({Code::protocol,
              format("%s sent %u bytes that aren't a message", name().c_str(), length)});
        return;
    }
    if (header.kind == MessageHeader::Kind::bye) {
        on_goodbye();
        return;
    }
    const bool control = header.kind == MessageHeader::Kind::credits;
    if (control) {
        // Before its credits are used: see credits.hpp.
        if (const Status status = wire_->repost(slot); status.failed()) {
            fail(status);
            return;
        }
    }
    if (!credits_.give(header.credits)) {
        fail({Code::protocol,
              format("%s returned %u credits, more than it has", name().c_str(), header.credits)});
        return;
    }
    if (!control) {
        ++statistics_.messages_received;
        statistics_.bytes_received += header.length;
        if (!host_.deliver(*this, header.am_id, bytes.subspan(MessageHeader::size))) {
            fail({Code::protocol, format("%s sent a message %u of %u bytes, for which there is no "
                                         "handler",
                                         name().c_str(), header.am_id, header.length)});
            return;
        }
        if (state_ != State::ready) {
            return; // the handler closed the endpoint
        }
        if (const Status status = wire_->repost(slot); status.failed()) {
            fail(status);
            return;
        }
        credits_.reposted();
    }
    drain();
    if (credits_.must_return()) {
        send_credits();
    }
}

void EndpointCore::on_goodbye()
{
    left_ = true;
    error_ = {Code::peer_lost, name() + " has closed the connection"};
    if (outstanding_ != 0) {
        fail(Status(error_)); // it won't take them any more
        return;
    }
    update_starving();
}

void EndpointCore::say_goodbye()
{
    if (state_ != State::ready || failing_ || left_ || posted() >= slots_.size()) {
        return;
    }
    MessageHeader header;
    header.kind = MessageHeader::Kind::bye;
    std::array<std::byte, MessageHeader::size> bytes{};
    header.encode(bytes);
    post_control(OpKind::bye, bytes);
}

void EndpointCore::on_receive_error(const WireResult &result)
{
    if (state_ != State::ready || failing_ || left_) {
        return;
    }
    // Receives end in an error because the queue pair did. Why, a request of ours may tell that
    // completes next; so wait for that.
    fail_later({Code::peer_lost, format("the connection with %s broke: receive ended with %s "
                                        "(status %u, vendor error 0x%x)%s",
                                        name().c_str(), result.detail, result.status, result.vendor,
                                        advice(Code::peer_lost))});
}

void EndpointCore::send_credits()
{
    credits_held_ = false;
    if (state_ != State::ready || failing_ || left_) {
        return;
    }
    if (posted() >= slots_.size()) {
        credits_held_ = true;
        return;
    }
    MessageHeader header;
    header.kind = MessageHeader::Kind::credits;
    header.credits = credits_.collect();
    if (header.credits == 0) {
        return;
    }
    std::array<std::byte, MessageHeader::size> bytes{};
    header.encode(bytes);
    ++statistics_.credit_messages;
    post_control(OpKind::credits, bytes);
}

void EndpointCore::probe()
{
    if (state_ != State::ready || failing_ || left_ || probing_ || posted() >= slots_.size()) {
        return;
    }
    probing_ = true;
    post_control(OpKind::probe, {});
}

void EndpointCore::post_control(OpKind kind, std::span<const std::byte> bytes)
{
    WorkRequest request;
    request.kind = kind;
    request.signaled = true;
    request.inlined = !bytes.empty();
    request.sequence = head_;
    request.local = reinterpret_cast<std::uint64_t>(bytes.data());
    request.length = static_cast<std::uint32_t>(bytes.size());
    request.rkey = rkey_;
    unsignaled_ = 0;
    Slot &entry = slot(head_++);
    entry = {};
    entry.kind = kind;
    if (const Status status = wire_->post({&request, 1}); status.failed()) {
        fail_later(status);
    }
}

void EndpointCore::check_alive(TimePoint now, Duration stall, Duration idle)
{
    if (state_ != State::ready || failing_ || left_) {
        return;
    }
    const Duration patience = starving_ ? stall : idle;
    // Of unsignaled requests nothing will be heard, so they don't mean that something is awaited.
    const bool may_be_quiet = posted() == unsignaled_ || starving_;
    if (patience == Duration::zero() || !may_be_quiet || heard_ != heard_last_ || !quiet_) {
        heard_last_ = heard_;
        quiet_ = true;
        quiet_since_ = now;
        return;
    }
    if (now - quiet_since_ >= patience) {
        quiet_since_ = now;
        probe();
    }
}

void EndpointCore::update_starving() noexcept
{
    const bool now = state_ == State::ready && !failing_ && !queue_.empty() &&
                     queue_.front().kind == OpKind::send && credits_.available() == 0;
    if (now != starving_) {
        starving_ = now;
        quiet_ = false;
        host_.starving(now ? 1 : -1);
    }
}

void EndpointCore::fail_later(const Status &status)
{
    if (state_ == State::failed || failing_) {
        return;
    }
    failing_ = true;
    error_ = status;
    host_.defer(*this);
}

void EndpointCore::run_deferred()
{
    if (failing_ && state_ != State::failed) {
        fail(Status(error_));
    }
}

void EndpointCore::fail(const Status &status)
{
    if (state_ == State::failed) {
        return;
    }
    state_ = State::failed;
    failing_ = false;
    error_ = status;
    update_starving();
    if (wire_ != nullptr) {
        wire_->stop(); // from here on no device touches the users' memory
    }
    // The oldest request is the one that failed, the others didn't get their turn.
    const Status flushed(Code::flushed, format("not done, since before it: %s", error_.text()));
    bool first = true;
    while (tail_ < head_) {
        Slot entry = std::exchange(slot(tail_), {});
        ++tail_;
        finish(entry, first ? error_ : flushed);
        first = false;
    }
    while (!queue_.empty()) {
        const Operation operation = queue_.front();
        queue_.pop_front();
        Slot entry;
        entry.last = true;
        entry.buffer = operation.buffer;
        entry.completion = operation.completion;
        finish(entry, first ? error_ : flushed);
        first = false;
    }
    host_.endpoint_failed(*this, error_);
}

Status EndpointCore::describe(const Slot &slot, const WireResult &result) const
{
    return {result.code,
            format("%s of %" PRIu64 " bytes, local address 0x%" PRIx64 ", remote 0x%" PRIx64
                   ", %s failed: %s (status %u, vendor error 0x%x)%s",
                   kind_name(slot.kind), slot.length, slot.local, slot.remote, name().c_str(),
                   result.detail, result.status, result.vendor, advice(result.code))};
}

} // namespace odp
