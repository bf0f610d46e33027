// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel module's decoding of work queue entries, compiled for user space.
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "wqe.h"
}

namespace {

constexpr odp_wqe_limits rc_limits{.max_sge = 4, .max_inline = 128, .transport = ODP_RC};
constexpr odp_wqe_limits uc_limits{.max_sge = 4, .max_inline = 128, .transport = ODP_UC};
constexpr odp_wqe_limits ud_limits{.max_sge = 4, .max_inline = 128, .transport = ODP_UD};
constexpr std::uint32_t inline_flag = 1U << 3; // IBV_SEND_INLINE

// A slot exactly as large as the ring's, so that a read beyond it is seen by the sanitizer.
class Slot {
public:
    explicit Slot(std::uint32_t bytes) : bytes_(bytes) {}
    void *data() { return bytes_.data(); }
    rxe_send_wqe &send() { return *reinterpret_cast<rxe_send_wqe *>(bytes_.data()); }
    rxe_recv_wqe &recv() { return *reinterpret_cast<rxe_recv_wqe *>(bytes_.data()); }
    void set_sge(std::size_t header, unsigned i, rxe_sge sge)
    {
        std::memcpy(bytes_.data() + header + i * sizeof(sge), &sge, sizeof(sge));
    }
    void randomize(std::mt19937_64 &random)
    {
        for (unsigned char &byte : bytes_) {
            byte = static_cast<unsigned char>(random());
        }
    }

private:
    std::vector<unsigned char> bytes_;
};

Slot send_slot(const odp_wqe_limits &limits)
{
    return Slot(odp_wqe_send_slot(limits.max_sge, limits.max_inline));
}

TEST(WqeSlot, IsAPowerOfTwoThatHoldsWhatTheQpAllows)
{
    for (std::uint32_t sge = 0; sge <= ODP_MAX_SGE; ++sge) {
        for (std::uint32_t bytes : {0U, 1U, 64U, 305U, 512U, 1024U}) {
            const std::uint32_t slot = odp_wqe_send_slot(sge, bytes);
            EXPECT_EQ(slot & (slot - 1), 0U);
            EXPECT_GE(slot, sizeof(rxe_send_wqe) + sge * sizeof(rxe_sge));
            EXPECT_GE(slot, sizeof(rxe_send_wqe) + bytes);
        }
        const std::uint32_t slot = odp_wqe_recv_slot(sge);
        EXPECT_EQ(slot & (slot - 1), 0U);
        EXPECT_GE(slot, sizeof(rxe_recv_wqe) + sge * sizeof(rxe_sge));
    }
}

TEST(WqeSend, TakesTheLengthFromTheListAndNotFromTheRing)
{
    Slot slot = send_slot(rc_limits);
    slot.send().wr.wr_id = 7;
    slot.send().wr.opcode = IB_UVERBS_WR_RDMA_WRITE;
    slot.send().wr.wr.rdma.remote_addr = 0x1000;
    slot.send().wr.wr.rdma.rkey = 0xabcd;
    slot.send().dma.length = 99999;
    slot.send().dma.num_sge = 2;
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0x10, .length = 5, .lkey = 1});
    slot.set_sge(sizeof(rxe_send_wqe), 1, {.addr = 0x20, .length = 6, .lkey = 2});

    odp_send_wqe wqe{};
    ASSERT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.wr_id, 7U);
    EXPECT_EQ(wqe.remote_addr, 0x1000U);
    EXPECT_EQ(wqe.rkey, 0xabcdU);
    EXPECT_EQ(wqe.sgl.length, 11U);
    EXPECT_EQ(wqe.sgl.num_sge, 2U);
    EXPECT_EQ(wqe.sgl.sge[1].addr, 0x20U);
    EXPECT_EQ(wqe.sgl.sge[1].lkey, 2U);
}

TEST(WqeSend, RefusesMoreSgesThanTheQpHas)
{
    odp_send_wqe wqe{};
    for (std::uint32_t sges : {5U, 33U, 0x7fffffffU, 0xffffffffU}) {
        Slot slot = send_slot(rc_limits);
        slot.send().wr.opcode = IB_UVERBS_WR_SEND;
        slot.send().dma.num_sge = sges;
        EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_BAD_SGE) << sges;
    }
}

TEST(WqeSend, LengthsThatWouldWrapAreTooLong)
{
    Slot slot = send_slot(rc_limits);
    slot.send().wr.opcode = IB_UVERBS_WR_SEND;
    slot.send().dma.num_sge = 2;
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = 0xffffffff, .lkey = 1});
    slot.set_sge(sizeof(rxe_send_wqe), 1, {.addr = 0, .length = 2, .lkey = 1});
    odp_send_wqe wqe{};
    EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_BAD_LENGTH);

    slot.send().dma.num_sge = 1;
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = 1U << 31, .lkey = 1});
    EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = (1U << 31) + 1, .lkey = 1});
    EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_BAD_LENGTH);
}

