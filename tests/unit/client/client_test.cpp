// SPDX-License-Identifier: Apache-2.0
// Connecting, and the start of a process.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client_fixture.h"
#include "wire/limits.h"

namespace sandbar {
namespace {

using std::chrono::milliseconds;

// --- Connecting ------------------------------------------------------------------------------------------------

TEST_F(ClientTest, ShowsWhatTheAgentSaysOfItself) {
  EXPECT_EQ(client().agent().software, "fake 1");
  EXPECT_EQ(client().agent().root, "/srv");
  EXPECT_EQ(client().target().directory, "/work");
  EXPECT_TRUE(client().connected());
}

TEST_F(ClientTest, SaysThatNobodyAnswersThere) {
  const auto connected = Client::connect(Target::parse("unix:/no/such/socket").value());
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, Errc::disconnected);
  EXPECT_NE(connected.error().message().find("unix:/no/such/socket"), std::string::npos);
}

TEST_F(ClientTest, ARefusedTokenIsInNoMessage) {
  FakeAgent::Script script;
  script.token = "right";
  start(std::move(script));
  for (const char* token : {"", "wrong-secret"}) {
    const auto connected = Client::connect(target(), {.token = token});
    ASSERT_FALSE(connected.ok());
    EXPECT_EQ(connected.error().code, Errc::unauthorized);
    EXPECT_NE(connected.error().message().find("--token-file"), std::string::npos) << connected.error().message();
    EXPECT_EQ(connected.error().message().find("secret"), std::string::npos);
  }
  EXPECT_TRUE(Client::connect(target(), {.token = "right"}).ok());
}

TEST_F(ClientTest, AnAgentWithoutFilesIsOfAnotherVersion) {
  FakeAgent::Script script;
  script.hello.capabilities = {"files.posix.2"};
  start(std::move(script));
  const auto connected = Client::connect(target());
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, Errc::unsupported);
  EXPECT_NE(connected.error().message().find(agent_->target()), std::string::npos);
}

TEST_F(ClientTest, AnAgentThatSaysNothingTimesOut) {
  FakeAgent::Script script;
  script.is_silent = true;
  start(std::move(script));
  const auto connected = Client::connect(target(), {.connect_timeout = milliseconds(100)});
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, Errc::timeout);
}

std::size_t entries_of(const char* folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST_F(ClientTest, AThousandConnectsThatFailLeaveNothing) {
  FakeAgent::Script refusing;
  refusing.token = "right";
  start(std::move(refusing));
  FakeAgent::Script of_another_version;
  of_another_version.hello.capabilities = {};
  FakeAgent other(std::move(of_another_version));
  FakeAgent::Script saying_nothing;
  saying_nothing.is_silent = true;
  FakeAgent silent(std::move(saying_nothing));
  const std::vector<Target> targets = {Target::parse("unix:/no/such").value(), target(),
                                       Target::parse(other.target()).value(), Target::parse("exec:exit 3").value()};
  auto fail_all = [&] {
    for (const Target& each : targets) EXPECT_FALSE(Client::connect(each).ok());
    EXPECT_FALSE(Client::connect(Target::parse(silent.target()).value(), {.connect_timeout = milliseconds(5)}).ok());
  };
  auto settle = [&] {
    while (agent_->sessions() + other.sessions() > 0) std::this_thread::yield();
    silent.drop_sessions();
  };
  for (int i = 0; i < 20; ++i) fail_all();  // the allocator's and the libraries' own caches are filled then
  settle();
  const std::size_t bytes = ::mallinfo2().uordblks;
  const std::size_t descriptors = entries_of("/proc/self/fd");
  const std::size_t threads = entries_of("/proc/self/task");
  for (int i = 0; i < 200; ++i) fail_all();
  settle();
  // The listeners learn of the last ones' end a little later, and a child's end may still be on its way.
  while (entries_of("/proc/self/fd") > descriptors || entries_of("/proc/self/task") > threads)
    std::this_thread::yield();
  // Of 1,000: anything that was kept of each would be more.
  EXPECT_LT(::mallinfo2().uordblks, bytes + 32 * 1024);
}

TEST_F(ClientTest, TheConnectionEndsWithTheLastThatUsesIt) {
  std::optional<Files> files = client().files();
  client_.reset();
  EXPECT_EQ(files->stat("/x").error().code, Errc::internal) << "dropped unanswered, but the connection is there";
  files.reset();
  while (agent_->sessions() > 0) std::this_thread::yield();
}

// --- A process' start ------------------------------------------------------------------------------------------

TEST_F(ClientTest, SpawnAndWaitLeaveTogether) {
  // The script answers the spawn only once the wait is there: else this never returns.
  Process process = spawn({.argv = {"cmd", "a b"}, .environment = {"A=b"}, .directory = "/else"});
  EXPECT_EQ(process.pid(), 77U);
  EXPECT_EQ(process.id().size(), 32U);
  agent_->run([&] {
    EXPECT_EQ(process_.spawn.id, process.id());
    EXPECT_EQ(process_.spawn.argv, (std::vector<base::Bytes>{"cmd", "a b"}));
    EXPECT_EQ(process_.spawn.env, (std::vector<base::Bytes>{"A=b"}));
    EXPECT_EQ(process_.spawn.cwd, "/else");
    EXPECT_FALSE(process_.spawn.stdin_channel);
  });
}

TEST_F(ClientTest, WithoutADirectoryItIsTheTargets) {
  Process process = spawn();
  agent_->run([&] { EXPECT_EQ(process_.spawn.cwd, "/work"); });
}

TEST_F(ClientTest, ACommandThatCannotBeExecutedIsNamed) {
  process_.answers_spawn = false;
  auto refused = std::async(std::launch::async, [&] { return client().spawn({.argv = {"nosuch"}}).error(); });
  process_.asked.wait();
  agent_->run([&] { process_.spawned.fail(os_error(ENOENT, "exec", "nosuch")); });
  const Error error = refused.get();
  EXPECT_EQ(error.code, Errc::os);
  EXPECT_EQ(error.os_errno, ENOENT);
  EXPECT_EQ(error.operation, "exec");
  EXPECT_NE(error.message().find("nosuch"), std::string::npos);
}

TEST_F(ClientTest, OptionsThatCanNeverBeRightReachNoAgent) {
  const std::string zero("a\0b", 3);
  const std::vector<ProcessOptions> bad = {{},
                                           {.argv = {""}},
                                           {.argv = {"c", zero}},
                                           {.argv = {"c"}, .environment = {"A"}},
                                           {.argv = {"c"}, .environment = {"=b"}},
                                           {.argv = {"c"}, .environment = {"A=" + zero}},
                                           {.argv = {"c"}, .directory = zero},
                                           {.argv = {"c"}, .directory = std::string(4096, 'd')}};
  for (const auto& options : bad) EXPECT_EQ(client().spawn(options).error().code, Errc::invalid);
  const ProcessOptions many = {.argv = std::vector<std::string>(wire::kMaxArray + 1, "x")};
  EXPECT_EQ(client().spawn(many).error().code, Errc::limit);
  const ProcessOptions large = {.argv = {"c", std::string(wire::kMaxHead, 'x')}};
  EXPECT_EQ(client().spawn(large).error().code, Errc::limit);
  agent_->run([&] { EXPECT_TRUE(process_.spawn.id.empty()); });
}

}  // namespace
}  // namespace sandbar
