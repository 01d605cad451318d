// SPDX-License-Identifier: Apache-2.0
#include "client/grant_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "grants_fixture.h"

namespace sandbar::client {
namespace {

using std::chrono::milliseconds;

class GrantCommandTest : public GrantsFolder {
 protected:
  Result<wire::GrantAnswer> run(const std::string& command, milliseconds limit = milliseconds(30'000)) {
    return run_grant_command({command, GrantKind::shell, 0, "ws://a:1", limit}, cancellation_);
  }
  static void expect_error(const Result<wire::GrantAnswer>& result, Errc code, const std::string& why) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code);
    EXPECT_NE(result.error().message().find(why), std::string::npos) << result.error().message();
  }
  /// The pid that a command wrote, once it has; and that this process is gone, soon.
  void expect_gone(const std::string& file) {
    const pid_t pid = std::stoi(contents(file));
    while (::kill(pid, 0) == 0) {
      // A zombie of somebody who does not reap (a container's first process) is gone, too.
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string text{std::istreambuf_iterator<char>(stat), std::istreambuf_iterator<char>()};
      if (text.find(") Z") != std::string::npos) return;
      std::this_thread::yield();
    }
    EXPECT_EQ(errno, ESRCH);
  }
  Cancellation cancellation_;
};

TEST_F(GrantCommandTest, ReadsWhatItPrints) {
  const auto answer = run(R"(echo '{"url":"ws://a","token":"t","expires_at":5}')");
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  EXPECT_EQ(answer->token, "t");
  EXPECT_EQ(answer->url, "ws://a");
  EXPECT_EQ(answer->expires_at.seconds, 5U);
}

TEST_F(GrantCommandTest, KnowsWhatIsWantedAndNotOurToken) {
  ::setenv("SANDBOX_TOKEN", "s3cret", 1);
  const auto answer =
      run("env > " + path("env") + "; cat > " + path("stdin") + R"(; echo '{"token":"t","expires_at":5}')");
  ::unsetenv("SANDBOX_TOKEN");
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  const std::string environment = contents("env");
  EXPECT_NE(environment.find("SANDBAR_GRANT_KIND=shell\n"), std::string::npos);
  EXPECT_NE(environment.find("SANDBAR_GRANT_TARGET=ws://a:1\n"), std::string::npos);
  EXPECT_EQ(environment.find("SANDBAR_GRANT_PORT"), std::string::npos);
  EXPECT_EQ(environment.find("s3cret"), std::string::npos);
  EXPECT_EQ(contents("stdin"), "");
  const auto port = run_grant_command({"env > " + path("env") + R"(; echo '{"token":"t","expires_at":5}')",
                                       GrantKind::port, 8080, "ws://a", milliseconds(30'000)},
                                      cancellation_);
  ASSERT_TRUE(port.ok());
  EXPECT_NE(contents("env").find("SANDBAR_GRANT_PORT=8080\n"), std::string::npos);
}

TEST_F(GrantCommandTest, TellsWhyItFailed) {
  expect_error(run("echo 'log in first' >&2; exit 3"), Errc::disconnected, "code 3: log in first");
  expect_error(run("no-such-command-here"), Errc::disconnected, "127 (not found)");
  expect_error(run("kill -TERM $$"), Errc::disconnected, "SIGTERM");
  // What it says cannot drive a terminal, and only its end is kept.
  expect_error(run(R"(printf '\033[2Jbad' >&2; exit 1)"), Errc::disconnected, "\\x1b");
  const auto much = run("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1");
  expect_error(much, Errc::disconnected, "the end");
  EXPECT_LT(much.error().message().size(), 2 * kMaxCommandComplaint);
}

TEST_F(GrantCommandTest, ATokenThatItPrintsIsInNoError) {
  for (const char* output : {R"({"token":"s3cret"})", R"({"token":"s3cret","expires_at":"s3cret"})", "s3cret", ""}) {
    const auto answer = run(std::string("echo '") + output + "'");
    expect_error(answer, Errc::disconnected, "expires_at");
    EXPECT_EQ(answer.error().message().find("s3cret"), std::string::npos) << answer.error().message();
  }
  const auto failed = run(R"(echo '{"token":"s3cret","expires_at":5}'; exit 1)");
  expect_error(failed, Errc::disconnected, "code 1");
  EXPECT_EQ(failed.error().message().find("s3cret"), std::string::npos);
}

TEST_F(GrantCommandTest, ItsOutputIsBounded) {
  const std::string answer = R"({"token":"t","expires_at":5})";
  const auto padded = [&](std::size_t size) {
    return run("printf '%s' '" + answer + "'; head -c " + std::to_string(size - answer.size()) +
               " /dev/zero | tr '\\0' ' '");
  };
  EXPECT_TRUE(padded(wire::kMaxGrantAnswer).ok());
  expect_error(padded(wire::kMaxGrantAnswer + 1), Errc::disconnected, "64 KiB");
  expect_error(run("echo $$ > " + path("pid") + "; exec yes"), Errc::disconnected, "64 KiB");
  expect_gone("pid");
}

TEST_F(GrantCommandTest, IsEndedWhenItTakesTooLong) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  // The shell, and a child of it that ignores the polite signals.
  const auto answer =
      run("trap '' TERM HUP; echo waiting >&2; echo $$ > " + path("pid") + "; cat " + path("fifo"), milliseconds(1000));
  expect_error(answer, Errc::timeout, "within 1 s: waiting");
  expect_gone("pid");
}

/// Who writes as fast as we read is not over the clock.
TEST_F(GrantCommandTest, IsEndedWhileItFloodsItsStandardError) {
  expect_error(run("echo $$ > " + path("pid") + "; exec yes >&2", milliseconds(500)), Errc::timeout, "within");
  expect_gone("pid");
}

TEST_F(GrantCommandTest, IsEndedWhenNobodyWantsIt) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(path("started").c_str(), 0600), 0);
  std::thread user([&] {
    EXPECT_EQ(contents("started"), "\n");  // it has begun
    cancellation_.cancel();
  });
  const auto answer = run("echo $$ > " + path("pid") + "; echo > " + path("started") + "; cat " + path("fifo"));
  user.join();
  expect_error(answer, Errc::cancelled, "");
  expect_gone("pid");
}

/// An agent that it starts (ssh-agent, a credential daemon) holds its output open: it ends all the same.
TEST_F(GrantCommandTest, DoesNotWaitForWhatItLeavesBehind) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const auto answer = run(R"(echo '{"token":"t","expires_at":5}'; cat )" + path("fifo") + " &");
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  EXPECT_EQ(answer->token, "t");
}

}  // namespace
}  // namespace sandbar::client
