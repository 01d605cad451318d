// SPDX-License-Identifier: Apache-2.0
// A hostile peer where sessions outlive their connections.
#include <gtest/gtest.h>

#include "unit/mux/hostile.h"

namespace sandbar::mux {
namespace {

using wire::Frame;
using wire::FrameType;

/// The client comes back, saying this.
wire::Hello returning(std::uint64_t fence, std::uint64_t received) {
  wire::Hello hello = plain_hello();
  hello.session = "s";
  hello.fence = fence;
  hello.received = received;
  return hello;
}

/// The connection is lost, the session is not.
void lose(Hostile& peer) {
  peer.mine->end()->end(make_error(Errc::disconnected, "", "cut"));
  peer.mine.reset();
  peer.loop.drain();
  ASSERT_EQ(peer.handler.detaches, 1);
}

Result<void> come_back(Hostile& peer, const wire::Hello& hello) {
  auto transport = peer.connect();
  const Result<void> taken = peer.session->take_over(transport, hello);
  EXPECT_EQ(transport == nullptr, taken.ok()) << "a connection that is refused stays the caller's";
  peer.loop.drain();
  return taken;
}

/// An agent's session that has sent answers 1 to 3 and has received requests 1 to 3.
struct Known : Hostile {
  Known() : Hostile(agent("s")) {
    hello();
    for (std::uint64_t id = 1; id <= 3; ++id) {
      send(FrameType::request, id, "{}");
      handler.responders.back().reply({"answer", ""});
    }
    loop.drain();
  }
};

TEST(ResumeMisbehaviour, AnAckOfWhatWasNotSent) {
  for (const std::uint64_t number : {std::uint64_t{4}, ~std::uint64_t{0}}) {
    Known peer;
    peer.send(FrameType::ack, 3);
    ASSERT_FALSE(peer.handler.closed);
    peer.send(FrameType::ack, number);
    peer.expect_thrown_out();
  }
}

TEST(ResumeMisbehaviour, AnAckOfLessThanBefore) {
  Known peer;
  peer.send(FrameType::ack, 2);
  peer.send(FrameType::ack, 2);
  ASSERT_FALSE(peer.handler.closed) << "nothing new is no fault";
  peer.send(FrameType::ack, 1);
  peer.expect_thrown_out();
}

TEST(ResumeMisbehaviour, AnAckBeforeTheHello) {
  Hostile peer;
  peer.send(FrameType::ack, 1);
  peer.expect_thrown_out();
}

TEST(ResumeMisbehaviour, AnAckOfWhatIsNotSentAgainYet) {
  Known peer;
  lose(peer);
  auto transport = peer.connect();
  auto* end = static_cast<fakes::FakeTransport&>(*transport).end().get();
  end->high_water = 1;  // full once the hello is there
  end->automatic = false;
  ASSERT_TRUE(peer.session->take_over(transport, returning(1, 0)));
  peer.loop.drain();
  ASSERT_EQ(end->outbox.size(), 1U);
  peer.send(FrameType::ack, 1);
  ASSERT_TRUE(peer.handler.closed);
  EXPECT_EQ(peer.handler.closed->code, Errc::protocol);
}

TEST(ResumeMisbehaviour, MoreReceivedThanSentOrLessThanAcknowledged) {
  Known peer;
  peer.send(FrameType::ack, 2);
  lose(peer);
  std::uint64_t fence = 0;
  for (const std::uint64_t received : {std::uint64_t{4}, std::uint64_t{1}, std::uint64_t{0}, ~std::uint64_t{0}}) {
    const Result<void> taken = come_back(peer, returning(++fence, received));
    ASSERT_FALSE(taken.ok()) << received;
    EXPECT_EQ(taken.error().code, Errc::protocol);
    EXPECT_FALSE(peer.session->attached());
  }
  EXPECT_EQ(peer.handler.resumes, 0);
  EXPECT_FALSE(peer.handler.closed) << "whoever that was: the session waits for its client";
  EXPECT_TRUE(come_back(peer, returning(1, 2)).ok()) << "a refused hello's fence does not count";
  EXPECT_EQ(peer.last(FrameType::response).sequence, 3U);
}

TEST(ResumeMisbehaviour, AnOldFence) {
  Known peer;
  lose(peer);
  ASSERT_TRUE(come_back(peer, returning(5, 3)).ok());
  for (const std::uint64_t fence : {0U, 4U, 5U}) {
    auto keep = std::exchange(peer.mine, nullptr);
    const Result<void> taken = come_back(peer, returning(fence, 3));
    ASSERT_FALSE(taken.ok()) << fence;
    EXPECT_EQ(taken.error().code, Errc::protocol);
    peer.mine = std::move(keep);
    peer.loop.drain();
    EXPECT_TRUE(peer.session->attached());
  }
  peer.gone = false;
  peer.send(FrameType::request, 4, "{}");
  EXPECT_EQ(peer.handler.requests.size(), 4U) << "the present connection goes on";
  EXPECT_EQ(peer.handler.resumes, 1);
}

TEST(ResumeMisbehaviour, FenceZeroIsTheFirstHellos) {
  Known peer;
  lose(peer);
  EXPECT_FALSE(come_back(peer, returning(0, 3)).ok());
}

TEST(ResumeMisbehaviour, ANumberSkippedOrRepeatedAfterAResume) {
  for (const std::uint64_t next : {3U, 5U}) {
    Known peer;
    lose(peer);
    ASSERT_TRUE(come_back(peer, returning(1, 3)).ok());
    EXPECT_EQ(wire::decode_hello(peer.last(FrameType::hello).head)->received, 3U);
    peer.sequence = next - 1;
    peer.send(FrameType::request, 9, "{}");
    peer.expect_thrown_out();
    EXPECT_EQ(peer.handler.requests.size(), 3U);
  }
}

TEST(ResumeMisbehaviour, ASecondHelloAfterAResume) {
  Known peer;
  lose(peer);
  ASSERT_TRUE(come_back(peer, returning(1, 3)).ok());
  peer.hello(returning(2, 3));
  peer.expect_thrown_out();
}

TEST(ResumeMisbehaviour, NoiseOnANewConnectionEndsTheSession) {
  Known peer;
  lose(peer);
  ASSERT_TRUE(come_back(peer, returning(1, 3)).ok());
  peer.raw("noise");
  peer.expect_thrown_out();
}

TEST(ResumeMisbehaviour, ASessionThatIsOverCannotBeTakenUp) {
  Known peer;
  lose(peer);
  peer.session->close(make_error(Errc::limit, "", "enough"));
  const Result<void> taken = come_back(peer, returning(1, 3));
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Errc::unknown);
}

TEST(ResumeMisbehaviour, ASessionBeforeItsHelloCannotBeTakenUp) {
  Hostile peer(Hostile::agent("s"));
  auto keep = std::exchange(peer.mine, nullptr);
  const Result<void> taken = come_back(peer, returning(1, 0));
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Errc::unknown);
}

