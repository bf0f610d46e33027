// SPDX-License-Identifier: BSD-3-Clause
#include "odp_pair.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pair_test {

void expect(bool ok, const std::string &what, const Location &at)
{
    if (!ok) {
        throw Failure(std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": " + what);
    }
}

void expect_good(const odp::Status &status, const Location &at)
{
    expect(!status.failed(), status.text(), at);
}

odp::Options basic()
{
    odp::Options options;
    if (const char *device = std::getenv("ODP_TEST_DEVICE")) {
        options.device = device;
    }
    options.connect_timeout = patience;
    return options;
}

Count::Count()
{
    done = [](odp::Completion *self, const odp::Status &how) {
        auto &count = static_cast<Count &>(*self);
        ++count.calls;
        count.status = how;
    };
}

// Different for every seed and place, so that a byte that is missing or misplaced shows.
void fill(std::span<std::byte> bytes, std::uint64_t seed)
{
    std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
    for (std::byte &byte : bytes) {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        byte = static_cast<std::byte>(state >> 32U);
    }
}

bool matches(std::span<const std::byte> bytes, std::uint64_t seed)
{
    std::vector<std::byte> wanted(bytes.size());
    fill(wanted, seed);
    return bytes.empty() || std::memcmp(bytes.data(), wanted.data(), bytes.size()) == 0;
}

Mapping::Mapping(std::size_t length)
{
    void *start = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(start != MAP_FAILED, "mmap of " + std::to_string(length) + " bytes");
    bytes_ = {static_cast<std::byte *>(start), length};
}

Mapping::~Mapping()
{
    munmap(bytes_.data(), bytes_.size());
}

Process::Process(int rank, int size, std::vector<int> sockets, const odp::Options &options)
    : rank_(rank),
      size_(size),
      sockets_(std::move(sockets)),
      options_(options)
{
}

void Process::open()
{
    auto context = odp::Context::create(options_);
    if (!context && context.status().code() == odp::Code::no_device) {
        throw Skip(context.status().text());
    }
    expect_good(context.status());
    context_ = std::move(*context);
    const auto mine = context_->address().pack();
    for (int other = 0; other < size_; ++other) {
        if (other != rank_) {
            expect(write(sockets_[other], mine.data(), mine.size()) ==
                       static_cast<ssize_t>(mine.size()),
                   "sending the address");
        }
    }
    addresses_.assign(size_, context_->address());
    for (int other = 0; other < size_; ++other) {
        if (other != rank_) {
            odp::Address::Packed packed{};
            read_exactly(other, packed.data(), packed.size(), true);
            auto address = odp::Address::unpack(packed);
            expect_good(address.status());
            addresses_[other] = *address;
        }
    }
}

odp::Endpoint &Process::endpoint(int rank)
{
    auto endpoint = context_->endpoint(addresses_.at(rank));
    expect_good(endpoint.status());
    return **endpoint;
}

void Process::until(const std::function<bool()> &condition, const std::string &what,
                    const Location &at)
{
    const auto end = Clock::now() + patience;
    while (!condition()) {
        if (context_ == nullptr || context_->progress() == 0) {
            sched_yield(); // two virtual CPUs carry several processes
        }
        expect(Clock::now() < end, "rank " + std::to_string(rank_) + " waited too long for " + what,
               at);
    }
}

void Process::read_exactly(int rank, void *data, std::size_t length, bool progressing)
{
    auto *at = static_cast<char *>(data);
    std::size_t got = 0;
    const auto step = [&] {
        const ssize_t count = recv(sockets_[rank], at + got, length - got, MSG_DONTWAIT);
        expect(count != 0, "rank " + std::to_string(rank) + " has ended");
        expect(count > 0 || errno == EAGAIN, std::string("recv: ") + std::strerror(errno));
        got += count > 0 ? static_cast<std::size_t>(count) : 0;
        return got == length;
    };
    if (progressing) {
        until(step, "word from rank " + std::to_string(rank));
        return;
    }
    const auto end = Clock::now() + patience;
    while (!step()) {
        expect(Clock::now() < end, "waited too long for word from rank " + std::to_string(rank));
        sched_yield();
    }
}

void Process::signal_all()
{
    for (int other = 0; other < size_; ++other) {
        if (other != rank_) {
            tell(other, 0);
        }
    }
}

void Process::tell(int rank, std::uint64_t value)
{
    expect(write(sockets_[rank], &value, sizeof(value)) == sizeof(value), "telling a peer");
}

std::uint64_t Process::hear(int rank)
{
    std::uint64_t value = 0;
    read_exactly(rank, &value, sizeof(value), true);
    return value;
}

void Process::barrier()
{
    signal_all();
    for (int other = 0; other < size_; ++other) {
        if (other != rank_) {
            (void)hear(other);
        }
    }
}

void Process::barrier_idle()
{
    signal_all();
    for (int other = 0; other < size_; ++other) {
        if (other != rank_) {
            std::uint64_t value = 0;
            read_exactly(other, &value, sizeof(value), false);
        }
    }
}

