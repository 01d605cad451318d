// SPDX-License-Identifier: Apache-2.0
// How a session loses a connection, comes back and ends.
#include <gtest/gtest.h>

#include "unit/mux/resume_pair.h"
#include "wire/limits.h"

namespace sandbar::mux {
namespace {

using std::chrono::seconds;

TEST(ResumeLife, TheClientsHelloIsLost) {
  ResumePair pair;
  Outcome outcome;
  pair.hold();
  pair.client->request({"1", ""}, {}, outcome.completion());
  pair.cut();
  auto transport = pair.connect();
  pair.hold();
  pair.client->resume(std::move(transport));
  pair.cut();
  EXPECT_EQ(pair.client_handler.detaches, 2) << "also when a resume came to nothing";
  EXPECT_EQ(pair.agent_handler.detaches, 1);
  EXPECT_EQ(pair.lobby.greeters(), 0U);
  pair.resume();
  EXPECT_EQ(pair.agent_handler.requests.size(), 1U);
  EXPECT_EQ(pair.agent_handler.resumes, 1);
}

TEST(ResumeLife, TheAgentsHelloIsLostWithAllBehindIt) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"1", ""}, {}, outcome.completion());
  pair.settle();
  pair.cut();
  pair.agent_handler.responders[0].reply({"yes", ""});
  for (int times = 1; times <= 3; ++times) {
    auto transport = pair.connect();
    pair.hold();
    pair.client->resume(std::move(transport));
    pair.settle();
    pair.client_end->deliver_one();
    pair.settle();
    EXPECT_EQ(pair.agent_handler.resumes, times);
    EXPECT_TRUE(pair.agent->attached());
    EXPECT_EQ(pair.agent_end->outbox.size(), 2U) << "its hello, and the answer again";
    pair.cut();
    EXPECT_EQ(pair.client_handler.detaches, times + 1);
    EXPECT_EQ(pair.agent_handler.detaches, times + 1);
  }
  EXPECT_EQ(outcome.runs, 0);
  pair.resume();
  EXPECT_EQ(outcome.runs, 1);
  EXPECT_TRUE(outcome.message);
}

TEST(ResumeLife, NoHelloInTimeDetachesAgain) {
  ResumePair pair;
  pair.cut();
  auto transport = pair.connect();
  pair.silence();
  pair.client->resume(std::move(transport));
  pair.loop.advance(seconds(9));
  EXPECT_EQ(pair.client_handler.detaches, 1);
  pair.loop.advance(seconds(2));
  ASSERT_EQ(pair.client_handler.detaches, 2);
  EXPECT_EQ(pair.client_handler.detached->code, Errc::timeout);
  EXPECT_FALSE(pair.client_handler.closed);
  pair.resume();
  EXPECT_TRUE(pair.client->attached());
}

TEST(ResumeLife, ASessionThatTheAgentDoesNotKnowIsOver) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"1", ""}, {}, outcome.completion());
  StreamReader near(pair.client->open_channel());
  pair.settle();
  pair.cut();
  pair.lobby.sessions.clear();
  pair.resume();
  ASSERT_TRUE(pair.client_handler.closed);
  EXPECT_EQ(pair.client_handler.closed->code, Errc::unknown);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::disconnected);
  EXPECT_TRUE(near.reset);
  EXPECT_EQ(pair.lobby.refused.size(), 1U);
  EXPECT_EQ(pair.lobby.greeters(), 0U);
  EXPECT_EQ(pair.loop.timers(), 0U);
}

TEST(ResumeLife, AGoodbyeForAnotherReasonDetachesAgain) {
  ResumePair pair;
  pair.cut();
  pair.lobby.busy = [] { return true; };
  pair.resume();
  ASSERT_EQ(pair.client_handler.detaches, 2);
  EXPECT_EQ(pair.client_handler.detached->code, Errc::limit);
  EXPECT_FALSE(pair.client_handler.closed);
  EXPECT_EQ(pair.lobby.greeters(), 0U);
  pair.lobby.busy = nullptr;
  pair.resume();
  EXPECT_TRUE(pair.client->attached());
}

TEST(ResumeLife, AGoodbyeOnAConnectionThatIsUpEndsTheSession) {
  ResumePair pair;
  pair.cut();
  pair.resume();
  pair.agent->close(make_error(Errc::disconnected, "serve", "the agent is shutting down"));
  pair.settle();
  EXPECT_TRUE(pair.client_handler.closed);
  EXPECT_TRUE(pair.agent_handler.closed);
  EXPECT_EQ(pair.loop.timers(), 0U);
}

