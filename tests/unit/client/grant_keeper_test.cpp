// SPDX-License-Identifier: Apache-2.0
#include "client/grant_keeper.h"

#include <gtest/gtest.h>

#include <ctime>
#include <deque>
#include <optional>

#include "fakes/fake_loop.h"

namespace sandbar::client {
namespace {

using Reason = GrantWant::Reason;
using std::chrono::seconds;

/// Gives tokens "k1", "k2"...; each is due for renewal at once unless `life` is long.
class FakeSource final : public GrantSource {
 public:
  std::unique_ptr<PendingGrant> get(base::Loop& loop, GrantWant want, base::OneShot<GrantToken> done) override {
    wants.push_back(want);
    loop.post([this, want, done = std::move(done)]() mutable {
      if (failure) return done(*failure);
      GrantToken token;
      token.token = std::string(grant_kind_name(want.kind)) + std::to_string(++count);
      token.fetched_at.seconds = static_cast<std::uint64_t>(std::time(nullptr));
      token.expires_at = wire::Instant{token.fetched_at.seconds + life};
      done(std::move(token));
    });
    return std::make_unique<PendingGrant>();
  }
  std::uint64_t life = 3600;
  int count = 0;
  std::optional<Error> failure;
  std::vector<GrantWant> wants;
};

/// Takes authorize requests.
class FakeAuthorizer final : public RemoteFs {
 public:
  explicit FakeAuthorizer(base::Loop& loop) : loop_(loop) { hello.capabilities = {wire::kCapabilityAuthorize}; }
  CallId submit(wire::RequestContext, wire::RequestBody request, base::Bytes, CallOptions,
                base::OneShot<AnyAnswer> done) override {
    const std::string token = std::get<wire::Authorize>(request).token;
    tokens.push_back(token);
    std::optional<Error> answer;
    if (!refusals.empty()) {
      answer = refusals.front();
      refusals.pop_front();
    }
    loop_.post([answer, done = std::move(done)]() mutable {
      if (answer) return done(*answer);
      done(AnyAnswer{wire::EmptyReply{}, {}, {}});
    });
    return CallId(1);
  }
  void cancel(CallId) override {}
  [[nodiscard]] const wire::Hello& agent() const override { return hello; }

  wire::Hello hello;
  std::vector<std::string> tokens;
  std::deque<Error> refusals;

