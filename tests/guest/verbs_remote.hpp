// SPDX-License-Identifier: BSD-3-Clause
// A pair whose endpoint `a` works on on-demand memory through `b`, with one-line operations.
#pragma once

#include "verbs_endpoint.hpp"

namespace vt {

// `target` is on-demand memory that a reaches by RDMA; `local` is a pinned buffer for the other
// end, so that an error can only come from the target. Local use of on-demand memory goes the
// other way: operations from `target` as the local buffer into `local` as the remote one.
class Remote : public Pair {
public:
    // A quiet retry policy: an address error must come at once, not after retries.
    explicit Remote(Memory &target, unsigned access = all_access)
        : target_(target),
          local_(std::max(target.size(), page_size)),
          region_(device.on_demand(pd.get(), target.bytes(), access)),
          near_(device.pinned(pd.get(), local_.bytes()))
    {
    }

    const Region &region() const { return region_; }
    const Memory &local() const { return local_; }
    const Region &near() const { return near_; }

    // WRITEs `length` bytes of the pattern to the target and checks what arrived there.
    void write_checked(size_t offset, size_t length, uint64_t seed, std::string_view what,
                       const Location &at = Location::current())
    {
        write(offset, length, seed, at);
        expect_pattern(target_.bytes(offset, length), seed, what, at);
    }
    void write(size_t offset, size_t length, uint64_t seed,
               const Location &at = Location::current())
    {
        fill(local_.bytes(0, length), seed);
        a.post(Work::write({near_.sge(local_.bytes(0, length))}, target_.address() + offset,
                           region_.rkey()),
               at);
        a.sent().wait_ok(at);
    }
    // READs from the target; the result is in local().
    std::span<std::byte> read(size_t offset, size_t length,
                              const Location &at = Location::current())
    {
        a.post(Work::read({near_.sge(local_.bytes(0, length))}, target_.address() + offset,
                          region_.rkey()),
               at);
        a.sent().wait_ok(at);
        return local_.bytes(0, length);
    }
    void read_checked(size_t offset, size_t length, uint64_t seed, std::string_view what,
                      const Location &at = Location::current())
    {
        expect_pattern(read(offset, length, at), seed, what, at);
    }
    // The target as the local side: WRITE from it, READ into it.
    void write_from(size_t offset, size_t length, const Location &at = Location::current())
    {
        a.post(Work::write({region_.sge(target_.bytes(offset, length))}, local_.address(),
                           near_.rkey()),
               at);
        a.sent().wait_ok(at);
    }
    void read_into(size_t offset, size_t length, const Location &at = Location::current())
    {
        a.post(Work::read({region_.sge(target_.bytes(offset, length))}, local_.address(),
                          near_.rkey()),
               at);
        a.sent().wait_ok(at);
    }

private:
    Memory &target_;
    Memory local_;
    Region region_;
    Region near_;
};

// The status with which one operation on a fresh pair ends. The local side is pinned.
ibv_wc_status remote_write_status(const Device &device, ibv_pd *pd, uint64_t address, size_t length,
                                  uint32_t rkey);
ibv_wc_status remote_read_status(const Device &device, ibv_pd *pd, uint64_t address, size_t length,
                                 uint32_t rkey);
// As the local side of a SEND, and of a READ (which writes to it).
ibv_wc_status local_send_status(const Device &device, ibv_pd *pd, ibv_sge sge);
ibv_wc_status local_read_status(const Device &device, ibv_pd *pd, ibv_sge sge);

void expect_status(ibv_wc_status got, ibv_wc_status want, std::string_view what,
                   const Location &at = Location::current());

} // namespace vt