TEST(WqeSend, InlineDataIsCopiedUpToTheLimit)
{
    Slot slot = send_slot(rc_limits);
    slot.send().wr.opcode = IB_UVERBS_WR_SEND;
    slot.send().wr.send_flags = inline_flag;
    slot.send().dma.length = 128;
    std::memset(static_cast<char *>(slot.data()) + sizeof(rxe_send_wqe), 'x', 128);
    odp_send_wqe wqe{};
    ASSERT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    EXPECT_TRUE(wqe.sgl.is_inline);
    EXPECT_EQ(wqe.sgl.length, 128U);
    EXPECT_EQ(wqe.sgl.data[127], 'x');

    for (std::uint32_t length : {129U, 1025U, 0xffffffffU}) {
        slot.send().dma.length = length;
        EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_BAD_SGE) << length;
    }
}

TEST(WqeSend, OpcodesAreThoseOfTheQpType)
{
    odp_send_wqe wqe{};
    for (std::uint32_t opcode = 0; opcode < 64; ++opcode) {
        const bool is_send = opcode == IB_UVERBS_WR_SEND || opcode == IB_UVERBS_WR_SEND_WITH_IMM;
        const bool one_way = is_send || opcode == IB_UVERBS_WR_RDMA_WRITE ||
                             opcode == IB_UVERBS_WR_RDMA_WRITE_WITH_IMM ||
                             opcode == IB_UVERBS_WR_SEND_WITH_INV ||
                             opcode == IB_UVERBS_WR_BIND_MW || opcode == IB_UVERBS_WR_LOCAL_INV;
        const bool is_known = one_way || opcode == IB_UVERBS_WR_RDMA_READ ||
                              opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ||
                              opcode == IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD ||
                              opcode == IB_UVERBS_WR_FLUSH || opcode == IB_UVERBS_WR_ATOMIC_WRITE;
        Slot slot = send_slot(rc_limits);
        slot.send().wr.opcode = opcode;
        slot.send().dma.num_sge = 1;
        slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = 8, .lkey = 1});
        EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe),
                  is_known ? ODP_WQE_OK : ODP_WQE_BAD_OPCODE) << opcode;
        EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &uc_limits, &wqe),
                  one_way ? ODP_WQE_OK : ODP_WQE_BAD_OPCODE) << opcode;
        EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &ud_limits, &wqe),
                  is_send ? ODP_WQE_OK : ODP_WQE_BAD_OPCODE) << opcode;
    }
}

TEST(WqeSend, WhatComesBackIsNeverInline)
{
    odp_send_wqe wqe{};
    for (std::uint32_t opcode : {IB_UVERBS_WR_RDMA_READ, IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
                                 IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD}) {
        Slot slot = send_slot(rc_limits);
        slot.send().wr.opcode = opcode;
        slot.send().wr.send_flags = inline_flag;
        slot.send().dma.length = 8;
        EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_BAD_OPCODE);
    }
}

TEST(WqeSend, AnAtomicWriteIsEightBytesWhateverTheRingSays)
{
    Slot slot = send_slot(rc_limits);
    slot.send().wr.opcode = IB_UVERBS_WR_ATOMIC_WRITE;
    slot.send().wr.wr.rdma.remote_addr = 0x1008;
    slot.send().dma.length = 0xffffffff;
    std::memset(static_cast<char *>(slot.data()) + sizeof(rxe_send_wqe), 'x', 8);
    odp_send_wqe wqe{};
    ASSERT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.remote_addr, 0x1008U);
    EXPECT_TRUE(wqe.sgl.is_inline);
    EXPECT_EQ(wqe.sgl.length, 8U);
    EXPECT_EQ(wqe.sgl.data[7], 'x');
}

TEST(WqeSend, AFlushHasARangeAndNoData)
{
    Slot slot = send_slot(rc_limits);
    slot.send().wr.opcode = IB_UVERBS_WR_FLUSH;
    slot.send().wr.wr.flush.remote_addr = 0x1000;
    slot.send().wr.wr.flush.rkey = 5;
    slot.send().wr.wr.flush.type = 1;
    slot.send().wr.wr.flush.level = 2;
    slot.send().dma.length = 0xffffffff;
    slot.send().dma.num_sge = 0xffffffff;
    odp_send_wqe wqe{};
    ASSERT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.remote_addr, 0x1000U);
    EXPECT_EQ(wqe.rkey, 5U);
    EXPECT_EQ(wqe.flush_len, 0xffffffffU);
    EXPECT_EQ(wqe.flush_type, 1U);
    EXPECT_EQ(wqe.flush_level, 2U);
    EXPECT_EQ(wqe.sgl.length, 0U);
    EXPECT_EQ(wqe.sgl.num_sge, 0U);
}

