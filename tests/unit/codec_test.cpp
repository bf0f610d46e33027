// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses, handshakes, message headers and request ids: back and forth, and what isn't one.
#include "odp/address.hpp"

#include "handshake.hpp"
#include "message.hpp"
#include "work_id.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace odp::test {
namespace {

Address sample()
{
    Address address;
    address.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x26, 0x20, 0xd9, 0xee, 0x73, 0xb9, 0x1d, 0x5f};
    address.session = 0x0123456789abcdefU;
    address.qpn = 0xabcdef;
    address.qkey = 0x7fffffff;
    address.lid = 0xbeef;
    address.sl = 15;
    return address;
}

TEST(Address, PacksTheSameEverywhere)
{
    const auto bytes = sample().pack();
    static_assert(Address::packed_size <= 63);
    const unsigned char head[] = {1,    0,    0xef, 0xbe, 0xef, 0xcd, 0xab, 0,    0xff, 0xff,
                                  0xff, 0x7f, 15,   0,    0,    0,    0xef, 0xcd, 0xab, 0x89};
    for (std::size_t i = 0; i < sizeof(head); ++i) {
        EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), head[i]) << i;
    }
    auto back = Address::unpack(bytes);
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_EQ(*back, sample());
}

TEST(Address, Text)
{
    Address address = sample();
    EXPECT_EQ(address.str(), "lid 48879 qpn 0xabcdef session 0123456789abcdef");
    address.grh = true;
    EXPECT_EQ(address.str(),
              "gid fe80:0:0:0:2620:d9ee:73b9:1d5f qpn 0xabcdef session 0123456789abcdef");
}

TEST(Address, RefusesWhatIsNotOne)
{
    const auto good = sample().pack();
    EXPECT_FALSE(Address::unpack({}).ok());
    EXPECT_FALSE(Address::unpack(std::span(good).first(39)).ok());
    const auto with = [&](std::size_t at, unsigned char value) {
        auto bytes = good;
        bytes[at] = static_cast<std::byte>(value);
        return Address::unpack(bytes).ok();
    };
    EXPECT_TRUE(with(2, 1));
    EXPECT_FALSE(with(0, 2)) << "version";
    EXPECT_FALSE(with(1, 2)) << "unknown flag";
    EXPECT_FALSE(with(7, 1)) << "QP number of 25 bits";
    EXPECT_FALSE(with(12, 16)) << "service level of 5 bits";
    EXPECT_FALSE(with(13, 1)) << "reserved";
    Address nowhere = sample();
    nowhere.lid = 0;
    EXPECT_FALSE(Address::unpack(nowhere.pack()).ok()) << "neither LID nor GID";
    nowhere.grh = true;
    EXPECT_TRUE(Address::unpack(nowhere.pack()).ok());
    Address nobody = sample();
    nobody.session = 0;
    EXPECT_FALSE(Address::unpack(nobody.pack()).ok());
}

Handshake hello()
{
    Handshake message;
    message.to_session = 11;
    message.from = sample();
    message.nonce = 22;
    message.accepted = 33;
    message.wants_reply = true;
    message.params = {.qpn = 0xffffff,
                      .psn = 0xfffffe,
                      .rkey = 0xffffffff,
                      .payload_room = 8192,
                      .recv_depth = 64,
                      .mtu = 5,
                      .rd_atomic = 16};
    return message;
}

Result<Handshake> decode(std::span<const std::byte> bytes)
{
    Handshake::Refusal refusal;
    return Handshake::decode(bytes, refusal);
}

TEST(Handshake, HelloBackAndForth)
{
    Handshake::Bytes bytes{};
    const std::size_t used = hello().encode(bytes);
    auto back = decode(std::span(bytes).first(used));
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_EQ(back->type, Handshake::Type::hello);
    EXPECT_EQ(back->to_session, 11U);
    EXPECT_EQ(back->from, sample());
    EXPECT_EQ(back->nonce, 22U);
    EXPECT_EQ(back->accepted, 33U);
    EXPECT_TRUE(back->wants_reply);
    EXPECT_EQ(back->params, hello().params);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_EQ(decode(std::span(bytes).first(length)).ok(), length == used) << length;
    }
}

