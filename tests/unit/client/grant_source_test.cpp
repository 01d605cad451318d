// SPDX-License-Identifier: Apache-2.0
#include "client/grant_source.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "client/grant_cache.h"
#include "grants_fixture.h"
#include "net/asio_loop.h"

namespace sandbar::client {
namespace {

using Reason = GrantWant::Reason;

Result<GrantToken> get(GrantSource& source, Reason reason = Reason::first, std::string stale = {},
                       GrantKind kind = GrantKind::shell) {
  net::AsioLoop loop;
  std::optional<Result<GrantToken>> got;
  bool inside = true;
  const auto pending = source.get(loop, {kind, 0, reason, std::move(stale)}, [&](Result<GrantToken> token) {
    EXPECT_FALSE(inside);
    got = std::move(token);
    loop.stop();
  });
  inside = false;
  loop.run();
  return *got;
}

std::string in_seconds(int seconds) { return std::to_string(std::time(nullptr) + seconds); }

class GrantSourceTest : public GrantsFolder {
 protected:
  std::shared_ptr<GrantSource> command(const std::string& text, const std::string& target = "ws://box:7070") {
    return make_command_source({.command = text, .target = Target::parse(target).value()});
  }
  /// Prints another token each time, and counts.
  [[nodiscard]] std::string counting(const std::string& expires_at, const std::string& before = "true") const {
    return "echo >> " + path("runs") + "; " + before + R"(; echo "{\"token\":\"t$(wc -l < )" + path("runs") +
           R"()\",\"expires_at\":)" + expires_at + "}\"";
  }
  static void expect_error(const Result<GrantToken>& result, Errc code, const std::string& why) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code);
    EXPECT_NE(result.error().message().find(why), std::string::npos) << result.error().message();
  }
  [[nodiscard]] static std::string lock_file(const std::string& text) {
    return GrantCache::key_of(text, GrantKind::shell, 0, "ws://box:7070") + ".lock";
  }
};

// --- File and environment --------------------------------------------------------------------------------------

TEST_F(GrantSourceTest, AFixedTokenIsGivenAndThereIsNoOther) {
  const auto source = make_fixed_source("token", "");
  EXPECT_EQ(get(*source)->token, "token");
  EXPECT_EQ(get(*source)->expires_at, std::nullopt);
  expect_error(get(*source, Reason::refused, "token"), Errc::unauthorized, "no other");
  EXPECT_EQ(get(*source)->token, "token");
  EXPECT_EQ(get(*make_fixed_source("", ""))->token, "");
}

TEST_F(GrantSourceTest, ARotatedTokenFileIsReadAgain) {
  write("token", "old\n");
  const auto source = make_fixed_source("old", path("token"));
  expect_error(get(*source, Reason::refused, "old"), Errc::unauthorized, "still holds");
  write("token", "new\n");
  EXPECT_EQ(get(*source)->token, "old") << "read only when it is needed";
  EXPECT_EQ(get(*source, Reason::refused, "old")->token, "new");
  EXPECT_EQ(get(*source)->token, "new");
  EXPECT_EQ(get(*source, Reason::expired, "old")->token, "new") << "somebody else's refusal of an older one";
  ::chmod(path("token").c_str(), 0644);
  expect_error(get(*source, Reason::refused, "new"), Errc::invalid, "chmod 600");
}

TEST_F(GrantSourceTest, ATokenFileThatIsAPipeIsNotReadAgain) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(get(*make_fixed_source("token", path("pipe")), Reason::refused, "token"), Errc::unauthorized, "again");
}

// --- Command ---------------------------------------------------------------------------------------------------

TEST_F(GrantSourceTest, ACommandsAnswerIsCached) {
  const std::string text = counting(in_seconds(600));
  const auto first = get(*command(text));
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_EQ(first->token, "t1");
  EXPECT_TRUE(first->expires_at);
  EXPECT_EQ(get(*command(text))->token, "t1") << "another process";
  EXPECT_EQ(lines("runs"), 1U);
  EXPECT_EQ(get(*command(text), Reason::first, {}, GrantKind::files)->token, "t2") << "another kind";
  EXPECT_EQ(get(*command(text, "ws://other:7070"))->token, "t3") << "another target";
}

TEST_F(GrantSourceTest, ARefusedTokenIsReplacedOnce) {
  const auto source = command(counting(in_seconds(600)));
  EXPECT_EQ(get(*source)->token, "t1");
  EXPECT_EQ(get(*source, Reason::refused, "t1")->token, "t2");
  EXPECT_EQ(get(*source, Reason::refused, "t1")->token, "t2") << "who was refused the same one gets the new one";
  EXPECT_EQ(get(*source)->token, "t2");
  EXPECT_EQ(lines("runs"), 2U);
}

