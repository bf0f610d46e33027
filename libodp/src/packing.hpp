// SPDX-License-Identifier: BSD-3-Clause
//
// Little-endian fields in bytes, the same on every host. A Reader never reads beyond its bytes:
// what is missing reads as zero and clears ok().
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace odp {

class Writer {
public:
    explicit Writer(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}

    template <std::unsigned_integral T> void put(T value) noexcept
    {
        for (std::size_t i = 0; i < sizeof(T) && used_ < bytes_.size(); ++i) {
            bytes_[used_++] = static_cast<std::byte>(value >> (8U * i));
        }
    }

    void put_bytes(std::span<const std::byte> data) noexcept
    {
        const std::size_t count = std::min(data.size(), bytes_.size() - used_);
        std::copy_n(data.begin(), count, bytes_.begin() + static_cast<std::ptrdiff_t>(used_));
        used_ += count;
    }

    [[nodiscard]] std::size_t used() const noexcept { return used_; }

private:
    std::span<std::byte> bytes_;
    std::size_t used_ = 0;
};

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

    template <std::unsigned_integral T> T get() noexcept
    {
        if (bytes_.size() < sizeof(T)) {
            bytes_ = {};
            ok_ = false;
            return 0;
        }
        T value = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            value = static_cast<T>(value | (static_cast<T>(bytes_[i]) << (8U * i)));
        }
        bytes_ = bytes_.subspan(sizeof(T));
        return value;
    }

    std::span<const std::byte> get_bytes(std::size_t count) noexcept
    {
        if (bytes_.size() < count) {
            bytes_ = {};
            ok_ = false;
            return {};
        }
        const auto head = bytes_.first(count);
        bytes_ = bytes_.subspan(count);
        return head;
    }

    [[nodiscard]] bool ok() const noexcept { return ok_; }
    [[nodiscard]] std::size_t left() const noexcept { return bytes_.size(); }

private:
    std::span<const std::byte> bytes_;
    bool ok_ = true;
};

} // namespace odp
