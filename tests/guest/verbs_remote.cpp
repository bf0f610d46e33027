// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_remote.hpp"

namespace vt {
namespace {

// Both ends of one operation on queue pairs of its own, since an error ends them.
class OneShot {
public:
    OneShot(const Device &device, ibv_pd *pd, size_t size)
        : a_(device, pd),
          b_(device, pd),
          buffer_(std::max(size, page_size)),
          region_(device.pinned(pd, buffer_.bytes()))
    {
        a_.connect(b_.address());
        b_.connect(a_.address());
    }
    ibv_wc_status run(Work work)
    {
        a_.post(std::move(work));
        return a_.sent().wait().status;
    }
    ibv_sge sge(size_t length) const { return region_.sge(buffer_.bytes(0, length)); }
    uint64_t address() const { return buffer_.address(); }
    uint32_t rkey() const { return region_.rkey(); }
    Endpoint &b() { return b_; }

private:
    Endpoint a_;
    Endpoint b_;
    Memory buffer_;
    Region region_;
};

} // namespace

ibv_wc_status remote_write_status(const Device &device, ibv_pd *pd, uint64_t address, size_t length,
                                  uint32_t rkey)
{
    OneShot shot(device, pd, length);
    return shot.run(Work::write({shot.sge(length)}, address, rkey));
}

ibv_wc_status remote_read_status(const Device &device, ibv_pd *pd, uint64_t address, size_t length,
                                 uint32_t rkey)
{
    OneShot shot(device, pd, length);
    return shot.run(Work::read({shot.sge(length)}, address, rkey));
}

ibv_wc_status local_send_status(const Device &device, ibv_pd *pd, ibv_sge sge)
{
    OneShot shot(device, pd, sge.length);
    shot.b().post_receive({shot.sge(sge.length)});
    return shot.run(Work::send({sge}));
}

ibv_wc_status local_read_status(const Device &device, ibv_pd *pd, ibv_sge sge)
{
    OneShot shot(device, pd, sge.length);
    return shot.run(Work::read({sge}, shot.address(), shot.rkey()));
}

void expect_status(ibv_wc_status got, ibv_wc_status want, std::string_view what, const Location &at)
{
    expect_eq(std::string(ibv_wc_status_str(got)), std::string(ibv_wc_status_str(want)), what, at);
}

} // namespace vt