 private:
  base::Loop& loop_;
};

class KeeperTest : public ::testing::Test {
 protected:
  void start(std::vector<GrantKind> kinds, std::uint64_t first_life = 3600) {
    GrantToken first;
    first.token = "first";
    first.fetched_at.seconds = static_cast<std::uint64_t>(std::time(nullptr));
    first.expires_at = wire::Instant{first.fetched_at.seconds + first_life};
    keeper_.emplace(loop_, remote_, source_, std::move(kinds), std::move(first));
    bool inside = true;
    keeper_->start([this, &inside](Result<void> result) {
      EXPECT_FALSE(inside);
      ready_ = std::move(result);
    });
    inside = false;
    loop_.drain();
  }
  fakes::FakeLoop loop_;
  FakeAuthorizer remote_{loop_};
  std::shared_ptr<FakeSource> source_ = std::make_shared<FakeSource>();
  std::optional<Result<void>> ready_;
  std::optional<GrantKeeper> keeper_;
};

TEST_F(KeeperTest, OneKindNeedsNothing) {
  start({GrantKind::files});
  EXPECT_TRUE(ready_->ok());
  EXPECT_TRUE(source_->wants.empty());
  loop_.advance(seconds(300));
  EXPECT_TRUE(source_->wants.empty()) << "it has an hour";
}

TEST_F(KeeperTest, AttachesFurtherKindsInOrder) {
  start({GrantKind::files, GrantKind::shell, GrantKind::port});
  EXPECT_TRUE(ready_->ok());
  EXPECT_EQ(remote_.tokens, (std::vector<std::string>{"shell1", "port2"}));
  ASSERT_EQ(source_->wants.size(), 2U);
  EXPECT_EQ(source_->wants[0].reason, Reason::first);
  EXPECT_EQ(source_->wants[0].stale, "");
}

TEST_F(KeeperTest, ACachedGrantThatIsRefusedIsReplacedOnce) {
  remote_.refusals = {make_error(Errc::unauthorized, "", "expired")};
  start({GrantKind::files, GrantKind::shell});
  EXPECT_TRUE(ready_->ok());
  EXPECT_EQ(remote_.tokens, (std::vector<std::string>{"shell1", "shell2"}));
  EXPECT_EQ(source_->wants[1].reason, Reason::refused);
  EXPECT_EQ(source_->wants[1].stale, "shell1");
}

TEST_F(KeeperTest, TwoRefusalsAreAnError) {
  remote_.refusals = {make_error(Errc::unauthorized, "", "one"), make_error(Errc::unauthorized, "", "two")};
  start({GrantKind::files, GrantKind::shell});
  ASSERT_FALSE(ready_->ok());
  EXPECT_EQ(ready_->error().detail, "two");
  EXPECT_EQ(remote_.tokens.size(), 2U);
  EXPECT_EQ(loop_.timers(), 0U);
}

TEST_F(KeeperTest, AnAgentWithoutAuthorizeTakesOneKind) {
  remote_.hello.capabilities.clear();
  start({GrantKind::files, GrantKind::shell});
  EXPECT_EQ(ready_->error().code, Errc::unsupported);
  start({GrantKind::files}, 1);
  EXPECT_TRUE(ready_->ok());
  EXPECT_EQ(loop_.timers(), 0U) << "nothing can be renewed";
}

TEST_F(KeeperTest, RenewsBeforeTheEnd) {
  start({GrantKind::files}, 1);  // a margin of 1 s: due at once
  EXPECT_TRUE(ready_->ok());
  ASSERT_EQ(source_->wants.size(), 1U);
  EXPECT_EQ(source_->wants[0].reason, Reason::expired);
  EXPECT_EQ(source_->wants[0].stale, "first");
  EXPECT_EQ(remote_.tokens, std::vector<std::string>{"files1"});
  loop_.advance(seconds(300));
  EXPECT_EQ(source_->wants.size(), 1U) << "the new one has an hour";
}

TEST_F(KeeperTest, GrantsThatAreOverAtOnceDoNotFillTheLoop) {
  source_->life = 1;
  start({GrantKind::files}, 1);
  EXPECT_EQ(source_->wants.size(), 1U);
  loop_.advance(seconds(3));
  EXPECT_EQ(source_->wants.size(), 4U);
  EXPECT_EQ(source_->wants.back().stale, "files3");
}

TEST_F(KeeperTest, ARenewalThatFailsIsTriedAgainMoreAndMoreSeldom) {
  source_->failure = make_error(Errc::disconnected, "run the grant command", "no network");
  start({GrantKind::files}, 1);
  EXPECT_TRUE(ready_->ok()) << "the session stands";
  EXPECT_EQ(source_->wants.size(), 1U);
  for (const int wait : {1, 2, 4, 8, 16, 32, 60, 60}) {
    const std::size_t before = source_->wants.size();
    loop_.advance(seconds(wait) - std::chrono::milliseconds(1));
    EXPECT_EQ(source_->wants.size(), before) << wait;
    loop_.advance(std::chrono::milliseconds(1));
    EXPECT_EQ(source_->wants.size(), before + 1) << wait;
    EXPECT_EQ(source_->wants.back().stale, "first");
  }
  source_->failure.reset();
  loop_.advance(seconds(60));
  EXPECT_EQ(remote_.tokens, std::vector<std::string>{"files1"});
}

TEST_F(KeeperTest, ItsEndEndsAll) {
  source_->life = 1;
  start({GrantKind::files, GrantKind::shell}, 1);
  keeper_.reset();
  EXPECT_EQ(loop_.timers(), 0U);
  const std::size_t asked = source_->wants.size();
  loop_.advance(seconds(300));
  EXPECT_EQ(source_->wants.size(), asked);
}

TEST_F(KeeperTest, ItsEndBeforeItIsReadySaysSo) {
  GrantToken first;
  keeper_.emplace(loop_, remote_, source_, std::vector{GrantKind::files, GrantKind::shell}, first);
  keeper_->start([this](Result<void> result) { ready_ = std::move(result); });
  keeper_.reset();
  EXPECT_EQ(ready_->error().code, Errc::cancelled);
  loop_.drain();
  EXPECT_TRUE(remote_.tokens.empty());
}

}  // namespace
}  // namespace sandbar::client
