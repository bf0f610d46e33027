// SPDX-License-Identifier: BSD-3-Clause
// RC and UC queue pairs with their completion queues, work requests, and pairs of them.
#pragma once

#include "verbs_device.hpp"

#include <optional>

namespace vt {

// What one side tells the other to connect; a POD, so that it can cross a socket.
struct Address {
    uint32_t qpn;
    uint32_t psn;
    uint16_t lid;
    ibv_gid gid;
    bool use_gid;
};

// A send-queue work request with its scatter/gather list. Built by the named functions.
class Work {
public:
    using Sges = std::vector<ibv_sge>;
    static Work send(Sges sges) { return {IBV_WR_SEND, std::move(sges)}; }
    static Work send_imm(Sges sges, uint32_t imm);
    static Work write(Sges sges, uint64_t address, uint32_t rkey);
    static Work write_imm(Sges sges, uint64_t address, uint32_t rkey, uint32_t imm);
    static Work read(Sges sges, uint64_t address, uint32_t rkey);
    static Work fetch_add(Sges sges, uint64_t address, uint32_t rkey, uint64_t add);
    static Work compare_swap(Sges sges, uint64_t address, uint32_t rkey, uint64_t compare,
                             uint64_t swap);
    static Work datagram(Sges sges, ibv_ah *ah, uint32_t qpn, uint32_t qkey);

    Work &id(uint64_t id);
    Work &add(unsigned flags); // IBV_SEND_*
    Work &unsignalled();
    ibv_send_wr &raw() { return wr_; } // sg_list is set when it is posted
    Sges &sges() { return sges_; }

private:
    Work(ibv_wr_opcode opcode, Sges sges);
    ibv_send_wr wr_{};
    Sges sges_;
};

class CompletionQueue {
public:
    CompletionQueue(const Device &device, int depth, ibv_comp_channel *channel = nullptr);
    ibv_cq *get() const { return cq_.get(); }
    std::optional<ibv_wc> poll();
    // The next completion, whatever its status; Failure after `patience`.
    ibv_wc wait(const Location &at = Location::current());
    ibv_wc wait_ok(const Location &at = Location::current());
    // The next completion, which must have this status.
    ibv_wc wait_status(ibv_wc_status status, const Location &at = Location::current());
    // No completion may be there now.
    void expect_empty(std::string_view why, const Location &at = Location::current());

private:
    CqPtr cq_;
};

struct EndpointConfig {
    uint32_t send_depth = 128;
    uint32_t recv_depth = 128;
    uint32_t max_sge = 4;
    uint32_t max_inline = 0;
    bool signal_all = false;
    uint8_t rnr_retry = 7; // 7: for ever
    uint8_t retry = 7;
    uint8_t timeout = 14; // 67 ms
    unsigned access = all_access | IBV_ACCESS_REMOTE_ATOMIC;
    int cq_depth = 512;
    ibv_comp_channel *channel = nullptr; // for both CQs
    ibv_qp_type type = IBV_QPT_RC;       // or UC
    ibv_srq *srq = nullptr;
};

// One RC or UC QP with a CQ for each queue. States as in ibv_modify_qp(3). Not thread-safe.
class Endpoint {
public:
    Endpoint(const Device &device, ibv_pd *pd, EndpointConfig config = {});

    Address address() const;
    void connect(const Address &peer); // RESET -> RTS
    // Single transitions; the result is 0 or an errno value.
    int to_init();
    int to_rtr(const Address &peer);
    int to_rts();
    int to(ibv_qp_state state); // ERR, RESET
    ibv_qp_state state() const;
    void wait_state(ibv_qp_state state, const Location &at = Location::current());

    int try_post(std::vector<Work> chain); // 0 or an errno value
    void post(std::vector<Work> chain, const Location &at = Location::current());
    void post(Work work, const Location &at = Location::current());
    int try_post_receive(Work::Sges sges, uint64_t id = 0);
    void post_receive(Work::Sges sges, uint64_t id = 0, const Location &at = Location::current());

    ibv_qp *qp() const { return qp_.get(); }
    CompletionQueue &sent() { return send_cq_; }
    CompletionQueue &received() { return recv_cq_; }
    const EndpointConfig &config() const { return config_; }
    void destroy_qp() { qp_.reset(); }

private:
    const Device *device_;
    EndpointConfig config_;
    CompletionQueue send_cq_;
    CompletionQueue recv_cq_;
    QpPtr qp_;
    uint32_t psn_;
};

// Two connected endpoints in this process.
struct Pair {
    Device device;
    Pd pd;
    Endpoint a;
    Endpoint b;

    explicit Pair(EndpointConfig config = {}) : Pair(config, config) {}
    Pair(EndpointConfig for_a, EndpointConfig for_b)
        : pd(device.pd()),
          a(device, pd.get(), for_a),
          b(device, pd.get(), for_b)
    {
        Address to_a = a.address();
        Address to_b = b.address();
        a.connect(to_b);
        b.connect(to_a);
    }
};

// Sends a few messages over a fresh pair: the device still works after what a test did to it.
void expect_device_works(const Location &at = Location::current());

} // namespace vt
