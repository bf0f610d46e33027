// SPDX-License-Identifier: BSD-3-Clause
//
// Errors as values. Nothing in libodp throws across its interface, aborts or prints: an operation
// says what went wrong in a Status, whose text is one line for a user: what failed, with which
// values, and what can be done.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace odp {

enum class Code : std::uint8_t {
    ok,               // done
    in_progress,      // accepted: the operation's Completion will be called exactly once
    no_resource,      // a limit is reached for now: try again after Context::progress()
    invalid_argument, // the caller's mistake
    unsupported,      // device, kernel or library can't do it
    no_device,        // no device will do; the text has the reason for each
    no_memory,        // memory, or memory that may be locked (ulimit -l)
    timed_out,        // the peer doesn't answer a connection request
    rejected,         // the peer refused the connection; the text has its reason
    peer_lost,        // the peer's process or queue pair is gone
    local_fault,      // a local address isn't mapped, or not with the access needed
    remote_fault,     // a remote address isn't mapped, or not with the access needed
    flushed,          // not done because the endpoint failed or closed before its turn
    protocol,         // the peer sent something that doesn't make sense
    system,           // a system or verbs call failed unexpectedly; the text has errno
};

// The enumerator's name; never NULL.
[[nodiscard]] const char *code_name(Code code) noexcept;

// A code, and for errors a text. Copying is cheap and doesn't throw; ok() carries no allocation.
class [[nodiscard]] Status {
public:
    Status() noexcept = default;
    Status(Code code) noexcept : code_(code) {} // NOLINT(google-explicit-constructor)
    Status(Code code, std::string text) noexcept;

    // errno `error` of `what`, as "what: strerror"; ENOMEM/EAGAIN become no_memory.
    static Status from_errno(int error, std::string_view what) noexcept;

    [[nodiscard]] Code code() const noexcept { return code_; }
    [[nodiscard]] bool ok() const noexcept { return code_ == Code::ok; }
    [[nodiscard]] bool in_progress() const noexcept { return code_ == Code::in_progress; }
    // Neither ok nor in_progress.
    [[nodiscard]] bool failed() const noexcept { return !ok() && !in_progress(); }
    // One line without newline; the code's name if there is no text. Valid while *this lives.
    [[nodiscard]] const char *text() const noexcept;

private:
    Code code_ = Code::ok;
    std::shared_ptr<const std::string> text_;
};

// A T, or the Status that says why not.
template <typename T> class [[nodiscard]] Result {
public:
    Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
    Result(Status status) : status_(std::move(status)) {} // NOLINT(google-explicit-constructor)
    Result(Code code, std::string text) : status_(code, std::move(text)) {}

    [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
    explicit operator bool() const noexcept { return ok(); }
    [[nodiscard]] const Status &status() const noexcept { return status_; }
    // Only if ok(). NOLINTBEGIN(bugprone-unchecked-optional-access)
    T &operator*() noexcept { return *value_; }
    T *operator->() noexcept { return &*value_; }
    const T &operator*() const noexcept { return *value_; }
    const T *operator->() const noexcept { return &*value_; }
    // NOLINTEND(bugprone-unchecked-optional-access)

private:
    std::optional<T> value_;
    Status status_;
};

} // namespace odp
