// SPDX-License-Identifier: Apache-2.0
// What a session carries over a lost connection, case by case; resume_simulation_test.cpp has the rest.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/mux/resume_pair.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/limits.h"

namespace sandbar::mux {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::FrameType;

std::size_t count_frames(const fakes::FakeTransport::End& end, FrameType type) {
  return static_cast<std::size_t>(
      std::count_if(end.outbox.begin(), end.outbox.end(), [type](const base::Bytes& message) {
        const auto frame = wire::decode_frame(message);
        return frame.ok() && frame->type == type;
      }));
}

TEST(Resume, ARequestThatWasLostOnItsWayIsSentAgain) {
  ResumePair pair;
  pair.hold();
  Outcome outcome;
  pair.client->request({"head", "body"}, {}, outcome.completion());
  pair.cut();
  EXPECT_EQ(pair.client_handler.detaches, 1);
  EXPECT_EQ(pair.agent_handler.detaches, 1);
  EXPECT_EQ(pair.client_handler.detached->code, Errc::disconnected);
  EXPECT_FALSE(pair.client->attached());
  EXPECT_FALSE(pair.agent->attached());
  EXPECT_TRUE(pair.client->ready()) << "the session lives";
  pair.resume();
  EXPECT_TRUE(pair.client->attached());
  EXPECT_TRUE(pair.agent->attached());
  EXPECT_EQ(pair.client_handler.resumes, 1);
  EXPECT_EQ(pair.agent_handler.resumes, 1);
  EXPECT_EQ(pair.client_handler.resumed->session, "session-1");
  EXPECT_EQ(pair.client_handler.resumed->lease, 3600U);
  ASSERT_EQ(pair.agent_handler.requests.size(), 1U);
  EXPECT_EQ(pair.agent_handler.requests[0].body, "body");
  pair.agent_handler.responders[0].reply({"yes", ""});
  pair.settle();
  ASSERT_TRUE(outcome.message);
  EXPECT_EQ(outcome.message->head, "yes");
  EXPECT_EQ(outcome.runs, 1);
}

TEST(Resume, WhatArrivedUnacknowledgedIsNotRepeated) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"head", ""}, {}, outcome.completion());
  pair.settle();
  ASSERT_EQ(pair.agent_handler.requests.size(), 1U);
  EXPECT_GT(pair.client->retained(), 0U);
  pair.cut();
  pair.resume();
  EXPECT_EQ(pair.agent_handler.requests.size(), 1U);
  EXPECT_EQ(pair.client->retained(), 0U) << "the agent's hello acknowledges it";
}

TEST(Resume, AnAnswerThatWasLostOnItsWayIsSentAgain) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"head", ""}, {}, outcome.completion());
  pair.settle();
  pair.hold();
  pair.agent_handler.responders[0].reply({"yes", std::string(wire::kMaxBody, 'r')});
  pair.cut();
  EXPECT_EQ(outcome.runs, 0);
  pair.resume();
  ASSERT_TRUE(outcome.message);
  EXPECT_EQ(outcome.message->body, std::string(wire::kMaxBody, 'r'));
  EXPECT_EQ(outcome.runs, 1);
}

TEST(Resume, ARequestIsCutBetweenAnyTwoFragments) {
  std::string body(300'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i % 251);
  for (int delivered = 0; delivered < 6; ++delivered) {
    ResumePair pair;
    pair.hold();
    Outcome outcome;
    pair.client->request({"head", body}, {}, outcome.completion());
    for (int i = 0; i < delivered; ++i) pair.client_end->deliver_one();
    pair.cut();
    pair.resume();
    ASSERT_EQ(pair.agent_handler.requests.size(), 1U);
    EXPECT_EQ(pair.agent_handler.requests[0].body, body);
  }
}

TEST(Resume, ADeadlineThatPassesMeanwhileFailsTheRequestAndTellsTheAgent) {
  ResumePair pair;
  Outcome sent;
  Outcome lost;
  pair.client->request({"sent", ""}, {seconds(5)}, sent.completion());
  pair.settle();
  pair.hold();
  pair.client->request({"lost", ""}, {seconds(5)}, lost.completion());
  pair.cut();
  pair.loop.advance(seconds(6));
  for (const Outcome* outcome : {&sent, &lost}) {
    ASSERT_TRUE(outcome->error);
    EXPECT_EQ(outcome->error->code, Errc::timeout);
  }
  pair.resume();
  ASSERT_EQ(pair.agent_handler.requests.size(), 2U) << "it may carry a mutation's number: it must arrive";
  for (Responder& responder : pair.agent_handler.responders) {
    EXPECT_TRUE(responder.cancelled());
    responder.fail(make_error(Errc::cancelled, "", ""));
  }
  pair.settle();
  EXPECT_EQ(sent.runs, 1);
  EXPECT_EQ(lost.runs, 1);
  EXPECT_FALSE(pair.client_handler.closed);
}

TEST(Resume, ACancelWhileDetached) {
  ResumePair pair;
  Outcome outcome;
  const wire::RequestId id = pair.client->request({"1", ""}, {}, outcome.completion());
  pair.settle();
  bool told = false;
  pair.agent_handler.responders[0].on_cancel([&told] { told = true; });
  pair.cut();
  EXPECT_FALSE(told) << "the session is not over";
  EXPECT_FALSE(pair.agent_handler.responders[0].cancelled());
  pair.client->cancel(id);
  pair.settle();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::cancelled);
  pair.resume();
  EXPECT_TRUE(told);
}