TEST(ResumeLife, ANewConnectionTakesThePlaceOfOneThatSeemsAlive) {
  ResumePair pair;
  auto old_end = pair.agent_end;
  Outcome outcome;
  pair.silence();
  pair.client->request({"1", ""}, {}, outcome.completion());
  pair.resume();
  EXPECT_EQ(pair.client_handler.detaches, 0) << "the owner's own wish is no loss";
  EXPECT_EQ(pair.agent_handler.detaches, 0);
  EXPECT_EQ(pair.agent_handler.resumes, 1);
  EXPECT_TRUE(old_end->closed);
  EXPECT_EQ(pair.agent_handler.requests.size(), 1U);
  pair.loop.advance(seconds(60));
  EXPECT_TRUE(pair.client->attached());
  EXPECT_TRUE(pair.agent->attached());
}

TEST(ResumeLife, AConnectionThatWasSlowToComeDoesNotPushOutALaterOne) {
  ResumePair pair;
  pair.cut();
  auto slow = pair.connect();
  auto slow_end = pair.client_end;
  slow_end->automatic = false;
  pair.client->resume(std::move(slow));
  pair.settle();
  const base::Bytes hello = slow_end->outbox.at(0);
  pair.resume();
  ASSERT_TRUE(pair.agent->attached());
  // The old hello, over whatever held it up.
  auto [a, b] = fakes::FakeTransport::pair(pair.loop);
  pair.lobby.accept(std::move(b));
  a->send(hello);
  pair.settle();
  ASSERT_EQ(pair.lobby.refused.size(), 1U);
  EXPECT_EQ(pair.lobby.refused[0].code, Errc::protocol);
  EXPECT_TRUE(a->end()->closed);
  EXPECT_EQ(pair.agent_handler.resumes, 1);
  EXPECT_TRUE(pair.agent->attached());
  EXPECT_TRUE(pair.client->attached());
}

TEST(ResumeLife, ASilentPeerDetachesAndDoesNotEnd) {
  ResumePair pair;
  pair.silence();
  pair.loop.advance(seconds(11));
  EXPECT_EQ(pair.client_handler.detaches, 0);
  pair.loop.advance(seconds(5));
  EXPECT_EQ(pair.client_handler.detaches, 1);
  EXPECT_EQ(pair.agent_handler.detaches, 1);
  EXPECT_EQ(pair.client_handler.detached->code, Errc::disconnected);
  EXPECT_EQ(pair.loop.timers(), 0U) << "nobody to ask whether it is alive";
  pair.loop.advance(std::chrono::hours(10));
  pair.resume();
  pair.loop.advance(seconds(60));
  EXPECT_TRUE(pair.client->attached());
  EXPECT_TRUE(pair.agent->attached());
  EXPECT_EQ(pair.client_handler.detaches, 1);
  EXPECT_EQ(pair.client_handler.closes + pair.agent_handler.closes, 0);
}

TEST(ResumeLife, TheRoundTripIsNotThatOfAHelloThatTookLong) {
  ResumePair pair;
  pair.cut();
  auto transport = pair.connect();
  pair.hold();
  pair.client->resume(std::move(transport));
  pair.loop.advance(seconds(5));  // a ping falls due meanwhile
  pair.client_end->automatic = pair.agent_end->automatic = true;
  pair.flow();
  ASSERT_TRUE(pair.client->attached());
  pair.flow();
  EXPECT_EQ(pair.client->stats().round_trip, base::Duration::zero());
}

TEST(ResumeLife, CloseWhileDetached) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"1", ""}, {}, outcome.completion());
  StreamReader near(pair.client->open_channel());
  pair.settle();
  pair.cut();
  pair.client->close(make_error(Errc::cancelled, "", "enough"));
  EXPECT_EQ(outcome.runs, 0) << "never inside the call";
  EXPECT_EQ(pair.client_handler.closes, 0);
  pair.settle();
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Errc::disconnected);
  EXPECT_TRUE(near.reset);
  EXPECT_EQ(pair.client_handler.closes, 1);
  EXPECT_EQ(pair.loop.timers(), 0U);
  pair.resume();
  EXPECT_EQ(pair.client_handler.resumes, 0);
  EXPECT_FALSE(pair.agent->attached());
}

TEST(ResumeLife, TheAgentClosesWhileDetached) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"1", ""}, {}, outcome.completion());
  pair.settle();
  bool told = false;
  pair.agent_handler.responders[0].on_cancel([&told] { told = true; });
  pair.cut();
  pair.agent->close(make_error(Errc::limit, "", "the lease is over"));
  pair.settle();
  EXPECT_TRUE(told);
  EXPECT_EQ(pair.agent_handler.closes, 1);
  pair.resume();
  ASSERT_TRUE(pair.client_handler.closed);
  EXPECT_EQ(pair.client_handler.closed->code, Errc::unknown);
  EXPECT_EQ(outcome.runs, 1);
}

