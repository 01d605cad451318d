// SPDX-License-Identifier: Apache-2.0
#include "mux/session.h"

#include <gtest/gtest.h>

#include "unit/mux/session_pair.h"
#include "wire/limits.h"

namespace sandbar::mux {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Session, HellosReachBothSides) {
  SessionOptions client;
  client.hello.software = "client 1";
  client.hello.journal = "j1";
  SessionOptions agent;
  agent.hello.root = "/srv";
  agent.on_hello = [](const wire::Hello& theirs, wire::Hello& ours) -> Result<void> {
    ours.agent = "seen " + theirs.journal;
    return {};
  };
  SessionPair pair(std::move(client), std::move(agent));
  pair.settle();
  ASSERT_TRUE(pair.client_handler.ready && pair.agent_handler.ready);
  EXPECT_EQ(pair.agent_handler.ready->software, "client 1");
  EXPECT_EQ(pair.client_handler.ready->root, "/srv");
  EXPECT_EQ(pair.client_handler.ready->agent, "seen j1");
  EXPECT_EQ(pair.client->peer_hello().limits.max_body, wire::kMaxBody);
}

TEST(Session, AgentMayRefuseAHello) {
  SessionOptions agent;
  agent.on_hello = [](const wire::Hello&, wire::Hello&) -> Result<void> {
    return make_error(Errc::unsupported, "agree on capabilities", "no");
  };
  SessionPair pair({}, std::move(agent));
  pair.settle();
  ASSERT_TRUE(pair.client_handler.closed);
  EXPECT_EQ(pair.client_handler.closed->code, Errc::unsupported);
  EXPECT_FALSE(pair.client_handler.ready);
}

TEST(Session, NoHelloIsATimeout) {
  SessionPair pair;
  pair.agent_end->automatic = false;
  pair.settle();
  pair.loop.advance(seconds(11));
  ASSERT_TRUE(pair.client_handler.closed);
  EXPECT_EQ(pair.client_handler.closed->code, Errc::timeout);
}

