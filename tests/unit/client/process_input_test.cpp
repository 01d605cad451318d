// SPDX-License-Identifier: Apache-2.0
// A process' input, its signals, and letting go of it.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <future>
#include <string>
#include <vector>

#include "client_fixture.h"
#include "wire/limits.h"

namespace sandbar {
namespace {

TEST_F(ClientTest, InputArrivesInOrderAndEnds) {
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const std::string piece = std::string(static_cast<std::size_t>(i) * 997, static_cast<char>('a' + i % 26));
    expected += piece;
    ASSERT_TRUE(process.write(piece).ok());
  }
  ASSERT_TRUE(process.close_input().ok());
  ASSERT_TRUE(process.close_input().ok()) << "again";
  EXPECT_EQ(process.write("late").error().os_errno, EPIPE);
  Event ended;
  agent_->run([&] {
    auto check = [&] {
      if (process_.in.ended) ended.set();
    };
    check();
    process_.in.on_received = check;
  });
  ended.wait();
  agent_->run([&] {
    EXPECT_EQ(process_.in.received, expected);
    process_.in.on_received = nullptr;
  });
}

TEST_F(ClientTest, AWriterWaitsForAProcessThatDoesNotRead) {
  constexpr std::size_t kTotal = 4 * wire::kChannelWindow;
  process_.in.consumes = false;
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  std::atomic<std::size_t> written{0};
  auto writer = std::async(std::launch::async, [&] {
    while (written < kTotal) {
      if (!process.write(std::string(64 * 1024, 'x'))) return false;
      written += 64 * 1024;
    }
    return process.close_input().ok();
  });
  Event full;
  Event ended;
  agent_->run([&] {
    process_.in.on_received = [&] {
      if (process_.in.received.size() == wire::kChannelWindow) full.set();
      if (process_.in.ended) ended.set();
    };
    if (process_.in.received.size() == wire::kChannelWindow) full.set();
  });
  full.wait();
  EXPECT_LT(written, kTotal);
  agent_->run([&] {
    EXPECT_EQ(process_.in.received.size(), wire::kChannelWindow);
    process_.in.consumes = true;
    process_.in.channel->consumed(wire::kChannelWindow);
  });
  EXPECT_TRUE(writer.get());
  ended.wait();
  agent_->run([&] {
    EXPECT_EQ(process_.in.received.size(), kTotal);
    process_.in.on_received = nullptr;
  });
}

TEST_F(ClientTest, AWriterIsReleasedWhenTheProcessEnds) {
  process_.in.consumes = false;
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  auto writer = std::async(std::launch::async, [&] {
    for (;;)
      if (auto written = process.write(std::string(64 * 1024, 'x')); !written) return written.error();
  });
  agent_->run([&] {
    end_outputs();
    process_.exit(0);
  });
  EXPECT_TRUE(process.wait().ok());
  EXPECT_EQ(writer.get().os_errno, EPIPE);
}

TEST_F(ClientTest, InputThatIsResetIsABrokenPipe) {
  Process process = spawn({.argv = {"cmd"}, .has_input = true});
  agent_->run([&] { process_.in.channel->reset(make_error(Errc::cancelled, "stdin", "closed")); });
  Result<void> written;
  while (written.ok()) written = process.write("x");
  EXPECT_EQ(written.error().os_errno, EPIPE);
}

TEST_F(ClientTest, SignalsAreSentByNumber) {
  Process process = spawn();
  EXPECT_TRUE(process.signal(SIGINT).ok());
  EXPECT_TRUE(process.signal(64).ok());
  for (const int number : {0, -1, 65}) EXPECT_EQ(process.signal(number).error().code, Errc::invalid);
  agent_->run([&] { EXPECT_EQ(process_.signals, (std::vector<std::uint32_t>{SIGINT, 64})); });
}

TEST_F(ClientTest, AProcessThatIsLetGoIsHungUpAndItsSinksAreNotCalledAnyMore) {
  {
    std::string out;
    Process process = spawn({.argv = {"cmd"}, .standard_output = into(out)});
  }
  process_.signalled.wait();
  Event reset;
  agent_->run([&] {
    EXPECT_EQ(process_.signals, (std::vector<std::uint32_t>{SIGHUP}));
    if (process_.out.reset) reset.set();
    process_.out.on_received = [&] { reset.set(); };
  });
  reset.wait();
  agent_->run([&] { process_.out.on_received = nullptr; });
}

TEST_F(ClientTest, ASinkMayDropTheProcess) {
  std::optional<Process> process;
  Event ready;
  Event dropped;
  process.emplace(spawn({.argv = {"cmd"}, .standard_output = [&](const OutputChunk&) {
                           ready.wait();
                           process.reset();
                           dropped.set();
                         }}));
  ready.set();
  agent_->run([&] { process_.out.send("x", false); });
  dropped.wait();
  process_.signalled.wait();
}

}  // namespace
}  // namespace sandbar
