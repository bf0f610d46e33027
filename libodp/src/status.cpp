// SPDX-License-Identifier: BSD-3-Clause
#include "odp/status.hpp"

#include "format.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <new>
#include <system_error>

namespace odp {

const char *code_name(Code code) noexcept
{
    switch (code) {
    case Code::ok:
        return "ok";
    case Code::in_progress:
        return "in progress";
    case Code::no_resource:
        return "no resource for now";
    case Code::invalid_argument:
        return "invalid argument";
    case Code::unsupported:
        return "unsupported";
    case Code::no_device:
        return "no usable device";
    case Code::no_memory:
        return "out of memory";
    case Code::timed_out:
        return "timed out";
    case Code::rejected:
        return "rejected by the peer";
    case Code::peer_lost:
        return "peer lost";
    case Code::local_fault:
        return "bad local address";
    case Code::remote_fault:
        return "bad remote address";
    case Code::flushed:
        return "flushed";
    case Code::protocol:
        return "protocol error";
    case Code::system:
        return "system error";
    }
    return "unknown code";
}

Status::Status(Code code, std::string text) noexcept : code_(code)
{
    try {
        text_ = std::make_shared<const std::string>(std::move(text));
    } catch (const std::bad_alloc &) {
        text_.reset(); // the code still says what happened
    }
}

const char *Status::text() const noexcept
{
    return text_ != nullptr ? text_->c_str() : code_name(code_);
}

Status Status::from_errno(int error, std::string_view what) noexcept
{
    const Code code = error == ENOMEM || error == EAGAIN ? Code::no_memory : Code::system;
    try {
        return {code, std::string(what) + ": " + std::generic_category().message(error)};
    } catch (const std::bad_alloc &) {
        return code;
    }
}

std::string format(const char *pattern, ...)
{
    va_list args;
    va_start(args, pattern);
    va_list again;
    va_copy(again, args);
    const int length = std::vsnprintf(nullptr, 0, pattern, args);
    va_end(args);
    std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
    if (length > 0) {
        std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    }
    va_end(again);
    return text;
}

} // namespace odp