TEST(Session, ARequestIsAnsweredWithHeadAndBody) {
  SessionPair pair;
  Outcome outcome;
  pair.client->request({"head", std::string(300'000, 'b')}, {}, outcome.completion());
  EXPECT_EQ(outcome.runs, 0);
  pair.settle();
  ASSERT_EQ(pair.agent_handler.requests.size(), 1U);
  EXPECT_EQ(pair.agent_handler.requests[0].head, "head");
  EXPECT_EQ(pair.agent_handler.requests[0].body, std::string(300'000, 'b'));
  pair.agent_handler.responders[0].reply({"yes", std::string(wire::kMaxBody, 'r')});
  pair.settle();
  ASSERT_TRUE(outcome.message);
  EXPECT_EQ(outcome.message->head, "yes");
  EXPECT_EQ(outcome.message->body, std::string(wire::kMaxBody, 'r'));
  EXPECT_EQ(outcome.runs, 1);
}

TEST(Session, AnErrorArrivesWhole) {
  SessionPair pair;
  Outcome outcome;
  pair.client->request({"h", ""}, {}, outcome.completion());
  pair.settle();
  pair.agent_handler.responders[0].fail(os_error(2, "open x"));
  pair.settle();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::os);
  EXPECT_EQ(outcome.error->os_errno, 2);
}

TEST(Session, ADroppedResponderAnswers) {
  SessionPair pair;
  Outcome outcome;
  pair.client->request({"h", ""}, {}, outcome.completion());
  pair.settle();
  pair.agent_handler.responders.clear();
  pair.settle();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::internal);
}

TEST(Session, ADeadlineFailsTheRequestAndTellsThePeer) {
  SessionPair pair;
  Outcome outcome;
  pair.settle();
  pair.client->request({"h", ""}, {seconds(2)}, outcome.completion());
  pair.settle();
  bool cancelled = false;
  pair.agent_handler.responders[0].on_cancel([&] { cancelled = true; });
  pair.loop.advance(milliseconds(1999));
  EXPECT_EQ(outcome.runs, 0);
  pair.loop.advance(milliseconds(1));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::timeout);
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(pair.agent_handler.responders[0].cancelled());
  // The late answer is expected, and disturbs nothing.
  pair.agent_handler.responders[0].reply({"late", ""});
  pair.settle();
  EXPECT_EQ(outcome.runs, 1);
  EXPECT_FALSE(pair.client_handler.closed);
}

TEST(Session, CancelFailsAtOnceAndOnlyThatRequest) {
  SessionPair pair;
  Outcome first;
  Outcome second;
  const wire::RequestId id = pair.client->request({"1", ""}, {}, first.completion());
  pair.client->request({"2", ""}, {}, second.completion());
  pair.settle();
  pair.client->cancel(id);
  EXPECT_EQ(first.runs, 0);
  pair.settle();
  ASSERT_TRUE(first.error);
  EXPECT_EQ(first.error->code, Errc::cancelled);
  EXPECT_EQ(second.runs, 0);
  pair.agent_handler.responders[1].reply({"two", ""});
  pair.settle();
  EXPECT_TRUE(second.message);
}

TEST(Session, ACancelNeverOvertakesItsRequest) {
  SessionPair pair;
  pair.settle();
  pair.client_end->automatic = false;
  Outcome blocker;
  Outcome outcome;
  pair.client->request({"blocker", std::string(wire::kMaxBody, 'x')}, {}, blocker.completion());
  const wire::RequestId id = pair.client->request({"bulk", std::string(wire::kMaxBody, 'y')}, {}, outcome.completion());
  pair.client->cancel(id);
  while (pair.client_end->deliver_one()) pair.settle();
  ASSERT_EQ(pair.agent_handler.requests.size(), 2U) << "a request may carry a mutation's number: it must arrive";
  EXPECT_FALSE(pair.agent_handler.closed);
  EXPECT_TRUE(pair.agent_handler.responders[1].cancelled());
  EXPECT_FALSE(pair.agent_handler.responders[0].cancelled());
}

TEST(Session, RequestsBeyondTheLimitWaitAndGoOnInOrder) {
  SessionPair pair;
  std::vector<Outcome> outcomes(wire::kMaxRequests + 3);
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    pair.client->request({std::to_string(i), ""}, {}, outcomes[i].completion());
  pair.settle();
  ASSERT_EQ(pair.agent_handler.requests.size(), wire::kMaxRequests);
  pair.agent_handler.responders[7].reply({"", ""});
  pair.settle();
  ASSERT_EQ(pair.agent_handler.requests.size(), wire::kMaxRequests + 1);
  EXPECT_EQ(pair.agent_handler.requests.back().head, std::to_string(wire::kMaxRequests));
  EXPECT_FALSE(pair.agent_handler.closed);
}

TEST(Session, RequestBodiesStayInTheWindow) {
  SessionPair pair;
  std::vector<Outcome> outcomes(40);
  for (Outcome& outcome : outcomes)
    pair.client->request({"w", std::string(wire::kMaxBody, 'z')}, {}, outcome.completion());
  pair.settle();
  EXPECT_EQ(pair.agent_handler.requests.size(), wire::kRequestWindow / wire::kMaxBody);
  EXPECT_FALSE(pair.agent_handler.closed);
  while (!pair.agent_handler.responders.empty()) {
    auto responders = std::exchange(pair.agent_handler.responders, {});
    for (Responder& responder : responders) responder.reply({"", ""});
    pair.settle();
  }
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.message);
}

TEST(Session, ALostConnectionFailsEverythingOnce) {
  SessionPair pair;
  Outcome sent;
  pair.client->request({"h", ""}, {}, sent.completion());
  pair.settle();
  bool told = false;
  pair.agent_handler.responders[0].on_cancel([&] { told = true; });
  pair.agent_end->end(make_error(Errc::disconnected, "", "cut"));
  pair.client_end->end(make_error(Errc::disconnected, "", "cut"));
  pair.settle();
  ASSERT_TRUE(sent.error);
  EXPECT_EQ(sent.error->code, Errc::disconnected);
  EXPECT_EQ(sent.runs, 1);
  EXPECT_EQ(pair.client_handler.closes, 1);
  EXPECT_TRUE(told);
  Outcome later;
  pair.client->request({"h", ""}, {}, later.completion());
  EXPECT_EQ(later.runs, 0);
  pair.settle();
  ASSERT_TRUE(later.error);
  EXPECT_EQ(later.error->code, Errc::disconnected);
}

TEST(Session, CloseTellsThePeerWhy) {
  SessionPair pair;
  pair.settle();
  pair.agent->close(make_error(Errc::limit, "accept", "too many sessions"));
  pair.settle();
  ASSERT_TRUE(pair.client_handler.closed);
  EXPECT_EQ(pair.client_handler.closed->code, Errc::limit);
  EXPECT_NE(pair.client_handler.closed->detail.find("too many sessions"), std::string::npos);
  EXPECT_EQ(pair.agent_handler.closes, 1);
}

TEST(Session, DestroyingASessionFailsItsRequestsLater) {
  SessionPair pair;
  Outcome outcome;
  pair.client->request({"h", ""}, {}, outcome.completion());
  pair.settle();
  pair.client.reset();
  EXPECT_EQ(outcome.runs, 0);
  pair.settle();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::disconnected);
  EXPECT_EQ(pair.client_handler.closes, 0);
  // A responder that outlives its session is harmless.
  pair.agent.reset();
  pair.agent_handler.responders[0].reply({"", ""});
  pair.settle();
}

