// SPDX-License-Identifier: Apache-2.0
// A hostile peer: whatever breaks the rules ends the session with Errc::protocol, and nothing else happens.
#include <gtest/gtest.h>

#include "unit/mux/hostile.h"

namespace sandbar::mux {
namespace {

using wire::Frame;
using wire::FrameType;

TEST(Misbehaviour, NothingBeforeTheHello) {
  Hostile peer;
  peer.send(FrameType::request, 1, "{}");
  peer.expect_thrown_out();
  EXPECT_TRUE(peer.handler.requests.empty());
}

TEST(Misbehaviour, NoiseInPlaceOfAFrame) {
  Hostile peer;
  peer.hello();
  peer.raw("noise");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, ASecondHello) {
  Hostile peer;
  peer.hello();
  ASSERT_TRUE(peer.handler.ready);
  peer.hello();
  peer.expect_thrown_out();
}

TEST(Misbehaviour, AHelloWithImpossibleLimits) {
  Hostile peer;
  wire::Hello hello;
  hello.limits = {1, 1, 1, 1, 1};
  peer.send(FrameType::hello, 0, wire::encode_hello(hello));
  peer.expect_thrown_out();
}

TEST(Misbehaviour, ASequenceNumberSkippedOrRepeated) {
  for (const std::uint64_t next : {1U, 3U, 100U}) {
    Hostile peer;
    peer.hello();
    peer.send(FrameType::request, 1, "{}");
    ASSERT_FALSE(peer.handler.closed);
    peer.sequence = next - 1;
    peer.send(FrameType::request, 2, "{}");
    peer.expect_thrown_out();
    EXPECT_EQ(peer.handler.requests.size(), 1U);
  }
  Hostile peer;
  peer.hello();
  peer.sequence = 1;
  peer.send(FrameType::request, 1, "{}");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, ALaneThatWasNotAgreedOn) {
  Hostile peer;
  peer.hello();
  peer.raw(encode_anything(Frame{FrameType::request, 0, 1, 1, ++peer.sequence, "{}", ""}));
  peer.expect_thrown_out();
  Hostile other;
  other.raw(encode_anything(Frame{FrameType::hello, 0, 1, 0, 0, wire::encode_hello(plain_hello()), ""}));
  other.expect_thrown_out();
}

TEST(Misbehaviour, ARequestNumberInUse) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::request, 1, "{}");
  EXPECT_EQ(peer.handler.requests.size(), 1U);
  peer.send(FrameType::request, 1, "{}");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, RequestNumberZero) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::request, 0, "{}");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, MoreRequestsThanTheLimit) {
  Hostile peer;
  peer.hello();
  for (std::uint64_t i = 1; i <= wire::kMaxRequests; ++i) peer.send(FrameType::request, i, "{}");
  EXPECT_FALSE(peer.handler.closed);
  peer.send(FrameType::request, wire::kMaxRequests + 1, "{}");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, ABodyBeyondTheLimit) {
  Hostile peer;
  peer.hello();
  const std::string fragment(wire::kMaxFragment, 'x');
  for (std::size_t sent = 0; sent < wire::kMaxBody; sent += fragment.size())
    peer.send(FrameType::request, 1, sent == 0 ? "{}" : "", fragment, wire::kMore);
  EXPECT_FALSE(peer.handler.closed);
  peer.send(FrameType::request, 1, "", "x");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, MoreRequestBytesThanTheWindow) {
  Hostile peer;
  peer.hello();
  const std::string fragment(wire::kMaxFragment, 'x');
  std::uint64_t id = 0;
  for (std::size_t sent = 0; sent < wire::kRequestWindow; sent += fragment.size())
    peer.send(FrameType::request, ++id, "{}", fragment);
  EXPECT_FALSE(peer.handler.closed);
  peer.send(FrameType::request, ++id, "{}", "x");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, TwoHeadsForOneRequest) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::request, 1, "{}", "a", wire::kMore);
  peer.send(FrameType::request, 1, "{}", "b");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, ACancelInsideARequest) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::request, 1, "{}", "a", wire::kMore);
  peer.send(FrameType::cancel, 1);
  peer.expect_thrown_out();
}