TEST(Handshake, RejectIsCutAndPrintable)
{
    Handshake message = hello();
    message.type = Handshake::Type::reject;
    message.reason = "why\n\x1b[31m" + std::string(500, 'x');
    Handshake::Bytes bytes{};
    const std::size_t used = message.encode(bytes);
    auto back = decode(std::span(bytes).first(used));
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_EQ(back->reason.size(), Handshake::max_reason);
    EXPECT_EQ(back->reason.substr(0, 9), "why??[31m");
}

TEST(Handshake, ImpossibleFieldsAreRefused)
{
    const auto refused = [](auto change) {
        Handshake message = hello();
        change(message);
        Handshake::Bytes bytes{};
        const std::size_t used = message.encode(bytes);
        return !decode(std::span(bytes).first(used)).ok();
    };
    EXPECT_FALSE(refused([](Handshake &) {}));
    EXPECT_TRUE(refused([](Handshake &m) { m.nonce = 0; }));
    EXPECT_TRUE(refused([](Handshake &m) { m.params.qpn = 1U << 24U; }));
    EXPECT_TRUE(refused([](Handshake &m) { m.params.psn = 1U << 24U; }));
    EXPECT_TRUE(refused([](Handshake &m) { m.params.mtu = 0; }));
    EXPECT_TRUE(refused([](Handshake &m) { m.params.mtu = 6; }));
    EXPECT_TRUE(refused([](Handshake &m) { m.params.recv_depth = 4; }));
    EXPECT_TRUE(refused([](Handshake &m) { m.params.rd_atomic = 0; }));
    EXPECT_TRUE(refused([](Handshake &m) { m.from.session = 0; }));
}

// Any bytes: no access outside of them (under the sanitizers), and what is taken is plausible.
TEST(Handshake, AnyBytes)
{
    std::mt19937_64 random(5);
    Handshake::Bytes original{};
    const std::size_t used = hello().encode(original);
    unsigned taken = 0;
    for (int i = 0; i < 300000; ++i) {
        const std::size_t length = random() % 3 == 0 ? random() % 300 : used;
        std::vector<std::byte> bytes(length);
        for (std::size_t at = 0; at < length; ++at) {
            bytes[at] = i % 2 == 0 && at < original.size() ? original[at]
                                                           : static_cast<std::byte>(random());
        }
        for (unsigned flips = random() % 4; flips > 0 && length > 0; --flips) {
            bytes[random() % length] = static_cast<std::byte>(random());
        }
        Handshake::Refusal refusal;
        auto message = Handshake::decode(bytes, refusal);
        if (message && message->type == Handshake::Type::hello) {
            ++taken;
            EXPECT_LT(message->params.qpn, 1U << 24U);
            EXPECT_GE(message->params.recv_depth, 4);
            EXPECT_NE(message->from.session, 0U);
        }
    }
    EXPECT_GT(taken, 1000U);
}

TEST(MessageHeader, BackAndForthAndRefusals)
{
    std::vector<std::byte> bytes(MessageHeader::size + 100);
    MessageHeader header;
    header.am_id = 255;
    header.credits = 65535;
    header.length = 100;
    header.encode(std::span<std::byte, MessageHeader::size>(bytes.data(), MessageHeader::size));
    MessageHeader back;
    ASSERT_TRUE(MessageHeader::decode(bytes, back));
    EXPECT_EQ(back.kind, MessageHeader::Kind::active);
    EXPECT_EQ(back.am_id, 255);
    EXPECT_EQ(back.credits, 65535);
    EXPECT_EQ(back.length, 100U);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_FALSE(MessageHeader::decode(std::span(bytes).first(length), back)) << length;
    }
    bytes[0] = std::byte{0xa3};
    EXPECT_FALSE(MessageHeader::decode(bytes, back)) << "unknown kind";
    bytes[0] = std::byte{0xa2};
    EXPECT_FALSE(MessageHeader::decode(bytes, back)) << "a return of credits with a payload";
}

TEST(WorkId, BackAndForth)
{
    for (const auto kind : {WorkId::Kind::rc_recv, WorkId::Kind::rc_send, WorkId::Kind::ud_recv,
                            WorkId::Kind::ud_send}) {
        for (const std::uint32_t index : {0U, 1U, WorkId::max_index}) {
            for (const std::uint16_t generation : {0, 1, 65535}) {
                for (const std::uint32_t item : {0U, 1U, WorkId::max_item}) {
                    const WorkId id{kind, index, generation, item};
                    EXPECT_EQ(WorkId::unpack(id.pack()), id);
                }
            }
        }
    }
}

} // namespace
} // namespace odp::test
