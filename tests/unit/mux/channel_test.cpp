// SPDX-License-Identifier: Apache-2.0
#include "mux/channel.h"

#include <gtest/gtest.h>

#include "unit/mux/session_pair.h"
#include "wire/limits.h"

namespace sandbar::mux {
namespace {

/// Reads a stream; takes bytes out of the way at once unless told to wait.
class Reader : public Channel::Handler {
 public:
  explicit Reader(std::shared_ptr<Channel> channel, bool eager = true) : channel(std::move(channel)), eager(eager) {
    this->channel->set_handler(this);
  }
  void on_data(base::Bytes data) override {
    EXPECT_FALSE(ended);
    bytes += data;
    if (eager) channel->consumed(data.size());
  }
  void on_end() override { ended = true; }
  void on_reset(const Error& why) override { reset = why; }
  void on_writable() override {
    ++writable;
    if (on_room) on_room();
  }

  std::shared_ptr<Channel> channel;
  bool eager;
  std::string bytes;
  bool ended = false;
  std::optional<Error> reset;
  int writable = 0;
  std::function<void()> on_room;
};

struct Streams : SessionPair {
  Streams() {
    settle();
    ours = client->open_channel();
    settle();
    theirs = agent->take_channel(ours->id());
  }
  std::shared_ptr<Channel> ours;
  std::shared_ptr<Channel> theirs;
};

TEST(Channel, CarriesBytesBothWaysAndEnds) {
  Streams s;
  ASSERT_TRUE(s.theirs);
  Reader near(s.ours);
  Reader far(s.theirs);
  s.settle();
  s.ours->write("hello ");
  s.ours->write("there");
  s.ours->end();
  s.theirs->write("hi");
  s.settle();
  EXPECT_EQ(far.bytes, "hello there");
  EXPECT_TRUE(far.ended);
  EXPECT_EQ(near.bytes, "hi");
  EXPECT_FALSE(near.ended) << "half-close: the other direction stays open";
  s.theirs->write("!");
  s.theirs->end();
  s.settle();
  EXPECT_EQ(near.bytes, "hi!");
  EXPECT_TRUE(near.ended);
}

TEST(Channel, IsTakenOnceAndOnlyWhenKnown) {
  Streams s;
  EXPECT_FALSE(s.agent->take_channel(s.ours->id()));
  EXPECT_FALSE(s.agent->take_channel(wire::ChannelId(99)));
  EXPECT_FALSE(s.client->take_channel(s.ours->id())) << "our own is not the peer's";
}

TEST(Channel, WhatComesBeforeTheHandlerIsKept) {
  Streams s;
  s.ours->write("early");
  s.ours->end();
  s.settle();
  Reader far(s.theirs);
  EXPECT_EQ(far.bytes, "") << "never inside the call";
  s.settle();
  EXPECT_EQ(far.bytes, "early");
  EXPECT_TRUE(far.ended);
}

TEST(Channel, ASlowReaderStopsItsWriterAndNothingElse) {
  Streams s;
  Reader far(s.theirs, false);
  std::size_t sent = 0;
  Reader near(s.ours);
  const auto fill = [&] {
    while (s.ours->budget() > 0) {
      const std::size_t count = std::min<std::size_t>(s.ours->budget(), 64 * 1024);
      s.ours->write(std::string(count, 'x'));
      sent += count;
    }
  };
  near.on_room = fill;
  fill();
  s.settle();
  EXPECT_EQ(sent, wire::kChannelWindow);
  EXPECT_EQ(far.bytes.size(), wire::kChannelWindow);
  EXPECT_EQ(s.ours->budget(), 0U);

  Outcome other;
  s.client->request({"h", ""}, {}, other.completion());
  s.settle();
  EXPECT_EQ(s.agent_handler.requests.size(), 1U);

  s.theirs->consumed(far.bytes.size() / 2);
  s.settle();
  EXPECT_EQ(sent, wire::kChannelWindow * 3 / 2);
  EXPECT_FALSE(s.agent_handler.closed);
}

TEST(Channel, ALongStreamArrivesWhole) {
  Streams s;
  Reader far(s.theirs);
  Reader near(s.ours);
  const std::size_t total = 20 * wire::kChannelWindow + 12345;
  std::size_t sent = 0;
  const auto fill = [&] {
    while (s.ours->budget() > 0 && sent < total) {
      const std::size_t count = std::min({s.ours->budget(), total - sent, std::size_t{50'000}});
      std::string piece(count, '\0');
      for (std::size_t i = 0; i < count; ++i) piece[i] = static_cast<char>((sent + i) % 251);
      s.ours->write(std::move(piece));
      sent += count;
    }
    if (sent == total) s.ours->end();
  };
  near.on_room = fill;
  fill();
  s.settle();
  ASSERT_EQ(far.bytes.size(), total);
  EXPECT_TRUE(far.ended);
  for (std::size_t i = 0; i < total; ++i) ASSERT_EQ(far.bytes[i], static_cast<char>(i % 251)) << i;
}

TEST(Channel, ResetReachesThePeerAndSilencesUs) {
  Streams s;
  Reader far(s.theirs);
  Reader near(s.ours);
  s.settle();
  s.theirs->write("on its way");
  s.ours->reset(make_error(Errc::cancelled, "read", "enough"));
  s.settle();
  ASSERT_TRUE(far.reset);
  EXPECT_EQ(far.reset->code, Errc::cancelled);
  EXPECT_EQ(near.bytes, "");
  EXPECT_FALSE(near.reset);
  EXPECT_EQ(s.ours->budget(), 0U);
  EXPECT_EQ(s.theirs->budget(), 0U);
  s.theirs->write("into the void");
  s.settle();
  EXPECT_FALSE(s.client_handler.closed);
  EXPECT_FALSE(s.agent_handler.closed);
}

TEST(Channel, TheEndOfTheSessionResetsItAndLaterOnesAreBornReset) {
  Streams s;
  Reader near(s.ours);
  s.settle();
  s.client_end->end(make_error(Errc::disconnected, "", "cut"));
  s.settle();
  ASSERT_TRUE(near.reset);
  EXPECT_EQ(near.reset->code, Errc::disconnected);
  Reader late(s.client->open_channel());
  s.settle();
  EXPECT_TRUE(late.reset);
}

TEST(Channel, OpenedBeforeTheHelloIsWritableAfterIt) {
  SessionPair pair;
  Reader near(pair.client->open_channel());
  EXPECT_EQ(near.channel->budget(), 0U);
  near.on_room = [&] { near.channel->write("x"); };
  pair.settle();
  EXPECT_EQ(near.writable, 1);
  auto theirs = pair.agent->take_channel(near.channel->id());
  ASSERT_TRUE(theirs);
  Reader far(theirs);
  pair.settle();
  EXPECT_EQ(far.bytes, "x");
}

TEST(Channel, BothEndsGoneFreesThePlace) {
  SessionPair pair;
  pair.settle();
  for (std::size_t i = 0; i < 3 * wire::kMaxChannels; ++i) {
    auto ours = pair.client->open_channel();
    pair.settle();
    auto theirs = pair.agent->take_channel(ours->id());
    ASSERT_TRUE(theirs);
    Reader near(ours);
    Reader far(theirs);
    ours->end();
    theirs->end();
    pair.settle();
    ASSERT_TRUE(near.ended && far.ended);
  }
  EXPECT_FALSE(pair.agent_handler.closed);
}

TEST(Channel, BeyondTheLimitOneIsRefusedHere) {
  SessionPair pair;
  pair.settle();
  std::vector<std::shared_ptr<Channel>> open;
  for (std::size_t i = 0; i < wire::kMaxChannels; ++i) open.push_back(pair.client->open_channel());
  Reader late(pair.client->open_channel());
  pair.settle();
  ASSERT_TRUE(late.reset);
  EXPECT_EQ(late.reset->code, Errc::limit);
  EXPECT_FALSE(pair.agent_handler.closed);
}

}  // namespace
}  // namespace sandbar::mux