void Process::send(odp::Endpoint &to, std::uint8_t am_id, std::size_t length, std::uint64_t seed)
{
    odp::SendBuffer *buffer = nullptr;
    until([&] { return (buffer = context_->alloc()) != nullptr; }, "a send buffer");
    fill(buffer->payload().first(length), seed);
    const odp::Status status = to.send(*buffer, am_id, length, nullptr);
    if (status.failed()) {
        context_->release(*buffer);
    }
    expect_good(status);
}

odp::Status Process::finish(const odp::Status &accepted, Count &count)
{
    if (!accepted.in_progress()) {
        expect(count.calls == 0, "completion of an operation that isn't in progress");
        return accepted;
    }
    until([&] { return count.calls != 0; }, "a completion");
    expect(count.calls == 1, "completed more than once");
    return count.status;
}

odp::Status Process::put(odp::Endpoint &to, const void *local, std::uint64_t remote,
                         std::size_t length)
{
    Count count;
    return finish(to.put(local, remote, length, &count), count);
}

odp::Status Process::get(odp::Endpoint &to, void *local, std::uint64_t remote, std::size_t length)
{
    Count count;
    return finish(to.get(local, remote, length, &count), count);
}

namespace {

constexpr int exit_failed = 1;
constexpr int exit_skipped = 77;

int child(int rank, int size, std::vector<int> sockets, const odp::Options &options,
          const std::function<void(Process &)> &body)
{
    try {
        Process process(rank, size, std::move(sockets), options);
        process.open();
        body(process);
        process.destroy();
        return 0;
    } catch (const Skip &skip) {
        std::printf("%s\n", skip.what());
        return exit_skipped;
    } catch (const std::exception &failure) {
        std::printf("rank %d: %s\n", rank, failure.what());
        return exit_failed;
    }
}

} // namespace

void run(int size, const odp::Options &options, const std::function<void(Process &)> &body,
         int killed)
{
    std::fflush(stdout);
    std::vector<std::vector<int>> sockets(size, std::vector<int>(size, -1));
    for (int a = 0; a < size; ++a) {
        for (int b = a + 1; b < size; ++b) {
            int ends[2];
            expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
            sockets[a][b] = ends[0];
            sockets[b][a] = ends[1];
        }
    }
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
        const pid_t pid = fork();
        expect(pid >= 0, "fork");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int other = 0; other < size; ++other) {
                for (int fd : sockets[other]) {
                    if (other != rank && fd >= 0) {
                        close(fd);
                    }
                }
            }
            const int result = child(rank, size, sockets[rank], options, body);
            std::fflush(stdout);
            _exit(result);
        }
        children.push_back(pid);
    }
    for (const auto &row : sockets) {
        for (int fd : row) {
            if (fd >= 0) {
                close(fd);
            }
        }
    }
    bool skipped = false;
    std::string failure;
    for (int rank = 0; rank < size; ++rank) {
        int status = 0;
        waitpid(children[rank], &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == exit_skipped) {
            skipped = true;
        } else if (rank == killed ? !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                                  : !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            failure += " rank " + std::to_string(rank) +
                       (WIFSIGNALED(status) ? " died of signal " + std::to_string(WTERMSIG(status))
                                            : " failed");
        }
    }
    if (skipped) {
        throw Skip("");
    }
    expect(failure.empty(), "see above:" + failure);
}

std::vector<Case> &cases()
{
    static std::vector<Case> all;
    return all;
}

Register::Register(std::string name, std::string about, std::function<void()> run)
{
    cases().push_back({std::move(name), std::move(about), std::move(run)});
}

} // namespace pair_test

int main(int argc, char **argv)
{
    using namespace pair_test;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::vector<std::string> names(argv + 1, argv + argc);
    if (names.empty() || names[0] == "--help") {
        std::puts("usage: odp_pair --list | --all | CASE...\n"
                  "Runs libodp between processes on the device ODP_TEST_DEVICE (default: chosen).\n"
                  "Exit status: 0 passed, 1 failed, 77 skipped with the reason on the last line.");
        return names.empty() ? 2 : 0;
    }
    int worst = 0;
    std::size_t ran = 0;
    for (const Case &test : cases()) {
        if (names[0] == "--list") {
            std::printf("%-28s %s\n", test.name.c_str(), test.about.c_str());
            ++ran;
            continue;
        }
        bool wanted = names[0] == "--all";
        for (const auto &name : names) {
            wanted = wanted || name == test.name;
        }
        if (!wanted) {
            continue;
        }
        ++ran;
        try {
            test.run();
            std::printf("%s: ok\n", test.name.c_str());
        } catch (const Skip &skip) {
            worst = worst == 1 ? 1 : 77;
        } catch (const std::exception &failure) {
            std::printf("%s: %s\n", test.name.c_str(), failure.what());
            worst = 1;
        }
    }
    if (ran == 0) {
        std::fprintf(stderr, "odp_pair: no such case; see odp_pair --list\n");
        return 2;
    }
    return worst;
}
