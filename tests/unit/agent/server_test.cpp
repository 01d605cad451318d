// SPDX-License-Identifier: Apache-2.0
// A whole agent with real sessions over a Unix socket.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "unit/agent/server_fixture.h"

namespace sandbar::agent {
namespace {

TEST_F(ServerTest, TheHelloSaysWhoItIs) {
  const auto it = client();
  ASSERT_TRUE(it->hello);
  EXPECT_EQ(it->hello->agent, state_.id());
  EXPECT_EQ(it->hello->epoch, 1U);
  EXPECT_EQ(it->hello->root, root_->path());
  EXPECT_EQ(it->hello->uid, ::geteuid());
  EXPECT_EQ(it->hello->gid, ::getegid());
  EXPECT_EQ(it->hello->capabilities, (std::vector<std::string>{wire::kCapabilityFilesPosix, wire::kCapabilityProcess}));
  EXPECT_EQ(it->hello->last_mutation, wire::MutationNumber());
}

TEST_F(ServerTest, TheTokenIsAskedFor) {
  start("the-token");
  EXPECT_TRUE(client("the-token")->hello);
  for (const std::string& wrong : {std::string(), std::string("the-tokeN"), std::string("the-toke"),
                                   std::string("the-token1"), std::string("x")}) {
    const auto it = client(wrong);
    ASSERT_TRUE(it->closed) << wrong;
    EXPECT_EQ(it->closed->code, Errc::unauthorized);
  }
}

TEST_F(ServerTest, SpawnAndWaitTogether) {
  const auto it = client();
  Stream in(loop_, it->session()), out(loop_, it->session()), err(loop_, it->session());
  auto request = shell("p", "cat; echo error >&2; exit 7");
  request.stdin_channel = in.channel->id();
  request.stdout_channel = out.channel->id();
  request.stderr_channel = err.channel->id();
  const auto wait_first = it->ask(wire::WaitProcess{"q"});
  const auto spawned = it->ask(request);
  const auto waited = it->ask(wire::WaitProcess{"p"});
  in.channel->write("input");
  in.channel->end();
  run_until([&] { return waited->done() && wait_first->done(); });
  // Nobody took the output yet: it is kept.
  in.listen();
  out.listen();
  err.listen();
  run_until([&] { return out.ended && err.ended && in.ended; });
  EXPECT_GT(spawned->get<wire::Spawn::Reply>().pid, 0U);
  EXPECT_EQ(waited->get<wire::WaitProcess::Reply>().code, 7U);
  EXPECT_NE(waited->get<wire::WaitProcess::Reply>().change, wire::ChangeNumber());
  EXPECT_EQ(out.text, "input");
  EXPECT_EQ(err.text, "error\n");
  EXPECT_EQ(wait_first->error().code, Errc::invalid);
}

TEST_F(ServerTest, ALargeOutputIsHeldUpByItsWindowAndWhole) {
  const auto it = client();
  Stream out(loop_, it->session());
  auto request = shell("p", "head -c 20000000 /dev/zero");
  request.stdout_channel = out.channel->id();
  const auto spawned = it->ask(request);
  const auto waited = it->ask(wire::WaitProcess{"p"});
  run_until([&] { return spawned->done(); });
  out.listen();
  run_until([&] { return out.ended && waited->done(); });
  EXPECT_EQ(out.text.size(), 20000000U);
}

TEST_F(ServerTest, ARefusedSpawnResetsItsStreams) {
  const auto it = client();
  const wire::Caller other{::geteuid() + 1, ::getegid(), {}, 0};
  Stream out(loop_, it->session());
  out.listen();
  auto request = shell("p", "true");
  request.stdout_channel = out.channel->id();
  const auto refused = it->ask(request, {other, {}, {}});
  run_until([&] { return refused->done() && out.reset; });
  EXPECT_EQ(refused->error().code, Errc::unsupported);

  const wire::Caller own{::geteuid(), ::getegid(), {}, 022};
  Stream fine(loop_, it->session());
  fine.listen();
  request.stdout_channel = fine.channel->id();
  const auto spawned = it->ask(request, {own, {}, {}});
  run_until([&] { return spawned->done() && fine.ended; });
  EXPECT_TRUE(spawned->ok());
}

TEST_F(ServerTest, StreamsMustBeOpenAndUnused) {
  const auto it = client();
  auto request = shell("p", "true");
  request.stdout_channel = wire::ChannelId(9999);
  const auto unknown = it->ask(request);
  Stream twice(loop_, it->session());
  twice.listen();
  request.stdout_channel = request.stderr_channel = twice.channel->id();
  const auto shared = it->ask(request);
  run_until([&] { return unknown->done() && shared->done() && twice.reset; });
  EXPECT_EQ(unknown->error().code, Errc::invalid);
  EXPECT_EQ(shared->error().code, Errc::invalid);
}

TEST_F(ServerTest, SignalsAndCancelledWaits) {
  const auto it = client();
  const auto spawned = it->ask(shell("p", "sleep 1000"));
  const auto given_up = it->ask(wire::WaitProcess{"p"});
  it->session().cancel(it->last);
  const auto waited = it->ask(wire::WaitProcess{"p"});
  const auto bad = it->ask(wire::SignalProcess{"p", 0});
  run_until([&] { return spawned->done() && given_up->done() && bad->done(); });
  EXPECT_EQ(given_up->error().code, Errc::cancelled);
  EXPECT_EQ(bad->error().code, Errc::invalid);
  const auto signalled = it->ask(wire::SignalProcess{"p", SIGTERM});
  run_until([&] { return signalled->done() && waited->done(); });
  EXPECT_TRUE(signalled->ok());
  EXPECT_EQ(waited->get<wire::WaitProcess::Reply>().signal, static_cast<std::uint32_t>(SIGTERM));
}

TEST_F(ServerTest, ALostClientsProcessesEnd) {
  auto it = client();
  const auto spawned = it->ask(shell("p", "sleep 1000"));
  run_until([&] { return spawned->done(); });
  const auto pid = static_cast<pid_t>(spawned->get<wire::Spawn::Reply>().pid);
  it->disconnect();
  await_death(pid);
}

TEST_F(ServerTest, ASpawnWaitsForAMutationOfItsSession) {
  const auto it = client({}, "journal");
  const auto spawned = it->ask(shell("p", "test -d made"), {{}, {}, wire::MutationNumber(1)});
  const auto attached = it->ask(wire::Attach{wire::ObjectId(1), "/"});
  const auto waited = it->ask(wire::WaitProcess{"p"});
  const auto made = it->ask(wire::MakeDirectory{wire::ObjectId(1), "made", 0755, wire::ObjectId(2)},
                            {{}, wire::MutationNumber(1), {}});
  run_until([&] { return waited->done(); });
  EXPECT_EQ(waited->get<wire::WaitProcess::Reply>().code, 0U);
  EXPECT_TRUE(spawned->ok() && attached->ok() && made->ok());
  EXPECT_EQ(client({}, "journal")->hello->last_mutation, wire::MutationNumber(1));
  EXPECT_TRUE(client({}, "journal")->hello->journal_known);
  const auto another = client({}, "another");
  EXPECT_EQ(another->hello->last_mutation, wire::MutationNumber());
  EXPECT_FALSE(another->hello->journal_known);
}

TEST_F(ServerTest, AMalformedRequestIsAnsweredAndNothingElse) {
  const auto it = client();
  for (const std::string& head : {std::string("{}"), std::string("nonsense"), std::string(R"({"kind":"no_such"})")}) {
    const auto answer = it->ask_raw(head);
    run_until([&] { return answer->done() || it->closed; });
    ASSERT_TRUE(answer->done());
    EXPECT_EQ(answer->error().code, Errc::protocol) << head;
  }
  const auto fine = it->ask(wire::Attach{wire::ObjectId(1), "/"});
  run_until([&] { return fine->done(); });
  EXPECT_TRUE(fine->ok());
}

TEST_F(ServerTest, ClientsAreBounded) {
  std::vector<std::unique_ptr<Client>> all;
  for (std::size_t i = 0; i < kMaxSessions; ++i) {
    all.push_back(client());
    ASSERT_TRUE(all.back()->hello) << i << ": " << all.back()->closed->message();
  }
  const auto refused = client();
  ASSERT_TRUE(refused->closed);
  EXPECT_NE(refused->closed->message().find("256 clients"), std::string::npos) << refused->closed->message();
  all.front()->disconnect();
  // When the agent notices is its affair; then there is room again.
  while (!client()->hello) {
  }
}

TEST_F(ServerTest, ShuttingDownSaysGoodbyeAndEndsAll) {
  const auto it = client();
  const auto spawned = it->ask(shell("p", "sleep 1000"));
  run_until([&] { return spawned->done(); });
  const auto pid = static_cast<pid_t>(spawned->get<wire::Spawn::Reply>().pid);
  bool done = false;
  server_->shut_down(kShutDownGrace, [&] {
    done = true;
    loop_.stop();
  });
  run_until([&] { return done && it->closed; });
  EXPECT_NE(it->closed->message().find("shutting down"), std::string::npos) << it->closed->message();
  EXPECT_EQ(server_->sessions(), 0U);
  EXPECT_FALSE(std::filesystem::exists(socket()));
  EXPECT_EQ(::kill(pid, 0), -1) << "ended and reaped";
}

TEST_F(ServerTest, StdioEndsWithoutARequest) {
  std::array<int, 2> to{}, from{};
  ASSERT_EQ(::pipe2(to.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(from.data(), O_CLOEXEC), 0);
  const base::UniqueFd read_end(from[0]);
  std::optional<Result<void>> over;
  server_->serve_stdio(base::UniqueFd(to[0]), base::UniqueFd(from[1]), [&](Result<void> result) {
    over = std::move(result);
    loop_.stop();
  });
  ::close(to[1]);
  run_until([&] { return over.has_value(); });
  EXPECT_FALSE(over->ok());
}

}  // namespace
}  // namespace sandbar::agent
