// SPDX-License-Identifier: BSD-3-Clause
// odp_verbs_tests: runs the named cases against the device in ODP_TEST_DEVICE (default odp0).
// Exit status: 0 passed, 1 failed, 2 usage, 77 skipped (the last line of output is the reason).
#include "verbs_check.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace vt {
namespace {

std::atomic<int> noted_failures{0};

void usage()
{
    std::puts("usage: odp_verbs_tests --list | CASE...\n"
              "Runs verbs test cases on the device named by ODP_TEST_DEVICE (default odp0).\n"
              "Exit status: 0 passed, 1 failed, 77 skipped with the reason on the last line.");
}

int run_case(const Case &test)
{
    try {
        test.run();
    } catch (const Skip &skip) {
        if (*skip.what() != '\0') {
            std::printf("%s\n", skip.what());
        }
        return 77;
    } catch (const std::exception &error) {
        std::printf("%s: %s\n", test.name.c_str(), error.what());
        return 1;
    }
    if (noted_failures != 0) {
        return 1;
    }
    std::printf("%s: ok\n", test.name.c_str());
    return 0;
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
    std::vector<std::string> names(argv + 1, argv + argc);
    auto &all = vt::cases();
    std::sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.name < b.name; });
    if (names.empty() || names[0] == "--help") {
        vt::usage();
        return names.empty() ? 2 : 0;
    }
    if (names[0] == "--list") {
        for (const auto &test : all) {
            std::printf("%-28s %s\n", test.name.c_str(), test.about.c_str());
        }
        return 0;
    }
    int worst = 0;
    for (const auto &name : names) {
        auto found = std::find_if(all.begin(), all.end(), [&](auto &t) { return t.name == name; });
        if (found == all.end()) {
            std::fprintf(stderr, "odp_verbs_tests: no case '%s'; see --list\n", name.c_str());
            return 2;
        }
        int result = vt::run_case(*found);
        worst = worst == 1 || result == 0 ? worst : result;
    }
    return worst;
}
