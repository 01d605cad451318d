// SPDX-License-Identifier: Apache-2.0
// A process' output and its end.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "client_fixture.h"
#include "wire/limits.h"

namespace sandbar {
namespace {

TEST_F(ClientTest, WaitReturnsAfterTheLastByteAlsoWhenTheEndCameFirst) {
  std::string out;
  std::string err;
  Process process = spawn({.argv = {"cmd"}, .standard_output = into(out), .standard_error = into(err)});
  const std::string much(3 * wire::kChannelWindow + 1, 'o');
  agent_->run([&] {
    process_.exit(7);
    process_.err.send("error text", true);
    process_.out.send(much, true);
  });
  const auto status = process.wait();
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(status->code, 7);
  EXPECT_EQ(status->signal, 0);
  EXPECT_EQ(out, much);
  EXPECT_EQ(err, "error text");
  EXPECT_TRUE(process.ended());
  EXPECT_EQ(process.wait()->code, 7) << "again";
}

TEST_F(ClientTest, TheSinkIsToldTheEndOnceAndLast) {
  std::vector<std::string> chunks;
  Process process = spawn({.argv = {"cmd"}, .standard_output = [&](const OutputChunk& chunk) {
                             chunks.push_back(chunk.is_end() ? "END" : std::string(chunk.bytes()));
                           }});
  agent_->run([&] {
    process_.out.send("a", true);
    process_.err.send("thrown away", true);
    process_.exit(0);
  });
  ASSERT_TRUE(process.wait().ok());
  EXPECT_EQ(chunks, (std::vector<std::string>{"a", "END"}));
}

TEST_F(ClientTest, ASignalsEndIsTold) {
  Process process = spawn();
  agent_->run([&] {
    end_outputs();
    process_.exit(0, SIGSEGV, true);
  });
  const auto status = process.wait();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->signal, SIGSEGV);
  EXPECT_TRUE(status->core_dumped);
}

TEST_F(ClientTest, ALostConnectionIsNeverAnExitCode) {
  options_.reconnect = false;
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  agent_->run([&] { end_outputs(); });
  agent_->drop_sessions();
  EXPECT_EQ(process.wait().error().code, Errc::unknown);
  EXPECT_NE(process.wait().error().message().find("not known whether the command finished"), std::string::npos);
  EXPECT_EQ(process.write("x").error().code, Errc::unknown);
  EXPECT_EQ(process.signal(SIGTERM).error().code, Errc::disconnected);
  EXPECT_EQ(client().spawn({.argv = {"cmd"}}).error().code, Errc::disconnected);
  EXPECT_EQ(client().files().stat("/").error().code, Errc::disconnected);
  while (client().connected()) std::this_thread::yield();
}

TEST_F(ClientTest, ASpawnWhoseAnswerIsLostMayHaveStarted) {
  process_.answers_spawn = false;
  std::thread dropper([this] {
    process_.asked.wait();
    agent_->drop_sessions();
  });
  const auto process = client().spawn({.argv = {"cmd"}});
  dropper.join();
  ASSERT_FALSE(process.ok());
  EXPECT_EQ(process.error().code, Errc::unknown);
  EXPECT_NE(process.error().message().find("not known whether the command was started"), std::string::npos)
      << process.error().message();
}

class ImpossibleEnd : public ClientTest,
                      public ::testing::WithParamInterface<std::pair<std::uint32_t, std::uint32_t>> {};

TEST_P(ImpossibleEnd, IsNeverAnExitCode) {
  Process process = spawn();
  agent_->run([&] {
    end_outputs();
    process_.exit(GetParam().first, GetParam().second);
  });
  const auto status = process.wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Errc::protocol);
}

INSTANTIATE_TEST_SUITE_P(ClientTest, ImpossibleEnd,
                         ::testing::Values(std::pair{256U, 0U}, std::pair{0xFFFFFF00U, 0U}, std::pair{0U, 65U},
                                           std::pair{0U, 0xFFFFFFFFU}));

TEST_F(ClientTest, OutputThatIsLostIsNeverAnExitCode) {
  Process process = spawn();
  agent_->run([&] {
    process_.out.channel->reset(make_error(Errc::internal, "", "a disk on fire"));
    process_.err.send({}, true);
    process_.exit(0);
  });
  const auto status = process.wait();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("on fire"), std::string::npos);
}

TEST_F(ClientTest, ChunksThatAreHeldStopTheirStreamOnly) {
  std::vector<OutputChunk> held;
  std::atomic<bool> is_holding{true};
  std::size_t bytes = 0;
  Event full;
  Event other;
  Process process = spawn({.argv = {"cmd"},
                           .standard_output =
                               [&](OutputChunk chunk) {
                                 bytes += chunk.bytes().size();
                                 if (is_holding) held.push_back(std::move(chunk));
                                 if (bytes == wire::kChannelWindow) full.set();
                               },
                           .standard_error = [&](const OutputChunk&) { other.set(); }});
  agent_->run([&] { process_.out.send(std::string(2 * wire::kChannelWindow, 'o'), true); });
  full.wait();
  agent_->run([&] {
    EXPECT_EQ(process_.out.channel->budget(), 0U);
    EXPECT_EQ(process_.out.sent, wire::kChannelWindow) << "no more than the window is on its way";
    process_.err.send("goes on", true);
    process_.exit(0);
  });
  other.wait();
  EXPECT_TRUE(process.signal(SIGUSR1).ok()) << "and so do requests";
  EXPECT_EQ(bytes, wire::kChannelWindow);
  is_holding = false;
  held.clear();  // on this thread, not the library's
  ASSERT_TRUE(process.wait().ok());
  EXPECT_EQ(bytes, 2 * wire::kChannelWindow);
}

TEST_F(ClientTest, ClosingAnOutputIsWhatTheProcessSees) {
  std::string out;
  Process process = spawn({.argv = {"cmd"}, .standard_output = into(out)});
  Event reset;
  agent_->run([&] { process_.out.on_received = [&] { reset.set(); }; });
  process.close_output(OutputStream::standard_output);
  reset.wait();
  agent_->run([&] {
    process_.out.on_received = nullptr;
    EXPECT_TRUE(process_.out.reset.has_value());
    process_.err.send({}, true);
    process_.exit(0, SIGPIPE);
  });
  const auto status = process.wait();
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(status->signal, SIGPIPE);
}

TEST_F(ClientTest, CallsThatBlockAreRefusedInASink) {
  std::vector<Errc> codes;
  std::optional<Process> process;
  Event ready;
  auto sink = [&](const OutputChunk& chunk) {
    if (chunk.is_end()) return;
    ready.wait();
    codes.push_back(process->wait().error().code);
    codes.push_back(process->write("x").error().code);
    codes.push_back(process->signal(SIGTERM).error().code);
    codes.push_back(client().files().stat("/").error().code);
    process->close_output(OutputStream::standard_error);  // does not block
  };
  process.emplace(spawn({.argv = {"cmd"}, .standard_output = sink}));
  ready.set();
  agent_->run([&] {
    process_.out.send("x", true);
    process_.exit(0);
  });
  EXPECT_TRUE(process->wait().ok());
  EXPECT_EQ(codes, std::vector<Errc>(4, Errc::invalid));
}

}  // namespace
}  // namespace sandbar
