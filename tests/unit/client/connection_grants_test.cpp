// SPDX-License-Identifier: Apache-2.0
// A connection that gets its tokens from a source, to a real agent on the same loop.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "agent/server.h"
#include "client/connection.h"
#include "grant/token.h"
#include "grants_fixture.h"
#include "net/asio_loop.h"

namespace sandbar::client {
namespace {

using Reason = GrantWant::Reason;

/// Answers with what the test has put in line.
class ScriptedSource final : public GrantSource {
 public:
  std::unique_ptr<PendingGrant> get(base::Loop& loop, GrantWant want, base::OneShot<GrantToken> done) override {
    wants.push_back(std::move(want));
    if (answers.empty()) {
      waiting = std::move(done);
      return std::make_unique<PendingGrant>();
    }
    Result<GrantToken> answer = answers.front();
    answers.erase(answers.begin());
    loop.post([answer = std::move(answer), done = std::move(done)]() mutable { done(std::move(answer)); });
    return std::make_unique<PendingGrant>();
  }
  std::vector<Result<GrantToken>> answers;
  std::vector<GrantWant> wants;
  base::OneShot<GrantToken> waiting;
};

class ConnectionGrants : public GrantsFolder {
 protected:
  ConnectionGrants() {
    std::filesystem::create_directory(path("root"));
    root_ = agent::Root::open(path("root")).value();
    agent::ServerOptions options;
    options.admission.clock = [this] { return now_; };
    EXPECT_TRUE(options.admission.grant_keys.emplace().add_pem(key_.public_pem()).ok());
    server_.emplace(loop_, *root_, state_, std::move(options));
    EXPECT_TRUE(server_->listen("unix:" + path("socket")).ok());
  }

  GrantToken token(grant::Kind kind, const std::string& subject = "me") {
    grant::Grant grant;
    grant.kind = kind;
    grant.subject = subject;
    grant.issued = now_;
    grant.expires = now_ + 600;
    return {*grant::mint(grant, key_), {}, {}};
  }
  void give(Result<GrantToken> answer) { source_->answers.push_back(std::move(answer)); }
  Result<std::unique_ptr<Connection>> connect(std::vector<GrantKind> kinds) {
    ConnectionOptions options;
    options.grants = source_;
    options.kinds = std::move(kinds);
    std::optional<Result<std::unique_ptr<Connection>>> result;
    const auto pending = open_connection(loop_, Target::parse("unix:" + path("socket")).value(), std::move(options),
                                         [&](Result<std::unique_ptr<Connection>> connection) {
                                           result = std::move(connection);
                                           loop_.stop();
                                         });
    while (!result) loop_.run();
    return std::move(*result);
  }
  Result<RemoteFs::AnyAnswer> ask(Connection& connection, wire::RequestBody request) {
    std::optional<Result<RemoteFs::AnyAnswer>> result;
    connection.files().submit({}, std::move(request), {}, {}, [&](Result<RemoteFs::AnyAnswer> answer) {
      result = std::move(answer);
      loop_.stop();
    });
    while (!result) loop_.run();
    return std::move(*result);
  }

  net::AsioLoop loop_;
  grant::PrivateKey key_ = grant::PrivateKey::generate();
  grant::UnixTime now_ = 1'800'000'000;
  std::unique_ptr<agent::Root> root_;
  agent::State state_ = agent::State::temporary();
  std::optional<agent::AgentServer> server_;
  std::shared_ptr<ScriptedSource> source_ = std::make_shared<ScriptedSource>();
};

TEST_F(ConnectionGrants, AsksBeforeItConnects) {
  give(token(grant::Kind::files));
  const auto connection = connect({GrantKind::files});
  ASSERT_TRUE(connection.ok()) << connection.error().message();
  ASSERT_EQ(source_->wants.size(), 1U);
  EXPECT_EQ(source_->wants[0].kind, GrantKind::files);
  EXPECT_EQ(source_->wants[0].reason, Reason::first);
  EXPECT_TRUE(ask(**connection, wire::Attach{wire::ObjectId(1), "/"}).ok());
}

TEST_F(ConnectionGrants, ARefusedTokenIsReplacedOnce) {
  give(GrantToken{"stale", {}, {}});
  give(token(grant::Kind::files));
  EXPECT_TRUE(connect({GrantKind::files}).ok());
  ASSERT_EQ(source_->wants.size(), 2U);
  EXPECT_EQ(source_->wants[1].reason, Reason::refused);
  EXPECT_EQ(source_->wants[1].stale, "stale");
}

TEST_F(ConnectionGrants, TwoRefusalsAreTheEnd) {
  give(GrantToken{"stale-token", {}, {}});
  give(GrantToken{"wrong-token", {}, {}});
  const auto connection = connect({GrantKind::files});
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.error().code, Errc::unauthorized);
  EXPECT_EQ(connection.error().message().find("-token"), std::string::npos) << connection.error().message();
  EXPECT_EQ(source_->wants.size(), 2U);
}

TEST_F(ConnectionGrants, WithoutAnotherTokenTheRefusalIsTheReason) {
  give(GrantToken{"stale", {}, {}});
  give(make_error(Errc::unauthorized, "", "there is no other"));
  const auto connection = connect({GrantKind::files});
  ASSERT_FALSE(connection.ok());
  EXPECT_NE(connection.error().message().find("HTTP 401"), std::string::npos) << connection.error().message();
}

TEST_F(ConnectionGrants, ASourceThatFailsIsTheReason) {
  give(make_error(Errc::disconnected, "run the grant command", "code 7: log in first"));
  const auto connection = connect({GrantKind::files});
  ASSERT_FALSE(connection.ok());
  EXPECT_NE(connection.error().message().find("log in first"), std::string::npos);
  EXPECT_EQ(server_->sessions(), 0U);
}

TEST_F(ConnectionGrants, AttachesFurtherKinds) {
  give(token(grant::Kind::shell));
  give(token(grant::Kind::files));
  const auto connection = connect({GrantKind::shell, GrantKind::files});
  ASSERT_TRUE(connection.ok()) << connection.error().message();
  EXPECT_TRUE(ask(**connection, wire::Attach{wire::ObjectId(1), "/"}).ok());
  const auto wait = ask(**connection, wire::WaitProcess{"none"});
  EXPECT_EQ(wait.error().code, Errc::invalid) << "allowed, and unknown";
}

TEST_F(ConnectionGrants, AFurtherKindThatIsRefusedFailsTheConnect) {
  give(token(grant::Kind::shell));
  give(token(grant::Kind::files, "you"));
  give(token(grant::Kind::files, "they"));
  const auto connection = connect({GrantKind::shell, GrantKind::files});
  ASSERT_FALSE(connection.ok());
  EXPECT_NE(connection.error().message().find("another subject"), std::string::npos) << connection.error().message();
  EXPECT_EQ(source_->wants.size(), 3U);
}

TEST_F(ConnectionGrants, GivingUpWhileItWaitsForAGrant) {
  ConnectionOptions options;
  options.grants = source_;
  int told = 0;
  auto pending = open_connection(loop_, Target::parse("unix:" + path("socket")).value(), std::move(options),
                                 [&](const Result<std::unique_ptr<Connection>>& connection) {
                                   EXPECT_EQ(connection.error().code, Errc::cancelled);
                                   ++told;
                                 });
  ASSERT_TRUE(source_->waiting);
  pending.reset();
  EXPECT_EQ(told, 1);
  source_->waiting(token(grant::Kind::files));  // too late: nobody is there
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace sandbar::client