TEST_F(GrantSourceTest, ACommandWithoutAnotherTokenIsNoLoop) {
  const auto source = command(R"(echo '{"token":"same","expires_at":)" + in_seconds(600) + "}'");
  EXPECT_EQ(get(*source)->token, "same");
  expect_error(get(*source, Reason::refused, "same"), Errc::unauthorized, "again");
}

TEST_F(GrantSourceTest, ATokenThatSoonEndsIsReplaced) {
  const auto source = command(counting("$(($(date +%s) + 1))"));
  EXPECT_EQ(get(*source)->token, "t1");
  EXPECT_EQ(get(*source)->token, "t2");
}

TEST_F(GrantSourceTest, TheMarginIsAFifthOfTheLife) {
  EXPECT_EQ(renewal_margin({0}, {600}), 60U);
  EXPECT_EQ(renewal_margin({0}, {3600}), 60U);
  EXPECT_EQ(renewal_margin({0}, {100}), 20U);
  EXPECT_EQ(renewal_margin({0}, {2}), 1U);
  EXPECT_EQ(renewal_margin({5}, {4}), 1U);
}

TEST_F(GrantSourceTest, WhatIsStillGoodIsTakenWhenNoOtherComes) {
  // Good for a minute and more, but of a life of an hour: due.
  const std::string text = "test -e " + path("ok") + R"( && echo '{"token":"t","expires_at":)" + in_seconds(600) + "}'";
  const std::string key = GrantCache::key_of(text, GrantKind::shell, 0, "ws://box:7070");
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  const wire::GrantAnswer due{"", "old", {now + 50}, {now - 3600}};
  ASSERT_TRUE(GrantCache::open()->write(key, due).ok());
  EXPECT_EQ(get(*command(text))->token, "old");
  expect_error(get(*command(text), Reason::refused, "old"), Errc::disconnected, "code 1");
  write("ok", "");
  EXPECT_EQ(get(*command(text))->token, "t");
}

TEST_F(GrantSourceTest, RefusesAnswersThatCannotBeUsed) {
  const auto answer = [&](const std::string& json) { return get(*command("echo '" + json + "'")); };
  expect_error(answer(R"({"token":"a b","expires_at":)" + in_seconds(600) + "}"), Errc::disconnected, "characters");
  expect_error(answer(R"({"token":"","expires_at":)" + in_seconds(600) + "}"), Errc::disconnected, "characters");
  expect_error(answer(R"({"token":"t","expires_at":)" + in_seconds(-1) + "}"), Errc::disconnected, "expired already");
  expect_error(answer("{}"), Errc::disconnected, "token");
}

TEST_F(GrantSourceTest, ATokenIsNotShownToAnotherOrigin) {
  const auto answer = [&](const std::string& url, const std::string& target) {
    return get(
        *command(R"(echo '{"url":")" + url + R"(","token":"s3cret","expires_at":)" + in_seconds(600) + "}'", target));
  };
  EXPECT_TRUE(answer("ws://box:7070", "ws://box:7070").ok());
  EXPECT_TRUE(answer("ws://box:7070/path", "ws://box:7070/other:/dir").ok()) << "an origin has no path";
  for (const char* url : {"ws://evil:7070", "ws://box:7071", "ws://box", "nonsense"}) {
    const auto refused = answer(url, "ws://box:7070");
    ASSERT_FALSE(refused.ok()) << url;
    EXPECT_EQ(refused.error().message().find("s3cret"), std::string::npos);
    // Nor on the second try, when the cache has it.
    EXPECT_FALSE(answer(url, "ws://box:7070").ok()) << url;
  }
  EXPECT_TRUE(answer("ws://evil:7070", "unix:/run/agent.sock").ok()) << "a socket of this machine";
  EXPECT_TRUE(answer("ws://evil:7070", "exec:ssh host sandboxd agent --stdio").ok());
}

TEST_F(GrantSourceTest, WithoutAFolderToTrustTheCommandIsRunEachTime) {
  std::filesystem::create_directory(path("elsewhere"));
  std::filesystem::create_directory_symlink(path("elsewhere"), path("sandbar"));
  const auto source = command(counting(in_seconds(600)));
  EXPECT_EQ(get(*source)->token, "t1");
  EXPECT_EQ(get(*source)->token, "t2");
  EXPECT_TRUE(std::filesystem::is_empty(path("elsewhere")));
}

