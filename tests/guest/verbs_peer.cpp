// SPDX-License-Identifier: BSD-3-Clause
// Two processes, and what happens when one of them dies; pages that come late (userfaultfd).
#include "verbs_process.hpp"
#include "verbs_remote.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <memory>
#include <thread>

namespace vt {
namespace {

struct Target {
    Address endpoint;
    uint64_t address;
    uint32_t rkey;
};

constexpr size_t size = 64 * page_size;

EndpointConfig impatient()
{
    EndpointConfig config;
    config.retry = 3;
    config.timeout = 12; // 16 ms
    return config;
}

// A process that connects, exposes on-demand memory and stays until it is told (or killed).
void serve_memory(Channel &channel)
{
    Device device;
    Pd pd = device.pd();
    Endpoint qp(device, pd.get());
    Memory memory(size);
    Region region = device.on_demand(pd.get(), memory.bytes());
    channel.put(Target{qp.address(), memory.address(), region.rkey()});
    qp.connect(channel.get<Address>());
    channel.barrier(1);
    while (auto seed = channel.get<uint64_t>()) { // checks, then offers new contents
        expect_pattern(memory.bytes(), seed, "what the peer wrote");
        memory.replace();
        fill(memory.bytes(), seed + 1);
        channel.put(seed);
    }
}

// The client of serve_memory: its own memory is pinned.
struct Client {
    Child server;
    Device device;
    Pd pd = device.pd();
    Endpoint qp{device, pd.get(), impatient()};
    Memory memory{size};
    Region region = device.pinned(pd.get(), memory.bytes());
    Target target;

