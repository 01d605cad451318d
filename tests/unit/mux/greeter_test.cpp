// SPDX-License-Identifier: Apache-2.0
#include "mux/greeter.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fakes/fake_loop.h"
#include "fakes/fake_transport.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/limits.h"

namespace sandbar::mux {
namespace {

using std::chrono::seconds;
using wire::FrameType;

base::Bytes hello_message(const std::string& session) {
  wire::Hello hello;
  hello.session = session;
  hello.fence = 3;
  hello.limits = {wire::kMaxBody, wire::kMaxRequests, wire::kRequestWindow, wire::kMaxChannels, wire::kChannelWindow};
  return wire::encode_frame({FrameType::hello, 0, 0, 0, 0, wire::encode_hello(hello), {}});
}

/// A greeter whose client is the test.
struct Greeting : net::Transport::Handler {
  Greeting() {
    auto [a, b] = fakes::FakeTransport::pair(loop);
    mine = std::move(a);
    mine->start(*this);
    theirs = b->end();
    greeter = std::make_unique<Greeter>(
        loop, std::move(b), seconds(10), [this](Greeter::Greeted client) { on_greeted(std::move(client)); },
        [this] { ++overs; });
  }
  void on_greeted(Greeter::Greeted client) {
    ++greetings;
    greeted = std::move(client);
    if (destroy) greeter.reset();
    if (refuse) greeter->refuse(*refuse, std::move(greeted->transport));
  }
  void on_message(base::Bytes message) override { received.push_back(std::move(message)); }
  void on_writable() override {}
  void on_closed(Error) override { gone = true; }

  void send(base::Bytes message) {
    mine->send(std::move(message));
    loop.drain();
  }
  void expect_goodbye(Errc code) {
    loop.drain();
    ASSERT_FALSE(received.empty());
    const auto frame = wire::decode_frame(received.back());
    ASSERT_TRUE(frame.ok());
    ASSERT_EQ(frame->type, FrameType::goodbye);
    EXPECT_EQ(wire::decode_goodbye(frame->head)->code, errc_name(code));
    EXPECT_TRUE(gone);
    EXPECT_EQ(overs, 1);
    EXPECT_EQ(loop.timers(), 0U);
  }

