// SPDX-License-Identifier: BSD-3-Clause
//
// The public face of EndpointCore: every Endpoint is one.
#include "odp/endpoint.hpp"

#include "endpoint_core.hpp"

#include <new>

namespace odp {

namespace {

EndpointCore &core(Endpoint &endpoint) noexcept
{
    return static_cast<EndpointCore &>(endpoint);
}

const EndpointCore &core(const Endpoint &endpoint) noexcept
{
    return static_cast<const EndpointCore &>(endpoint);
}

} // namespace

Status Endpoint::send(SendBuffer &buffer, std::uint8_t am_id, std::size_t length,
                      Completion *completion)
{
    return core(*this).do_send(buffer, am_id, length, completion);
}

Status Endpoint::put(const void *local, std::uint64_t remote, std::size_t length,
                     Completion *completion)
{
    return core(*this).do_rdma(OpKind::put, reinterpret_cast<std::uint64_t>(local), remote, length,
                               completion);
}

Status Endpoint::get(void *local, std::uint64_t remote, std::size_t length, Completion *completion)
{
    return core(*this).do_rdma(OpKind::get, reinterpret_cast<std::uint64_t>(local), remote, length,
                               completion);
}

Status Endpoint::connect()
{
    return core(*this).do_connect();
}

bool Endpoint::connected() const noexcept
{
    return core(*this).is_ready() && !core(*this).peer_left();
}

const Status &Endpoint::error() const noexcept
{
    return core(*this).failure();
}

std::size_t Endpoint::pending() const noexcept
{
    return core(*this).outstanding();
}

bool Endpoint::quiet() const noexcept
{
    return core(*this).outstanding() == 0 && core(*this).posted() == 0;
}

const Address &Endpoint::peer() const noexcept
{
    return core(*this).peer_address();
}

std::string Endpoint::str() const
{
    return core(*this).name();
}

} // namespace odp