TEST(Resume, ACancelThatWasLostOnItsWay) {
  ResumePair pair;
  Outcome outcome;
  const wire::RequestId id = pair.client->request({"1", ""}, {}, outcome.completion());
  pair.settle();
  pair.hold();
  pair.client->cancel(id);
  pair.cut();
  EXPECT_FALSE(pair.agent_handler.responders[0].cancelled());
  pair.resume();
  EXPECT_TRUE(pair.agent_handler.responders[0].cancelled());
}

TEST(Resume, WhatIsAskedAndAnsweredWhileDetachedGoesOn) {
  ResumePair pair;
  Outcome before;
  Outcome during;
  pair.client->request({"before", ""}, {}, before.completion());
  pair.settle();
  pair.cut();
  pair.client->request({"during", std::string(100'000, 'x')}, {}, during.completion());
  pair.agent_handler.responders[0].reply({"answer", ""});
  auto ours = pair.client->open_channel();
  ours->write("early");
  ours->end();
  pair.settle();
  EXPECT_EQ(before.runs, 0);
  pair.resume();
  EXPECT_EQ(before.message->head, "answer");
  ASSERT_EQ(pair.agent_handler.requests.size(), 2U);
  EXPECT_EQ(pair.agent_handler.requests[1].body.size(), 100'000U);
  StreamReader far(pair.agent->take_channel(ours->id()));
  pair.settle();
  EXPECT_EQ(far.bytes, "early");
  EXPECT_EQ(far.ends, 1);
}

TEST(Resume, ADroppedResponderAnswersAlsoWhileDetached) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"1", ""}, {}, outcome.completion());
  pair.settle();
  pair.cut();
  pair.agent_handler.responders.clear();
  pair.resume();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::internal);
}

/// A stream, open at both ends.
struct ResumeStreams : ResumePair {
  ResumeStreams() : near(client->open_channel()), far((settle(), agent->take_channel(near.channel->id()))) { settle(); }
  StreamReader near;
  StreamReader far;
};

TEST(Resume, DataAndEndsOfStreamsBothWays) {
  ResumeStreams s;
  s.hold();
  s.near.channel->write("to the agent");
  s.near.channel->end();
  s.far.channel->write("to the client");
  s.cut();
  EXPECT_FALSE(s.near.reset || s.far.reset);
  EXPECT_EQ(s.far.bytes, "");
  s.far.channel->end();
  s.resume();
  EXPECT_EQ(s.far.bytes, "to the agent");
  EXPECT_EQ(s.near.bytes, "to the client");
  EXPECT_EQ(s.far.ends, 1);
  EXPECT_EQ(s.near.ends, 1);
}

