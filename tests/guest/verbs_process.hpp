// SPDX-License-Identifier: BSD-3-Clause
// Child processes that take part in a case, and a socket to talk to them.
#pragma once

#include "verbs_check.hpp"

#include <sys/types.h>

#include <type_traits>
#include <utility>

namespace vt {

// One end of a stream socket between two processes; every wait is bounded by `patience`.
class Channel {
public:
    explicit Channel(int fd) : fd_(fd) {}
    Channel(Channel &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Channel &operator=(Channel &&) = delete;
    ~Channel();

    template <class T> void put(const T &value)
    {
        static_assert(std::is_trivially_copyable_v<T>);
        write_all(&value, sizeof(value));
    }
    template <class T> T get(const Location &at = Location::current())
    {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        read_all(&value, sizeof(value), at);
        return value;
    }
    // Both sides call it with the same number, in the same order.
    void barrier(int step, const Location &at = Location::current());

private:
    void write_all(const void *data, size_t size);
    void read_all(void *data, size_t size, const Location &at);
    int fd_;
};

// A forked process that runs `body` and exits 0, or prints the Failure and exits 1. It dies with
// its parent. Fork before opening a device: a child can't ring the doorbells of its parent's
// context (the kernel compares the credentials, uverbs_write).
class Child {
public:
    explicit Child(const std::function<void(Channel &)> &body);
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;
    ~Child(); // kills it when it was not joined

    Channel &channel() { return channel_; }
    pid_t pid() const { return pid_; }
    void join(const Location &at = Location::current()); // Failure unless it exited with 0
    void kill();                                         // SIGKILL, and reaps it

private:
    explicit Child(std::pair<pid_t, int> spawned);
    pid_t pid_;
    Channel channel_;
};

// Runs body in a child and joins it: for what changes the process for good (uid, limits).
void in_child(const std::function<void()> &body, const Location &at = Location::current());

} // namespace vt