TEST_F(GrantSourceTest, ABrokenCacheFileIsReplaced) {
  const std::string text = counting(in_seconds(600));
  EXPECT_EQ(get(*command(text))->token, "t1");
  write("sandbar/grants/" + GrantCache::key_of(text, GrantKind::shell, 0, "ws://box:7070"), "{\"token\":");
  EXPECT_EQ(get(*command(text))->token, "t2");
  EXPECT_EQ(get(*command(text))->token, "t2");
}

/// Eight processes want the grant while the command runs: it runs once.
TEST_F(GrantSourceTest, ProcessesShareOneRun) {
  ASSERT_EQ(::mkfifo(path("go").c_str(), 0600), 0);
  const std::string text = counting(in_seconds(600), "cat " + path("go"));
  std::array<int, 2> started{};
  ASSERT_EQ(::pipe(started.data()), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      [[maybe_unused]] const auto told = ::write(started[1], "x", 1);
      const auto token = get(*command(text));
      ::_exit(token.ok() && token->token == "t1" ? 0 : 1);
    }
    children.push_back(child);
  }
  char byte = 0;
  for (int i = 0; i < 8; ++i) ASSERT_EQ(::read(started[0], &byte, 1), 1);
  write("go", "");  // opening it waits for the command
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(lines("runs"), 1U);
  ::close(started[0]);
  ::close(started[1]);
}

/// All of `count` threads wait for one run, which then goes on. Returns what they got.
std::vector<Result<GrantToken>> get_together(GrantSource& source, std::size_t count,
                                             const std::function<std::size_t()>& waiting,
                                             const std::function<void()>& go) {
  std::vector<std::optional<Result<GrantToken>>> got(count);
  std::vector<std::thread> threads;
  for (auto& slot : got) threads.emplace_back([&source, &slot] { slot = get(source); });
  while (waiting() < count) std::this_thread::yield();
  go();
  for (std::thread& thread : threads) thread.join();
  std::vector<Result<GrantToken>> all;
  for (auto& slot : got) all.push_back(std::move(*slot));
  return all;
}

TEST_F(GrantSourceTest, ThreadsShareOneRun) {
  ASSERT_EQ(::mkfifo(path("go").c_str(), 0600), 0);
  const std::string text = counting(in_seconds(600), "cat " + path("go"));
  const auto source = command(text);
  const auto all = get_together(
      *source, 8, [&] { return open_descriptors_of(lock_file(text)); }, [&] { write("go", ""); });
  for (const auto& token : all) EXPECT_EQ(token->token, "t1");
  EXPECT_EQ(lines("runs"), 1U);
}

TEST_F(GrantSourceTest, ThreadsShareOneFailure) {
  ASSERT_EQ(::mkfifo(path("go").c_str(), 0600), 0);
  const std::string text = counting(in_seconds(600), "cat " + path("go") + "; echo no luck >&2; exit 1");
  const auto source = command(text);
  const auto all = get_together(
      *source, 8, [&] { return open_descriptors_of(lock_file(text)); }, [&] { write("go", ""); });
  for (const auto& token : all) expect_error(token, Errc::disconnected, "no luck");
  EXPECT_EQ(lines("runs"), 1U);
}

TEST_F(GrantSourceTest, GivingUpReleasesAll) {
  ASSERT_EQ(::mkfifo(path("never").c_str(), 0600), 0);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto descriptors_before = descriptors();
  std::thread([] {}).join();  // with the first one TSan starts a thread of its own
  const auto threads_before = threads();
  {
    const auto source = command("cat " + path("never"));
    net::AsioLoop loop;
    int dropped = 0;
    for (int i = 0; i < 100; ++i) {
      auto pending = source->get(loop, {}, [&](const Result<GrantToken>& token) {
        dropped += !token && token.error().code == Errc::cancelled ? 1 : 0;
      });
      pending.reset();
    }
    EXPECT_EQ(dropped, 100);
  }
  EXPECT_EQ(descriptors(), descriptors_before);
  // A thread that was joined is in /proc a moment longer; one that stays ends in ctest's time limit.
  while (threads() > threads_before) std::this_thread::yield();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

/// The result is on its way to the loop when its owner goes, and the loop after it.
TEST_F(GrantSourceTest, AnAnswerMayComeTooLate) {
  const auto source = make_fixed_source("token", "");
  for (int i = 0; i < 200; ++i) {
    net::AsioLoop loop;
    int told = 0;
    auto pending = source->get(loop, {}, [&](const Result<GrantToken>&) { ++told; });
    if (i % 2 == 0) std::this_thread::yield();
    pending.reset();
    EXPECT_EQ(told, 1) << "dropped";
  }
}

}  // namespace
}  // namespace sandbar::client
