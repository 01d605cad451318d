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

#include "grant/token.h"
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
  EXPECT_EQ(it->hello->capabilities, (std::vector<std::string>{wire::kCapabilityFilesPosix, wire::kCapabilityProcess,
                                                               wire::kCapabilityAuthorize}));
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

/// Grants by an agent whose clock the test sets.
class GrantServerTest : public ServerTest {
 protected:
  GrantServerTest() {
    AdmissionOptions admission;
    admission.clock = [this] { return now_; };
    EXPECT_TRUE(admission.grant_keys.emplace().add_pem(key_.public_pem()).ok());
    start(std::move(admission));
  }
  std::string token(grant::Kind kind, const std::string& subject = "me") {
    grant::Grant grant;
    grant.kind = kind;
    grant.subject = subject;
    grant.issued = now_;
    grant.expires = now_ + 600;
    return *grant::mint(grant, key_);
  }
  std::shared_ptr<Client::Answer> answer(Client& client, wire::RequestBody request) {
    auto answer = client.ask(std::move(request));
    run_until([&] { return answer->done(); });
    return answer;
  }
  void expect_refused(const Client::Answer& answer, const std::string& why) {
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, Errc::unauthorized);
    EXPECT_NE(answer.error().message().find(why), std::string::npos) << answer.error().message();
  }

  grant::PrivateKey key_ = grant::PrivateKey::generate();
  grant::UnixTime now_ = 1'800'000'000;
};

TEST_F(GrantServerTest, AGrantLetsInForItsKindOnly) {
  for (const std::string& wrong : {std::string(), std::string("x"), token(grant::Kind::files) + "x"})
    EXPECT_EQ(client(wrong)->closed->code, Errc::unauthorized);
  const auto it = client(token(grant::Kind::files));
  ASSERT_TRUE(it->hello);
  EXPECT_TRUE(answer(*it, wire::Attach{wire::ObjectId(1), "/"})->ok());
  Stream out(loop_, it->session());
  auto request = shell("p", "true");
  request.stdout_channel = out.channel->id();
  out.listen();
  expect_refused(*answer(*it, request), "allow files only; a shell grant is needed");
  run_until([&] { return out.reset.has_value(); });
  EXPECT_EQ(out.reset->code, Errc::unauthorized);
  expect_refused(*answer(*it, wire::WaitProcess{"p"}), "shell");
  const auto other = client(token(grant::Kind::shell));
  ASSERT_TRUE(other->hello);
  expect_refused(*answer(*other, wire::Attach{wire::ObjectId(1), "/"}), "allow shell only; a files grant is needed");
}

TEST_F(GrantServerTest, AuthorizeAddsAKind) {
  const auto it = client(token(grant::Kind::files));
  expect_refused(*answer(*it, wire::Authorize{token(grant::Kind::shell, "you")}), "another subject");
  expect_refused(*answer(*it, wire::Authorize{"nonsense"}), "wrong");
  expect_refused(*answer(*it, shell("p", "exit 3")), "shell grant is needed");
  // In order: what follows it, unanswered, has the grant.
  const auto added = it->ask(wire::Authorize{token(grant::Kind::shell)});
  const auto spawned = it->ask(shell("p", "exit 3"));
  const auto waited = it->ask(wire::WaitProcess{"p"});
  run_until([&] { return waited->done(); });
  EXPECT_TRUE(added->ok());
  EXPECT_TRUE(spawned->ok());
  EXPECT_EQ(waited->get<wire::WaitProcess::Reply>().code, 3U);
}

TEST_F(GrantServerTest, AnExpiredGrantEndsNothingThatIsUnderWay) {
  const auto it = client(token(grant::Kind::shell));
  Stream in(loop_, it->session());
  auto request = shell("p", "read line; exit 5");
  request.stdin_channel = in.channel->id();
  ASSERT_TRUE(answer(*it, request)->ok());
  const auto waited = it->ask(wire::WaitProcess{"p"});
  // One more round trip, so that the wait was read before the clock moves.
  expect_refused(*answer(*it, wire::StatFs{}), "files");
  now_ += 600 + grant::kClockLeeway;
  expect_refused(*answer(*it, shell("q", "true")), "shell grant has expired");
  EXPECT_FALSE(waited->done());
  in.channel->write("go\n");
  run_until([&] { return waited->done(); });
  EXPECT_EQ(waited->get<wire::WaitProcess::Reply>().code, 5U);
  ASSERT_TRUE(answer(*it, wire::Authorize{token(grant::Kind::shell)})->ok());
  EXPECT_TRUE(answer(*it, shell("q", "true"))->ok());
}

TEST_F(GrantServerTest, KeysAreExchangedForNewClients) {
  const auto old = client(token(grant::Kind::files));
  const grant::PrivateKey next = grant::PrivateKey::generate();
  grant::KeyRing keys;
  ASSERT_TRUE(keys.add_pem(next.public_pem()).ok());
  server_->set_grant_keys(std::move(keys));
  EXPECT_TRUE(client(token(grant::Kind::files))->closed);
  EXPECT_TRUE(answer(*old, wire::Attach{wire::ObjectId(1), "/"})->ok()) << "who is in stays in";
  key_ = next;
  EXPECT_TRUE(client(token(grant::Kind::files))->hello);
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