TEST(WqeSend, WindowsAreBoundAndKeysInvalidatedWithoutData)
{
    Slot slot = send_slot(rc_limits);
    slot.send().wr.opcode = IB_UVERBS_WR_BIND_MW;
    slot.send().wr.wr.mw.addr = 0x1000;
    slot.send().wr.wr.mw.length = 1ULL << 40;
    slot.send().wr.wr.mw.mr_lkey = 1;
    slot.send().wr.wr.mw.mw_rkey = 2;
    slot.send().wr.wr.mw.rkey = 3;
    slot.send().wr.wr.mw.access = 4;
    slot.send().dma.num_sge = 0xffffffff;
    odp_send_wqe wqe{};
    ASSERT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.mw_addr, 0x1000U);
    EXPECT_EQ(wqe.mw_len, 1ULL << 40);
    EXPECT_EQ(wqe.mw_lkey, 1U);
    EXPECT_EQ(wqe.mw_rkey, 2U);
    EXPECT_EQ(wqe.rkey, 3U);
    EXPECT_EQ(wqe.mw_access, 4U);
    EXPECT_EQ(wqe.sgl.length, 0U);

    slot.send().wr.opcode = IB_UVERBS_WR_LOCAL_INV;
    slot.send().wr.ex.invalidate_rkey = 0xabcd;
    ASSERT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.inv_rkey, 0xabcdU);
    EXPECT_EQ(wqe.sgl.length, 0U);
}

TEST(WqeSend, AnAtomicNeedsEightBytes)
{
    Slot slot = send_slot(rc_limits);
    slot.send().wr.opcode = IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
    slot.send().wr.wr.atomic.compare_add = 3;
    slot.send().dma.num_sge = 1;
    odp_send_wqe wqe{};
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = 7, .lkey = 1});
    EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_BAD_LENGTH);
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = 8, .lkey = 1});
    EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &rc_limits, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.compare_add, 3U);
}

TEST(WqeSend, ADatagramFitsTheMtu)
{
    Slot slot = send_slot(ud_limits);
    slot.send().wr.opcode = IB_UVERBS_WR_SEND;
    slot.send().wr.wr.ud.remote_qpn = 0x12;
    slot.send().dma.num_sge = 1;
    odp_send_wqe wqe{};
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = ODP_UD_MTU, .lkey = 1});
    EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &ud_limits, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.remote_qpn, 0x12U);
    slot.set_sge(sizeof(rxe_send_wqe), 0, {.addr = 0, .length = ODP_UD_MTU + 1, .lkey = 1});
    EXPECT_EQ(odp_wqe_fetch_send(slot.data(), &ud_limits, &wqe), ODP_WQE_BAD_LENGTH);
}

TEST(WqeRecv, ChecksTheListLikeASend)
{
    Slot slot(odp_wqe_recv_slot(2));
    odp_recv_wqe wqe{};
    slot.recv().wr_id = 9;
    slot.recv().dma.num_sge = 2;
    slot.set_sge(sizeof(rxe_recv_wqe), 0, {.addr = 0, .length = 100, .lkey = 1});
    slot.set_sge(sizeof(rxe_recv_wqe), 1, {.addr = 0, .length = 28, .lkey = 1});
    ASSERT_EQ(odp_wqe_fetch_recv(slot.data(), 2, &wqe), ODP_WQE_OK);
    EXPECT_EQ(wqe.wr_id, 9U);
    EXPECT_EQ(wqe.sgl.length, 128U);
    slot.recv().dma.num_sge = 3;
    EXPECT_EQ(odp_wqe_fetch_recv(slot.data(), 2, &wqe), ODP_WQE_BAD_SGE);
}

TEST(Wqe, GarbageIsRefusedOrWithinTheLimits)
{
    std::mt19937_64 random(1);
    for (int i = 0; i < 20000; ++i) {
        const odp_wqe_limits &limits = i % 3 == 0 ? uc_limits : i % 3 == 1 ? ud_limits : rc_limits;
        Slot slot = send_slot(limits);
        slot.randomize(random);
        if ((random() & 1) != 0) {
            slot.send().wr.opcode = static_cast<std::uint32_t>(random() % 17);
            slot.send().dma.num_sge = static_cast<std::uint32_t>(random() % 6);
        }
        odp_send_wqe wqe{};
        if (odp_wqe_fetch_send(slot.data(), &limits, &wqe) == ODP_WQE_OK) {
            EXPECT_LE(wqe.sgl.length, ODP_MAX_MSG);
            EXPECT_LE(wqe.sgl.num_sge, limits.max_sge);
            EXPECT_TRUE(!wqe.sgl.is_inline || wqe.sgl.length <= limits.max_inline);
            EXPECT_TRUE(!wqe.sgl.is_inline || wqe.sgl.num_sge == 0);
        }
        odp_recv_wqe recv{};
        Slot recv_slot(odp_wqe_recv_slot(2));
        recv_slot.randomize(random);
        if (odp_wqe_fetch_recv(recv_slot.data(), 2, &recv) == ODP_WQE_OK) {
            EXPECT_LE(recv.sgl.num_sge, 2U);
        }
    }
}

} // namespace
