// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace vt {
namespace {

// The child's pid and the parent's end of the socket.
std::pair<pid_t, int> spawn(const std::function<void(Channel &)> &body)
{
    std::array<int, 2> ends{};
    expect_sys(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), "socketpair");
    std::fflush(nullptr);
    pid_t parent = getpid();
    pid_t pid = expect_sys(fork(), "fork");
    if (pid != 0) {
        close(ends[1]);
        return {pid, ends[0]};
    }
    // Not return: the destructors of what the parent owns are the parent's business.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    close(ends[0]);
    int status = 0;
    {
        Channel channel(ends[1]);
        try {
            body(channel);
        } catch (const Skip &skip) {
            std::printf("%s\n", skip.what());
            status = 77;
        } catch (const std::exception &error) {
            std::printf("child: %s\n", error.what());
            status = 1;
        }
    }
    std::fflush(nullptr);
    _exit(status);
}

} // namespace

Channel::~Channel()
{
    if (fd_ >= 0) {
        close(fd_);
    }
}

void Channel::write_all(const void *data, size_t size)
{
    ssize_t sent = send(fd_, data, size, MSG_NOSIGNAL); // small: fits the socket's buffer
    if (sent != static_cast<ssize_t>(size)) {
        fail(str("sending ", size, " bytes to the other process: ", std::strerror(errno)));
    }
}

void Channel::read_all(void *data, size_t size, const Location &at)
{
    auto *bytes = static_cast<char *>(data);
    while (size > 0) {
        pollfd wait{fd_, POLLIN, 0};
        int ready = poll(&wait, 1, std::chrono::milliseconds(patience).count());
        expect(ready == 1, "the other process says nothing", at);
        ssize_t got = read(fd_, bytes, size);
        expect(got > 0, "the other process is gone", at);
        bytes += got;
        size -= static_cast<size_t>(got);
    }
}

void Channel::barrier(int step, const Location &at)
{
    put(step);
    expect_eq(get<int>(at), step, "barrier", at);
}

Child::Child(const std::function<void(Channel &)> &body) : Child(spawn(body)) {}

Child::Child(std::pair<pid_t, int> spawned) : pid_(spawned.first), channel_(spawned.second) {}

Child::~Child()
{
    kill();
}

void Child::kill()
{
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
}

void Child::join(const Location &at)
{
    int status = 0;
    pid_t pid = pid_;
    bool ended = wait_until([&] { return waitpid(pid, &status, WNOHANG) == pid; }, 2 * patience);
    expect(ended, "the child process does not end", at);
    pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        throw Skip(""); // the child printed the reason
    }
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
           WIFSIGNALED(status) ? str("the child process died of signal ", WTERMSIG(status))
                               : str("the child process failed"),
           at);
}

void in_child(const std::function<void()> &body, const Location &at)
{
    Child child([&](Channel &) { body(); });
    child.join(at);
}

} // namespace vt
