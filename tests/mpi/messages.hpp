// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "harness.hpp"

#include <span>
#include <vector>

/// Shorthands for byte messages on MPI_COMM_WORLD.
namespace mpitest {

constexpr int data_tag = 11;
constexpr int token_tag = 12;

inline void send(std::span<const std::byte> data, int to, int tag = data_tag)
{
    MPI_Send(data.data(), static_cast<int>(data.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

inline MPI_Status receive(std::span<std::byte> data, int from, int tag = data_tag)
{
    MPI_Status status;
    MPI_Recv(data.data(), static_cast<int>(data.size()), MPI_BYTE, from, tag, MPI_COMM_WORLD,
             &status);
    return status;
}

inline MPI_Request isend(std::span<const std::byte> data, int to, int tag = data_tag)
{
    MPI_Request request;
    MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD,
              &request);
    return request;
}

inline MPI_Request ireceive(std::span<std::byte> data, int from, int tag = data_tag)
{
    MPI_Request request;
    MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, from, tag, MPI_COMM_WORLD,
              &request);
    return request;
}

inline void wait_all(std::vector<MPI_Request> &requests)
{
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    requests.clear();
}

/// An empty message: "go on". All that the sender sent before it has been offered to the receiver.
inline void give_token(int to)
{
    send({}, to, token_tag);
}

inline void take_token(int from)
{
    receive({}, from, token_tag);
}

/// Message lengths in bytes: 0, and each power of two up to @p max with its two neighbours.
std::vector<std::size_t> size_classes(std::size_t max);

/// The protocol limits of the BTLs in bytes (eager limit, fragment size, ...), from MPI_T; the odp
/// BTL's alone where it is loaded; customary values for an MPI without such variables.
std::vector<std::size_t> protocol_limits();

} // namespace mpitest