TEST(ResumeLife, CloseWhileComingBack) {
  ResumePair pair;
  pair.cut();
  pair.client->resume(pair.connect());
  pair.client->close(make_error(Errc::cancelled, "", "enough"));
  pair.settle();
  EXPECT_EQ(pair.client_handler.closes, 1);
  EXPECT_EQ(pair.agent_handler.closes, 1) << "the goodbye follows the hello";
  EXPECT_EQ(pair.loop.timers(), 0U);
}

TEST(ResumeLife, DestroyedWhileDetached) {
  ResumePair pair;
  Outcome outcome;
  pair.client->request({"1", ""}, {}, outcome.completion());
  StreamReader near(pair.client->open_channel());
  pair.settle();
  pair.cut();
  pair.client.reset();
  EXPECT_EQ(outcome.runs, 0);
  pair.lobby.sessions.clear();
  pair.settle();
  EXPECT_EQ(outcome.runs, 1);
  EXPECT_TRUE(near.reset);
  EXPECT_EQ(pair.client_handler.closes + pair.agent_handler.closes, 0);
  EXPECT_TRUE(pair.agent_handler.responders[0].cancelled());
  pair.agent_handler.responders[0].reply({"", ""});
  EXPECT_EQ(pair.loop.timers(), 0U);
}

TEST(ResumeLife, DestroyedWhileComingBack) {
  ResumePair pair;
  pair.cut();
  pair.client->resume(pair.connect());
  pair.client.reset();
  pair.settle();
  EXPECT_EQ(pair.client_handler.closes, 0);
  EXPECT_FALSE(pair.agent->attached());
}

TEST(ResumeLife, IsCounted) {
  ResumePair pair;
  for (std::uint64_t times = 1; times <= 3; ++times) {
    Outcome outcome;
    pair.hold();
    pair.client->request({"1", ""}, {}, outcome.completion());
    pair.cut();
    pair.resume();
    EXPECT_EQ(pair.client->stats().resumes, times);
    EXPECT_EQ(pair.agent->stats().resumes, times);
    EXPECT_EQ(pair.client->stats().requests_sent, times) << "what is sent again is no new one";
  }
}

TEST(ResumeLife, WithoutANameTheSessionEndsWithItsConnection) {
  fakes::FakeLoop loop;
  Recorder client_handler;
  Recorder agent_handler;
  Lobby lobby(loop, agent_handler);
  lobby.keeps = false;
  auto [a, b] = fakes::FakeTransport::pair(loop);
  auto end = a->end();
  lobby.accept(std::move(b));
  Session client(loop, std::move(a), resumable_client(), client_handler);
  loop.drain();
  ASSERT_TRUE(client.ready());
  // Coming back with no name would begin another session under this one's numbers.
  auto [c, d] = fakes::FakeTransport::pair(loop);
  lobby.accept(std::move(d));
  client.resume(std::move(c));
  loop.drain();
  EXPECT_EQ(lobby.sessions.size(), 1U);
  EXPECT_TRUE(client.attached());
  end->peer.lock()->end(make_error(Errc::disconnected, "", "cut"));
  end->end(make_error(Errc::disconnected, "", "cut"));
  loop.drain();
  EXPECT_EQ(client_handler.closes, 1);
  EXPECT_EQ(agent_handler.closes, 1);
  EXPECT_EQ(client_handler.detaches + agent_handler.detaches, 0);
}

TEST(ResumeLife, AClientThatDoesNotWantItEndsWithItsConnection) {
  SessionOptions options;
  options.role = Role::client;
  ResumePair pair(std::move(options));
  pair.cut();
  EXPECT_EQ(pair.client_handler.closes, 1);
  EXPECT_EQ(pair.client_handler.detaches, 0);
}

TEST(ResumeLife, InsideTheCallThatTellsOfTheLoss) {
  struct Eager : Recorder {
    void on_detached(const Error& reason) override {
      Recorder::on_detached(reason);
      if (detaches == 1) pair->client->resume(pair->connect());
    }
    ResumePair* pair = nullptr;
  };
  ResumePair pair;
  Eager handler;
  handler.pair = &pair;
  pair.client = std::make_unique<Session>(pair.loop, pair.connect(), resumable_client(), handler);
  pair.settle();
  auto old_agent = pair.agent_end;
  ResumePair::lose(*pair.client_end);
  ResumePair::lose(*old_agent);
  pair.settle();
  EXPECT_EQ(handler.detaches, 1);
  EXPECT_EQ(handler.resumes, 1);
  EXPECT_TRUE(pair.client->attached());
}

}  // namespace
}  // namespace sandbar::mux