TEST(Session, ASilentPeerIsNoticedWithinFifteenSeconds) {
  SessionPair pair;
  pair.settle();
  pair.agent_end->automatic = false;
  pair.client_end->automatic = false;
  pair.loop.advance(seconds(11));
  EXPECT_FALSE(pair.client_handler.closed);
  pair.loop.advance(seconds(5));
  ASSERT_TRUE(pair.client_handler.closed);
  EXPECT_EQ(pair.client_handler.closed->code, Errc::disconnected);
}

TEST(Session, AStallOfSixSecondsDisturbsNothing) {
  SessionPair pair;
  pair.loop.advance(seconds(9));
  pair.agent_end->automatic = false;
  pair.client_end->automatic = false;
  pair.loop.advance(seconds(6));
  while (pair.client_end->deliver_one() || pair.agent_end->deliver_one()) pair.settle();
  pair.agent_end->automatic = true;
  pair.client_end->automatic = true;
  pair.loop.advance(seconds(60));
  EXPECT_FALSE(pair.client_handler.closed);
  EXPECT_FALSE(pair.agent_handler.closed);
}

TEST(Session, AStoppedProcessDoesNotBlameItsPeer) {
  SessionPair pair;
  pair.loop.advance(seconds(9));
  pair.loop.jump(std::chrono::hours(1));
  pair.loop.advance(seconds(30));
  EXPECT_FALSE(pair.client_handler.closed);
  EXPECT_FALSE(pair.agent_handler.closed);
}

TEST(Session, ABacklogOfRepliesIsToldAndDrains) {
  SessionPair pair;
  std::vector<Outcome> outcomes(16);
  for (Outcome& outcome : outcomes) pair.client->request({"r", ""}, {}, outcome.completion());
  pair.settle();
  pair.agent_end->automatic = false;
  for (Responder& responder : pair.agent_handler.responders) responder.reply({"", std::string(wire::kMaxBody, 'x')});
  EXPECT_GT(pair.agent->backlog(), kReplyBacklog);
  EXPECT_EQ(pair.agent_handler.drained, 0);
  while (pair.agent_end->deliver_one()) pair.settle();
  EXPECT_EQ(pair.agent_handler.drained, 1);
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.message);
}

}  // namespace
}  // namespace sandbar::mux
