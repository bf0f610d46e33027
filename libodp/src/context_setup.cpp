// SPDX-License-Identifier: BSD-3-Clause
//
// Coming and going of a Context.
#include "context_impl.hpp"
#include "format.hpp"
#include "message.hpp"
#include "random.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>

namespace odp {

Context::~Context() = default;

Result<std::unique_ptr<Context>> Context::create(const Options &options)
{
    try {
        auto device = Device::open(options);
        if (!device) {
            return device.status();
        }
        if (const Status status = check_options(options, *device); status.failed()) {
            return status;
        }
        auto context = std::make_unique<ContextImpl>(std::move(*device), options);
        if (const Status status = context->set_up(); status.failed()) {
            return status;
        }
        return std::unique_ptr<Context>(std::move(context));
    } catch (const std::bad_alloc &) {
        return Status(Code::no_memory);
    }
}

ContextImpl::ContextImpl(Device device, const Options &options)
    : options_(options),
      device_(std::move(device))
{
}

Status ContextImpl::set_up()
{
    errno = 0;
    pd_ = ProtectionDomain(ibv_alloc_pd(device_.verbs()));
    if (!pd_) {
        return Status::from_errno(errno, device_.str() + ": ibv_alloc_pd");
    }
    auto region = Region::create(pd_.get(), device_);
    if (!region) {
        return region.status();
    }
    region_ = std::make_unique<Region>(std::move(*region));
    queues_ = std::make_unique<CompletionQueues>(
        device_.verbs(), options_.cq_depth,
        static_cast<std::uint32_t>(device_.attributes().orig_attr.max_cqe));
    fabric_.options = &options_;
    fabric_.device = &device_;
    fabric_.pd = pd_.get();
    fabric_.region = region_.get();
    fabric_.queues = queues_.get();
    fabric_.statistics = &statistics_;
    if (const Status status = choose_gid(); status.failed()) {
        return status;
    }
    auto granted = RcWire::granted_inline(fabric_);
    if (!granted) {
        return granted.status();
    }
    fabric_.max_inline = *granted;
    auto ud = UdPort::create(fabric_);
    if (!ud) {
        return ud.status();
    }
    ud_ = std::move(*ud);
    fabric_.self.qpn = ud_->qpn();
    fabric_.self.qkey = ud_->qkey();
    fabric_.self.session = random_nonzero();
    pool_ = std::make_unique<BufferPool>(
        [this](std::size_t bytes) -> Result<BufferPool::Memory> {
            auto memory = PinnedMemory::create(pd_.get(), bytes);
            if (!memory) {
                return memory.status();
            }
            statistics_.pinned_bytes += memory->bytes().size();
            auto owner = std::make_shared<PinnedMemory>(std::move(*memory));
            return BufferPool::Memory{owner->bytes(), owner->lkey(), owner};
        },
        options_.payload_room, options_.buffer_user_bytes, options_.max_send_buffers);
    connector_ = std::make_unique<Connector>(*this, fabric_.self,
                                             ConnectorLimits{options_.connect_interval,
                                                             options_.connect_interval_max,
                                                             options_.connect_timeout});
    say(LogLevel::debug, format("%s opened, address %s, inline %u bytes", device_.str().c_str(),
                                fabric_.self.str().c_str(), fabric_.max_inline));
    return {};
}

Status ContextImpl::choose_gid()
{
    const ibv_port_attr &port = device_.port_attributes();
    Address &self = fabric_.self;
    self.lid = device_.ethernet() ? 0 : port.lid;
    self.sl = options_.service_level;
    self.grh = device_.ethernet() || (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
    int best = options_.gid_index;
    int best_rank = -1;
    for (int index = 0; best < 0 || options_.gid_index < 0; ++index) {
        if (index >= port.gid_tbl_len) {
            break;
        }
        ibv_gid_entry entry{};
        if (ibv_query_gid_ex(device_.verbs(), device_.port(), static_cast<std::uint32_t>(index),
                             &entry, 0) != 0) {
            continue; // an empty place of the table
        }
        if (!device_.ethernet()) {
            best = index;
            break;
        }
        // RoCEv2 passes routers; an address of the machine's IP network rather than link-local.
        const bool v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
        const bool link_local = entry.gid.raw[0] == 0xfe && entry.gid.raw[1] == 0x80;
        const int rank = (v2 ? 2 : 0) + (link_local ? 0 : 1);
        if (rank > best_rank) {
            best_rank = rank;
            best = index;
        }
    }
    ibv_gid gid{};
    if (best < 0 || best > 255 || ibv_query_gid(device_.verbs(), device_.port(), best, &gid) != 0) {
        if (!self.grh && options_.gid_index < 0) {
            return {}; // reached by its LID
        }
        return {Code::no_device, format("%s has no GID %d (gid_index; its table has %d places)",
                                        device_.str().c_str(), best, port.gid_tbl_len)};
    }
    fabric_.gid_index = static_cast<std::uint8_t>(best);
    std::copy(std::begin(gid.raw), std::end(gid.raw), self.gid.begin());
    return {};
}

ContextImpl::~ContextImpl()
{
    if (guard_.in_child()) {
        // Everything belongs to the parent. The owners of verbs objects know that; the callers'
        // completions mean operations of the parent.
        return;
    }
    error_handler_ = nullptr;
    ++depth_;
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
        if (endpoints_[i] != nullptr) {
            close(*endpoints_[i]);
        }
    }
    --depth_;
    reap();
}

void ContextImpl::say(LogLevel level, const std::string &line) const
{
    if (options_.log != nullptr) {
        options_.log(options_.log_arg, level, line.c_str());
    }
}

std::size_t ContextImpl::max_inline_payload() const noexcept
{
    return fabric_.max_inline - MessageHeader::size;
}

} // namespace odp