  fakes::FakeLoop loop;
  std::unique_ptr<fakes::FakeTransport> mine;
  std::shared_ptr<fakes::FakeTransport::End> theirs;
  std::optional<Greeter::Greeted> greeted;
  std::unique_ptr<Greeter> greeter;
  std::vector<base::Bytes> received;
  std::optional<Error> refuse;
  bool destroy = false;
  bool gone = false;
  int greetings = 0;
  int overs = 0;
};

TEST(Greeter, GivesTheConnectionWithItsHello) {
  Greeting g;
  const base::Bytes message = hello_message("abc");
  g.send(message);
  ASSERT_EQ(g.greetings, 1);
  EXPECT_TRUE(g.greeted->transport);
  EXPECT_EQ(g.greeted->hello.session, "abc");
  EXPECT_EQ(g.greeted->hello.fence, 3U);
  EXPECT_EQ(g.greeted->message, message);
  EXPECT_EQ(g.loop.timers(), 0U);
  g.loop.advance(seconds(60));
  EXPECT_EQ(g.overs, 0);
  EXPECT_FALSE(g.gone);
}

TEST(Greeter, MayGoInsideItsCompletion) {
  Greeting g;
  g.destroy = true;
  g.send(hello_message("abc"));
  ASSERT_TRUE(g.greeted);
  g.greeted->transport->send("still there");
  g.loop.drain();
  EXPECT_EQ(g.received, std::vector<base::Bytes>{"still there"});
  g.greeted.reset();
  g.loop.drain();
  EXPECT_TRUE(g.gone);
}

TEST(Greeter, AnswersPingsMeanwhile) {
  Greeting g;
  g.send(wire::encode_frame({FrameType::ping, 0, 0, 77, 0, {}, {}}));
  ASSERT_EQ(g.received.size(), 1U);
  EXPECT_EQ(g.received[0], wire::encode_frame({FrameType::pong, 0, 0, 77, 0, {}, {}}));
  g.send(hello_message(""));
  EXPECT_EQ(g.greetings, 1);
}

TEST(Greeter, OneThatPingsAndDoesNotReadFillsNothing) {
  Greeting g;
  g.theirs->automatic = false;
  g.theirs->high_water = 1000;
  for (int i = 0; i < 10'000; ++i) g.send(wire::encode_frame({FrameType::ping, 0, 0, 7, 0, {}, {}}));
  EXPECT_LT(g.theirs->bytes, 1000 + wire::kFrameHeader);
}

TEST(Greeter, NothingWithinTheTimeIsATimeout) {
  Greeting g;
  g.loop.advance(seconds(9));
  g.send(wire::encode_frame({FrameType::ping, 0, 0, 7, 0, {}, {}}));
  EXPECT_FALSE(g.gone);
  g.loop.advance(seconds(2));
  g.expect_goodbye(Errc::timeout);
  EXPECT_EQ(g.greetings, 0);
}

TEST(Greeter, WhateverElseComesFirstIsThrownOut) {
  const base::Bytes bad[] = {
      "noise",
      wire::encode_frame({FrameType::request, 0, 0, 1, 1, "{}", {}}),
      wire::encode_frame({FrameType::ack, 0, 0, 1, 0, {}, {}}),
      wire::encode_frame({FrameType::pong, 0, 0, 1, 0, {}, {}}),
      wire::encode_frame({FrameType::hello, 0, 0, 0, 0, "{}", {}}),
      wire::encode_frame({FrameType::hello, 0, 1, 0, 0, wire::decode_frame(hello_message("x"))->head, {}}),
  };
  for (const base::Bytes& message : bad) {
    Greeting g;
    g.send(message);
    g.expect_goodbye(Errc::protocol);
    EXPECT_EQ(g.greetings, 0);
  }
}

TEST(Greeter, NothingIsReadBehindARefusal) {
  Greeting g;
  g.mine->send("noise");
  g.mine->send(hello_message("abc"));
  g.expect_goodbye(Errc::protocol);
  EXPECT_EQ(g.greetings, 0);
}

TEST(Greeter, AGoodbyeEndsIt) {
  Greeting g;
  g.mine->send(wire::encode_frame({FrameType::goodbye, 0, 0, 0, 0, wire::encode_goodbye({"cancelled", ""}), {}}));
  g.send(hello_message("abc"));
  EXPECT_TRUE(g.gone);
  EXPECT_EQ(g.overs, 1);
  EXPECT_EQ(g.greetings, 0) << "what comes behind a goodbye is not read";
  EXPECT_TRUE(g.received.empty());
  EXPECT_EQ(g.loop.timers(), 0U);
}

TEST(Greeter, AConnectionThatEndsIsOver) {
  Greeting g;
  g.mine.reset();
  g.loop.drain();
  EXPECT_EQ(g.overs, 1);
  EXPECT_EQ(g.loop.timers(), 0U);
}

TEST(Greeter, RefusesWhatItGaveAway) {
  Greeting g;
  g.refuse = make_error(Errc::unknown, "take a session up", "no such one");
  g.send(hello_message("abc"));
  EXPECT_EQ(g.greetings, 1);
  g.expect_goodbye(Errc::unknown);
}

TEST(Greeter, DestroyedItDropsTheConnection) {
  Greeting g;
  g.greeter.reset();
  g.loop.drain();
  EXPECT_TRUE(g.gone);
  EXPECT_EQ(g.overs, 0);
  EXPECT_EQ(g.loop.timers(), 0U);
}

}  // namespace
}  // namespace sandbar::mux