TEST(ResumeMisbehaviour, TheServiceMayRefuseAReturn) {
  SessionOptions options = Hostile::agent("s");
  int hellos = 0;
  options.on_hello = [&hellos](const wire::Hello&, wire::Hello&) -> Result<void> {
    if (++hellos == 2) return make_error(Errc::unauthorized, "", "another token");
    return {};
  };
  Hostile peer(std::move(options));
  peer.hello();
  lose(peer);
  EXPECT_EQ(come_back(peer, returning(1, 0)).error().code, Errc::unauthorized);
  EXPECT_EQ(peer.handler.resumes, 0);
  EXPECT_TRUE(come_back(peer, returning(1, 0)).ok());
}

/// A client that has sent requests 1 to 3, and whose agent is the test.
struct Returning : Hostile {
  Returning() : Hostile(client()) {
    wire::Hello named = plain_hello();
    named.session = "s";
    hello(named);
    for (Outcome& outcome : outcomes) session->request({"{}", ""}, {}, outcome.completion());
    loop.drain();
  }
  void come_back() {
    lose(*this);
    received.clear();
    session->resume(connect());
    loop.drain();
  }
  Outcome outcomes[3];
};

TEST(ResumeMisbehaviour, AClientSaysHelloAgainAndNothingElse) {
  Returning peer;
  peer.come_back();
  ASSERT_EQ(peer.received.size(), 1U);
  const auto hello = wire::decode_hello(peer.last(FrameType::hello).head);
  EXPECT_EQ(hello->session, "s");
  EXPECT_EQ(hello->fence, 1U);
  EXPECT_EQ(hello->received, 0U);
  peer.hello(returning(0, 1));
  ASSERT_EQ(peer.handler.resumes, 1);
  ASSERT_EQ(peer.received.size(), 3U);
  EXPECT_EQ(peer.last(FrameType::request).sequence, 3U);
}

TEST(ResumeMisbehaviour, AnAgentThatGoesOnWithAnotherSession) {
  for (const char* name : {"t", ""}) {
    Returning peer;
    peer.come_back();
    wire::Hello hello = returning(0, 3);
    hello.session = name;
    peer.hello(hello);
    peer.expect_thrown_out();
    EXPECT_EQ(peer.handler.resumes, 0);
  }
}

TEST(ResumeMisbehaviour, AnAgentThatReceivedWhatWasNotSent) {
  for (const std::uint64_t received : {std::uint64_t{4}, ~std::uint64_t{0}}) {
    Returning peer;
    peer.come_back();
    peer.hello(returning(0, received));
    peer.expect_thrown_out();
  }
}

TEST(ResumeMisbehaviour, AnAgentThatForgotWhatItAcknowledged) {
  Returning peer;
  peer.send(FrameType::ack, 2);
  peer.come_back();
  peer.hello(returning(0, 1));
  peer.expect_thrown_out();
}

TEST(ResumeMisbehaviour, NothingBeforeTheAgentsHelloOnANewConnection) {
  for (const FrameType type : {FrameType::response, FrameType::ack}) {
    Returning peer;
    peer.come_back();
    peer.send(type, 1, type == FrameType::ack ? "" : "{}");
    peer.expect_thrown_out();
    for (const Outcome& outcome : peer.outcomes) {
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->code, Errc::disconnected);
      EXPECT_EQ(outcome.runs, 1);
    }
  }
}

TEST(ResumeMisbehaviour, PingsBeforeTheAgentsHelloAreAnswered) {
  Returning peer;
  peer.come_back();
  peer.send(FrameType::ping, 99);
  EXPECT_EQ(peer.last(FrameType::pong).channel, 99U);
  EXPECT_FALSE(peer.handler.closed);
}

TEST(ResumeMisbehaviour, AHelloThatCannotBeReadOnANewConnection) {
  Returning peer;
  peer.come_back();
  peer.send(FrameType::hello, 0, "{}");
  peer.expect_thrown_out();
}

}  // namespace
}  // namespace sandbar::mux