TEST(Resume, CreditIsNotLost) {
  ResumeStreams s;
  s.far.eager = false;
  std::size_t sent = 0;
  const std::size_t total = 3 * wire::kChannelWindow;
  s.near.fill = [&] {
    while (sent < total && s.near.channel->budget() > 0) {
      const std::size_t count = std::min({s.near.channel->budget(), total - sent, std::size_t{60'000}});
      s.near.channel->write(std::string(count, 'x'));
      sent += count;
    }
  };
  s.near.fill();
  s.settle();
  EXPECT_EQ(sent, wire::kChannelWindow);
  s.hold();
  s.far.channel->consumed(s.far.bytes.size());
  s.far.eager = true;
  s.cut();
  EXPECT_EQ(s.near.channel->budget(), 0U);
  s.resume();
  EXPECT_EQ(sent, total);
  EXPECT_EQ(s.far.bytes.size(), total);
}

TEST(Resume, AResetIsNotLost) {
  ResumeStreams s;
  s.hold();
  s.near.channel->reset(make_error(Errc::cancelled, "", "enough"));
  s.far.channel->write("crosses it");
  s.cut();
  s.resume();
  ASSERT_TRUE(s.far.reset);
  EXPECT_EQ(s.far.reset->code, Errc::cancelled);
  EXPECT_EQ(s.near.bytes, "");
  EXPECT_FALSE(s.client_handler.closed);
}

TEST(Resume, AcksComeAfterAWhileAndAfterManyBytes) {
  ResumePair pair;
  pair.hold();
  Outcome small;
  pair.client->request({"1", ""}, {}, small.completion());
  pair.client_end->deliver_one();
  EXPECT_EQ(count_frames(*pair.agent_end, FrameType::ack), 0U);
  pair.loop.advance(milliseconds(99));
  EXPECT_EQ(count_frames(*pair.agent_end, FrameType::ack), 0U);
  pair.loop.advance(milliseconds(1));
  ASSERT_EQ(count_frames(*pair.agent_end, FrameType::ack), 1U);
  EXPECT_EQ(wire::decode_frame(pair.agent_end->outbox.back())->channel, 1U);
  pair.agent_end->deliver_one();
  EXPECT_EQ(pair.client->retained(), 0U);
  pair.loop.advance(seconds(3));
  EXPECT_EQ(pair.agent_end->outbox.size(), 0U) << "no ack without need";

  Outcome large;
  pair.client->request({"2", std::string(wire::kMaxBody, 'x')}, {}, large.completion());
  while (pair.client_end->deliver_one()) {
  }
  EXPECT_EQ(count_frames(*pair.agent_end, FrameType::ack), 2U) << "every 512 KiB, without waiting";
}

TEST(Resume, OnceAllIsAcknowledgedNothingIsKept) {
  ResumePair pair;
  std::vector<Outcome> outcomes(20);
  pair.agent_handler.answer = [](Message request, Responder responder) { responder.reply(std::move(request)); };
  for (Outcome& outcome : outcomes) pair.client->request({"r", std::string(50'000, 'x')}, {}, outcome.completion());
  pair.settle();
  pair.wait_for_acks();
  EXPECT_EQ(pair.client->retained(), 0U);
  EXPECT_EQ(pair.agent->retained(), 0U);
}

TEST(Resume, AtTheBoundBulkStopsFirstAndAnAckLetsAllGoOn) {
  ResumePair pair;
  std::vector<Outcome> outcomes(33 + 400);
  for (Outcome& outcome : outcomes) pair.client->request({"r", ""}, {}, outcome.completion());
  pair.settle();
  ASSERT_EQ(pair.agent_handler.responders.size(), outcomes.size());
  pair.wait_for_acks();
  const std::size_t before = pair.agent->stats().bytes_sent;
  const auto sent = [&] { return pair.agent->stats().bytes_sent - before; };
  pair.client_end->automatic = false;  // no ack comes
  const auto answer = [&pair](std::size_t which, std::size_t size) {
    pair.agent_handler.responders[which].reply({"a", std::string(size, 'x')});
    pair.settle();
  };
  for (std::size_t i = 0; i < 31; ++i) answer(i, wire::kMaxBody);
  const std::size_t bound = wire::kMaxUnacknowledged - wire::kUnacknowledgedReserve;
  EXPECT_GT(sent(), bound - 100'000);
  EXPECT_LT(sent(), bound + wire::kMaxFragment);
  EXPECT_FALSE(outcomes[30].message);
  answer(31, 100'000);
  answer(32, 100);
  EXPECT_FALSE(outcomes[31].message) << "a large one waits";
  EXPECT_TRUE(outcomes[32].message) << "a small one goes on";

  // Small ones without end stop, too.
  for (std::size_t i = 33; i < outcomes.size(); ++i) answer(i, 8'000);
  EXPECT_FALSE(outcomes.back().message);
  EXPECT_GT(sent(), wire::kMaxUnacknowledged - 200'000);
  EXPECT_LT(sent(), wire::kMaxUnacknowledged + 20'000);

  pair.client_end->automatic = true;
  pair.flow();
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.message);
  pair.wait_for_acks();
  EXPECT_EQ(pair.agent->retained(), 0U);
}

TEST(Resume, AtTheBoundAResumeGoesOn) {
  ResumePair pair;
  pair.agent_end->automatic = false;
  std::vector<Outcome> outcomes(32);
  for (Outcome& outcome : outcomes)
    pair.client->request({"r", std::string(wire::kMaxBody, 'x')}, {}, outcome.completion());
  pair.settle();
  ASSERT_LT(pair.agent_handler.requests.size(), outcomes.size());
  ResumePair::lose(*pair.client_end);  // what arrived has arrived
  pair.cut();
  pair.resume();
  EXPECT_EQ(pair.agent_handler.requests.size(), outcomes.size());
}

}  // namespace
}  // namespace sandbar::mux
