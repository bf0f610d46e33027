// SPDX-License-Identifier: BSD-3-Clause
// Failures and skips of the guest tests, and the register of the test cases.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace vt {

// Ends the case as failed; what() names the source line.
class Failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Ends the case as skipped; what() is the reason shown to the user.
class Skip : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Joins anything streamable. (std::format needs g++ 13; Debian 12 has 12.)
template <class... Args> std::string str(const Args &...args)
{
    std::ostringstream out;
    (out << ... << args);
    return out.str();
}

using Location = std::source_location;

[[noreturn]] inline void fail(std::string_view what, const Location &at = Location::current())
{
    throw Failure(str(at.file_name(), ":", at.line(), ": ", what));
}

inline void expect(bool ok, std::string_view what, const Location &at = Location::current())
{
    if (!ok) {
        fail(what, at);
    }
}

template <class Got, class Want>
void expect_eq(const Got &got, const Want &want, std::string_view what,
               const Location &at = Location::current())
{
    if (!(got == want)) {
        fail(str(what, ": got ", got, ", want ", want), at);
    }
}

// For calls that return 0 or an errno value, as most of libibverbs does.
inline void expect_zero(int error, std::string_view what, const Location &at = Location::current())
{
    if (error != 0) {
        fail(str(what, ": ", std::strerror(error < 0 ? -error : error)), at);
    }
}

// For calls that return -1 and set errno.
template <class T>
T expect_sys(T result, std::string_view what, const Location &at = Location::current())
{
    if (result == (T)-1) { // a C cast, since mmap() returns the pointer -1
        fail(str(what, ": ", std::strerror(errno)), at);
    }
    return result;
}

// A failure where no exception can be thrown (destructors, threads): printed at once, and the
// process ends with a failure whatever the case says. Thread-safe.
void note_failure(std::string_view what);

using Clock = std::chrono::steady_clock;

// Each wait in a test is bounded by this; generous, since the guest is emulated.
inline constexpr std::chrono::seconds patience{15};

// Polls until the condition holds; false when patience ran out.
bool wait_until(const std::function<bool()> &condition, std::chrono::milliseconds limit = patience);

struct Case {
    std::string name;
    std::string about;
    std::function<void()> run;
};

// Registration by a static object: `const Register send{"rc.send", "one line", [] { ... }};`
class Register {
public:
    Register(std::string name, std::string about, std::function<void()> run);
};

std::vector<Case> &cases();

} // namespace vt