TEST(Misbehaviour, ACancelOfAnAnsweredRequestIsNoFault) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::request, 1, "{}");
  peer.handler.responders[0].reply({"{}", ""});
  peer.send(FrameType::cancel, 1);
  EXPECT_FALSE(peer.handler.closed);
}

TEST(Misbehaviour, AnAnswerToNothing) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::response, 5, "{}");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, ChannelsOutOfTurn) {
  for (const std::uint64_t id : {0U, 2U}) {
    Hostile peer;
    peer.hello();
    peer.send(FrameType::open, id);
    peer.expect_thrown_out();
  }
  Hostile peer;
  peer.hello();
  peer.send(FrameType::open, 5);
  peer.send(FrameType::open, 3);
  peer.expect_thrown_out();
}

TEST(Misbehaviour, MoreChannelsThanTheLimit) {
  Hostile peer;
  peer.hello();
  for (std::uint64_t i = 0; i < wire::kMaxChannels; ++i) peer.send(FrameType::open, 2 * i + 1);
  EXPECT_FALSE(peer.handler.closed);
  peer.send(FrameType::open, 2 * wire::kMaxChannels + 1);
  peer.expect_thrown_out();
}

TEST(Misbehaviour, DataOnAChannelThatWasNeverOpened) {
  for (const FrameType type : {FrameType::data, FrameType::credit, FrameType::end, FrameType::reset}) {
    for (const std::uint64_t id : {1U, 2U}) {
      Hostile peer;
      peer.hello();
      const bool headed = type == FrameType::credit || type == FrameType::reset;
      const std::string head = headed ? wire::encode_credit(1) : "";
      peer.send(type, id, head, type == FrameType::data ? "x" : "");
      peer.expect_thrown_out();
    }
  }
}

TEST(Misbehaviour, DataBeyondTheCredit) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::open, 1);
  const std::string fragment(wire::kMaxFragment, 'x');
  for (std::size_t sent = 0; sent < wire::kChannelWindow; sent += fragment.size())
    peer.send(FrameType::data, 1, "", fragment);
  EXPECT_FALSE(peer.handler.closed);
  peer.send(FrameType::data, 1, "", "x");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, DataBehindTheEnd) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::open, 1);
  peer.send(FrameType::end, 1);
  peer.send(FrameType::data, 1, "", "x");
  peer.expect_thrown_out();
}

TEST(Misbehaviour, CreditOverrun) {
  for (const std::uint64_t credit : {std::uint64_t{0}, std::uint64_t{wire::kChannelWindow + 1}, ~std::uint64_t{0}}) {
    Hostile peer;
    peer.hello();
    peer.send(FrameType::open, 1);
    peer.send(FrameType::credit, 1, "{\"bytes\":" + std::to_string(credit) + "}");
    peer.expect_thrown_out();
  }
}

TEST(Misbehaviour, FramesForAChannelThatWeResetAreNoFault) {
  Hostile peer;
  peer.hello();
  peer.send(FrameType::open, 1);
  peer.session->take_channel(wire::ChannelId(1))->reset(make_error(Errc::cancelled, "", ""));
  peer.send(FrameType::data, 1, "", "on its way");
  peer.send(FrameType::end, 1);
  EXPECT_FALSE(peer.handler.closed);
}

TEST(Misbehaviour, APeerThatPingsAndDoesNotReadFillsNothing) {
  Hostile peer;
  peer.hello();
  for (int i = 0; i < 1000; ++i) peer.send(FrameType::ping, 7);
  EXPECT_FALSE(peer.handler.closed);
  const std::size_t answered = peer.received.size();
  EXPECT_GE(answered, 1000U);
}

}  // namespace
}  // namespace sandbar::mux