    explicit Client(const std::function<void(Channel &)> &body = serve_memory)
        : server(body),
          target(server.channel().get<Target>())
    {
        server.channel().put(qp.address());
        qp.connect(target.endpoint);
        server.channel().barrier(1);
    }
    Work write() const
    {
        return Work::write({region.sge(memory.bytes())}, target.address, target.rkey);
    }
    Work read() const
    {
        return Work::read({region.sge(memory.bytes())}, target.address, target.rkey);
    }
};

const Register cross{
    "peer.two_processes", "WRITE and READ between two address spaces, remapped", [] {
        Client t;
        for (uint64_t seed = 1; seed < 40; seed += 2) {
            fill(t.memory.bytes(), seed);
            t.qp.post(t.write());
            t.qp.sent().wait_ok();
            t.server.channel().put(seed);
            t.server.channel().get<uint64_t>();
            t.qp.post(t.read());
            t.qp.sent().wait_ok();
            expect_pattern(t.memory.bytes(), seed + 1, "read from the other process");
        }
        t.server.channel().put(uint64_t{0});
        t.server.join();
    }};

const Register killed_idle{
    "peer.killed", "the peer was killed: the next request ends in an error", [] {
        Client t;
        t.qp.post(t.write());
        t.qp.sent().wait_ok();
        t.server.kill();
        t.qp.post({t.write().id(1), t.read().id(2)});
        expect_eq(t.qp.sent().wait_status(IBV_WC_RETRY_EXC_ERR).wr_id, 1U, "wr_id");
        expect_eq(t.qp.sent().wait_status(IBV_WC_WR_FLUSH_ERR).wr_id, 2U, "wr_id");
        t.qp.wait_state(IBV_QPS_ERR);
        expect_device_works();
    }};

const Register killed_rnr{
    "peer.killed_while_waiting", "killed while our SEND waits for its receive", [] {
        Client t;
        t.qp.post(Work::send({}).id(1));
        t.qp.sent().expect_empty("the peer has posted no receive");
        t.server.kill();
        expect_eq(t.qp.sent().wait_status(IBV_WC_RETRY_EXC_ERR).wr_id, 1U, "wr_id");
        expect_device_works();
    }};

const Register killed_busy{
    "peer.killed_in_transfer", "killed at some point of a stream of transfers, 10 times", [] {
        for (int round = 0; round < 10; ++round) {
            Client t;
            std::atomic<bool> dead{false};
            std::thread killer([&] {
                // Between the first and the fiftieth transfer, at whatever point of it.
                std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
                t.server.kill();
                dead = true;
            });
            int done = 0;
            ibv_wc wc{};
            try {
                do {
                    t.qp.post(done % 2 == 0 ? t.write() : t.read());
                    wc = t.qp.sent().wait();
                    ++done;
                } while (wc.status == IBV_WC_SUCCESS && done < 1000000);
            } catch (const Failure &failure) {
                note_failure(failure.what());
            }
            killer.join();
            expect(dead, "the peer was not killed");
            // An exiting address space can show as an access error until its QP is gone.
            expect(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_REM_ACCESS_ERR ||
                       wc.status == IBV_WC_REM_OP_ERR,
                   str("the stream ended with ", ibv_wc_status_str(wc.status)));
        }
        expect_device_works();
    }};

// The other way round: the victim is the one that posts.
const Register killed_poster{
    "peer.poster_killed", "killed while it posts a stream of 1 MiB writes", [] {
        for (int round = 0; round < 5; ++round) {
            Memory memory(mib);
            Device device;
            Pd pd = device.pd();
            Endpoint qp(device, pd.get());
            Region region = device.on_demand(pd.get(), memory.bytes());
            Child poster([](Channel &channel) {
                Device device;
                Pd pd = device.pd();
                Endpoint qp(device, pd.get());
                Memory source(mib);
                Region region = device.on_demand(pd.get(), source.bytes());
                channel.put(qp.address());
                auto target = channel.get<Target>();
                qp.connect(target.endpoint);
                channel.barrier(1);
                for (;;) {
                    source.advise(MADV_DONTNEED);
                    qp.post(Work::write({region.sge(source.bytes())}, target.address, target.rkey));
                    qp.sent().wait_ok();
                    *source.data() = std::byte{1};
                }
            });
            qp.connect(poster.channel().get<Address>());
            poster.channel().put(Target{qp.address(), memory.address(), region.rkey()});
            poster.channel().barrier(1);
            std::this_thread::sleep_for(
                std::chrono::milliseconds(7 * round)); // not a wait: the offset
            poster.kill();
        }
        expect_device_works();
    }};

class Uffd {
public:
    explicit Uffd(std::span<std::byte> bytes)
        : fd_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)))
    {
        if (fd_ < 0) {
            throw Skip(str("userfaultfd: ", std::strerror(errno)));
        }
        uffdio_api api{};
        api.api = UFFD_API;
        expect_sys(ioctl(fd_, UFFDIO_API, &api), "UFFDIO_API");
        uffdio_register range{};
        range.range = {reinterpret_cast<uintptr_t>(bytes.data()), bytes.size()};
        range.mode = UFFDIO_REGISTER_MODE_MISSING;
        expect_sys(ioctl(fd_, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
    }
    Uffd(const Uffd &) = delete;
    Uffd &operator=(const Uffd &) = delete;
    ~Uffd() { close(fd_); }

    // The page somebody waits for, 0 when nobody does within the limit.
    uint64_t fault(std::chrono::milliseconds limit = patience) const
    {
        pollfd wait{fd_, POLLIN, 0};
        uffd_msg message{};
        if (poll(&wait, 1, static_cast<int>(limit.count())) != 1 ||
            read(fd_, &message, sizeof(message)) != sizeof(message)) {
            return 0;
        }
        return message.arg.pagefault.address & ~uint64_t{page_size - 1};
    }
    void resolve(uint64_t page, std::span<const std::byte> content) const
    {
        uffdio_copy copy{};
        copy.dst = page;
        copy.src = reinterpret_cast<uintptr_t>(content.data());
        copy.len = page_size;
        int result = ioctl(fd_, UFFDIO_COPY, &copy);
        expect(result == 0 || errno == EEXIST, str("UFFDIO_COPY: ", std::strerror(errno)));
    }

private:
    int fd_;
};

const Register late_page{
    "uffd.late_page", "a page that comes late: the doorbell returns, then data", [] {
        Memory target(4 * page_size);
        Memory content(page_size);
        fill(content.bytes(), 9);
        Remote t(target);
        Uffd uffd(target.bytes());
        // If the doorbell waited for the page, nobody but this thread would ever bring it.
        std::atomic<bool> posted{false};
        std::atomic<bool> stuck{false};
        std::thread rescue([&] {
            if (!wait_until([&] { return posted.load(); }, std::chrono::seconds(5))) {
                stuck = true;
                for (size_t page = 0; page < 4; ++page) {
                    uffd.resolve(target.address() + page * page_size, content.bytes());
                }
            }
        });
        t.a.post(Work::read({t.near().sge(t.local().bytes(0, 100))}, target.address() + 50,
                            t.region().rkey()));
        posted = true;
        rescue.join();
        expect(!stuck, "the doorbell blocked on a page fault");
        expect_eq(uffd.fault(), target.address(), "the page that the device waits for");
        t.a.sent().expect_empty("the page isn't there yet");
        expect_device_works(); // other queue pairs go on meanwhile
        uffd.resolve(target.address(), content.bytes());
        t.a.sent().wait_ok();
        expect(std::memcmp(t.local().data(), content.data() + 50, 100) == 0, "read: wrong data");
    }};

const Register late_write{
    "uffd.write_in_order", "requests behind a late page stay in order", [] {
        Memory target(4 * page_size);
        Memory zeros(page_size);
        Remote t(target);
        Uffd uffd(target.bytes(0, page_size));
        fill(t.local().bytes(0, 3 * page_size), 4);
        t.a.post({Work::write({t.near().sge(t.local().bytes(0, page_size))}, target.address(),
                              t.region().rkey())
                      .id(1),
                  Work::write({t.near().sge(t.local().bytes(0, page_size))},
                              target.address() + 2 * page_size, t.region().rkey())
                      .id(2)});
        expect_eq(uffd.fault(), target.address(), "the page that the device waits for");
        t.a.sent().expect_empty("the first page isn't there yet");
        uffd.resolve(target.address(), zeros.bytes());
        expect_eq(t.a.sent().wait_ok().wr_id, 1U, "first");
        expect_eq(t.a.sent().wait_ok().wr_id, 2U, "second");
        expect_pattern(target.bytes(0, page_size), 4, "written to the late page");
        expect_pattern(target.bytes(2 * page_size, page_size), 4, "written behind it");
    }};

const Register never{
    "uffd.never", "a page that never comes: QP, region, process go away all the same", [] {
        for (int round = 0; round < 4; ++round) {
            Child child([round](Channel &channel) {
                Memory target(4 * page_size);
                auto t = std::make_unique<Remote>(target);
                Uffd uffd(target.bytes());
                std::thread([&] { // the doorbell may block, that is another case's concern
                    t->a.try_post({Work::write({t->near().sge(t->local().bytes(0, 64))},
                                               target.address(), t->region().rkey())});
                })
                    .detach();
                expect_eq(uffd.fault(), target.address(), "the page that the device waits for");
                channel.barrier(1);
                if (round % 2 == 1) {
                    t.reset(); // destroys QPs and region while the fault waits
                    channel.barrier(2);
                }
                pause(); // until it is killed
            });
            child.channel().barrier(1);
            if (round % 2 == 1) {
                child.channel().barrier(2);
            }
            child.kill(); // the runner's time limit is the bound
        }
        expect_device_works();
    }};

} // namespace
} // namespace vt
