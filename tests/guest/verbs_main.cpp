// SPDX-License-Identifier: BSD-3-Clause
// odp_verbs_tests: runs verbs cases against the device in ODP_TEST_DEVICE (default odp0).
//
// One name: the case runs in this process; exit status 0 passed, 1 failed, 77 skipped (the last
// line of output is the reason). That is for debuggers.
// Patterns (fnmatch(3)): each case runs in a process of its own with a time limit. The output
// starts with "# cases" and has a line "ok NAME (SECONDS s)", "not ok NAME: REASON" or
// "skip NAME: REASON" for each, which tests/guest/run reads; exit status 0 when none failed.
#include "verbs_check.hpp"

#include <fnmatch.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace vt {
namespace {

std::atomic<int> noted_failures{0};

constexpr int skipped = 77;
constexpr std::chrono::seconds case_limit{60};

void usage()
{
    std::puts("usage: odp_verbs_tests --list [PATTERN...] | CASE | PATTERN...\n"
              "Runs verbs test cases on the device named by ODP_TEST_DEVICE (default odp0).\n"
              "Exit status: 0 none failed, 1 failed, 77 the one case skipped, 2 usage.");
}

// Runs the case here. Sets `reason` unless it passed.
int run_case(const Case &test, std::string &reason)
{
    try {
        test.run();
    } catch (const Skip &skip) {
        reason = skip.what();
        return skipped;
    } catch (const std::exception &error) {
        reason = error.what();
        return 1;
    }
    if (noted_failures != 0) {
        reason = "see the failures above";
        return 1;
    }
    return 0;
}

int run_alone(const Case &test)
{
    std::string reason;
    int status = run_case(test, reason);
    // Nothing for a skip without a reason: a child process has printed it.
    if (status == 0 || !reason.empty()) {
        std::printf("%s\n", status == 0   ? str(test.name, ": ok").c_str()
                            : status == 1 ? str(test.name, ": ", reason).c_str()
                                          : reason.c_str());
    }
    return status;
}

// Everything up to the end of the pipe; false when the limit came first.
bool read_until_end(int fd, std::string &text, std::chrono::seconds limit)
{
    const auto end = Clock::now() + limit;
    std::array<char, 1024> chunk{};
    for (;;) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
        pollfd wait{fd, POLLIN, 0};
        if (left.count() <= 0 || poll(&wait, 1, static_cast<int>(left.count())) <= 0) {
            return false;
        }
        ssize_t got = read(fd, chunk.data(), chunk.size());
        if (got <= 0) {
            return true;
        }
        text.append(chunk.data(), static_cast<size_t>(got));
    }
}

// Runs the case in a process of its own and prints its line; true unless it failed.
bool run_apart(const Case &test)
{
    std::array<int, 2> ends{};
    expect_sys(pipe(ends.data()), "pipe");
    std::fflush(nullptr);
    const auto start = Clock::now();
    pid_t pid = expect_sys(fork(), "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        std::string reason;
        int status = run_case(test, reason);
        std::fflush(nullptr);
        ssize_t written = write(ends[1], reason.data(), reason.size());
        _exit(written == static_cast<ssize_t>(reason.size()) ? status : 1);
    }
    close(ends[1]);
    std::string reason;
    bool in_time = read_until_end(ends[0], reason, case_limit);
    close(ends[0]);
    if (!in_time) {
        kill(pid, SIGKILL);
    }
    int status = 0;
    waitpid(pid, &status, 0); // bounded by the runner, which tells where a process is stuck
    const std::chrono::duration<double> took = Clock::now() - start;
    if (!in_time) {
        reason = str("not done after ", case_limit.count(), " s");
    } else if (WIFSIGNALED(status)) {
        reason = str("ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
    } else if (WEXITSTATUS(status) == skipped) {
        std::printf("skip %s: %s\n", test.name.c_str(),
                    reason.empty() ? "see the line above" : reason.c_str());
        return true;
    } else if (WEXITSTATUS(status) == 0) {
        std::printf("ok %s (%.2f s)\n", test.name.c_str(), took.count());
        return true;
    }
    std::printf("not ok %s: %s\n", test.name.c_str(), reason.c_str());
    return false;
}

std::vector<const Case *> matching(const std::vector<std::string> &patterns)
{
    std::vector<const Case *> found;
    for (const auto &test : cases()) {
        if (patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](auto &pattern) {
                return fnmatch(pattern.c_str(), test.name.c_str(), 0) == 0;
            })) {
            found.push_back(&test);
        }
    }
    return found;
}

} // namespace

std::vector<Case> &cases()
{
    static std::vector<Case> all;
    return all;
}

Register::Register(std::string name, std::string about, std::function<void()> run)
{
    cases().push_back({std::move(name), std::move(about), std::move(run)});
}

void note_failure(std::string_view what)
{
    ++noted_failures;
    std::fprintf(stdout, "failure: %.*s\n", static_cast<int>(what.size()), what.data());
    std::fflush(stdout);
}

bool wait_until(const std::function<bool()> &condition, std::chrono::milliseconds limit)
{
    const auto end = Clock::now() + limit;
    while (!condition()) {
        if (Clock::now() > end) {
            return false;
        }
        sched_yield(); // two virtual CPUs may carry three test processes
    }
    return true;
}

} // namespace vt

int main(int argc, char **argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::vector<std::string> words(argv + 1, argv + argc);
    auto &all = vt::cases();
    std::sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.name < b.name; });
    if (words.empty() || words[0] == "--help") {
        vt::usage();
        return words.empty() ? 2 : 0;
    }
    bool list = words[0] == "--list";
    if (list) {
        words.erase(words.begin());
    }
    auto chosen = vt::matching(words);
    if (chosen.empty()) {
        std::fprintf(stderr, "odp_verbs_tests: no case matches '%s'; see --list\n",
                     words[0].c_str());
        return 2;
    }
    if (list) {
        for (const auto *test : chosen) {
            std::printf("%-28s %s\n", test->name.c_str(), test->about.c_str());
        }
        return 0;
    }
    if (words.size() == 1 && chosen.size() == 1 && chosen[0]->name == words[0]) {
        return vt::run_alone(*chosen[0]);
    }
    std::puts("# cases");
    bool passed = true;
    for (const auto *test : chosen) {
        passed = vt::run_apart(*test) && passed;
    }
    return passed ? 0 : 1;
}
