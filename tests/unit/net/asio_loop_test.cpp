// SPDX-License-Identifier: Apache-2.0
#include "net/asio_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/one_shot.h"
#include "base/unique_fd.h"

namespace sandbar::net {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  base::UniqueFd read, write;
};

TEST(AsioLoop, RunsTasksInOrderAndNeverInsidePost) {
  AsioLoop loop;
  std::string order;
  loop.post([&] {
    order += 'a';
    loop.post([&] { order += 'c'; });
    order += 'b';
  });
  loop.post([&] { order += 'B'; });
  loop.post([&] { loop.post([&] { loop.post([&] { loop.stop(); }); }); });
  EXPECT_EQ(order, "");
  loop.run();
  EXPECT_EQ(order, "abBc");
}

TEST(AsioLoop, TakesTasksOfOtherThreads) {
  AsioLoop loop;
  int ran = 0;
  std::array<std::thread, 4> threads;
  for (auto& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < 1000; ++i)
        loop.post([&] {
          EXPECT_TRUE(loop.is_current());
          if (++ran == 4000) loop.stop();
        });
    });
  }
  loop.run();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ran, 4000);
}

TEST(AsioLoop, IsCurrentOnItsThreadAndWhileNobodyRunsIt) {
  AsioLoop loop;
  EXPECT_TRUE(loop.is_current());
  bool elsewhere = true;
  loop.post([&] {
    EXPECT_TRUE(loop.is_current());
    std::thread([&] { elsewhere = loop.is_current(); }).join();
    loop.stop();
  });
  loop.run();
  EXPECT_FALSE(elsewhere);
  EXPECT_TRUE(loop.is_current());
}

TEST(AsioLoop, TimersRunInTheirOrder) {
  AsioLoop loop;
  std::string order;
  loop.schedule(20ms, [&] {
    order += 'c';
    loop.stop();
  });
  loop.schedule(-1s, [&] { order += 'a'; });
  loop.schedule(10ms, [&] { order += 'b'; });
  loop.schedule(base::Duration::max(), [&] { order += 'x'; });
  EXPECT_EQ(order, "");
  loop.run();
  EXPECT_EQ(order, "abc");
}

TEST(AsioLoop, ACancelledTimerDoesNotRunEvenWhenDue) {
  AsioLoop loop;
  bool ran = false;
  base::TimerId second;
  loop.schedule(0ms, [&] { loop.cancel(second); });
  second = loop.schedule(0ms, [&] { ran = true; });
  const base::TimerId last = loop.schedule(5ms, [&] { loop.stop(); });
  loop.run();
  EXPECT_FALSE(ran);
  loop.cancel(last);  // past
  loop.cancel(base::TimerId(12345));
}

TEST(AsioLoop, WatchesAreLevelTriggered) {
  AsioLoop loop;
  const Pipe pipe;
  int calls = 0;
  ASSERT_EQ(::write(pipe.write.get(), "xyz", 3), 3);
  base::WatchId watch = loop.watch(pipe.read.get(), base::Readiness::readable, [&] {
    char byte = 0;
    EXPECT_EQ(::read(pipe.read.get(), &byte, 1), 1);
    if (++calls == 3) {
      loop.unwatch(watch);
      loop.stop();
    }
  });
  loop.run();
  EXPECT_EQ(calls, 3);
}

TEST(AsioLoop, BothDirectionsOfOneDescriptor) {
  AsioLoop loop;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const base::UniqueFd read(ends[0]);
  const base::UniqueFd write(ends[1]);
  // A pipe opened for both: readable and writable at once.
  const base::UniqueFd both(::open(("/proc/self/fd/" + std::to_string(ends[0])).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(both);
  std::string seen;
  base::WatchId reading, writing;
  writing = loop.watch(both.get(), base::Readiness::writable, [&] {
    seen += 'w';
    EXPECT_EQ(::write(both.get(), "x", 1), 1);
    loop.unwatch(writing);
  });
  reading = loop.watch(both.get(), base::Readiness::readable, [&] {
    seen += 'r';
    loop.unwatch(reading);
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(seen, "wr");
}

TEST(AsioLoop, UnwatchedInsideTheCallbackOfAnother) {
  AsioLoop loop;
  const Pipe one, two;
  ASSERT_EQ(::write(one.write.get(), "x", 1), 1);
  ASSERT_EQ(::write(two.write.get(), "x", 1), 1);
  int calls = 0;
  base::WatchId first, second;
  const auto once = [&] {
    ++calls;
    loop.unwatch(first);
    loop.unwatch(second);
    loop.schedule(1ms, [&] { loop.stop(); });
  };
  first = loop.watch(one.read.get(), base::Readiness::readable, once);
  second = loop.watch(two.read.get(), base::Readiness::readable, once);
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST(AsioLoop, ARegularFileIsAlwaysReady) {
  AsioLoop loop;
  const base::UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file);
  int calls = 0;
  int timers = 0;
  base::WatchId watch = loop.watch(file.get(), base::Readiness::readable, [&] {
    // Others get their turn too.
    if (++calls == 1) loop.schedule(0ms, [&] { ++timers; });
    if (timers == 0) return;
    loop.unwatch(watch);
    loop.stop();
  });
  loop.run();
  EXPECT_GT(calls, 1);
}

TEST(AsioLoop, DoesNotChangeWhatItWatches) {
  AsioLoop loop;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const base::UniqueFd read(ends[0]);
  const base::UniqueFd write(ends[1]);
  const int before = ::fcntl(read.get(), F_GETFL);
  loop.unwatch(loop.watch(read.get(), base::Readiness::readable, [] {}));
  const base::WatchId watch = loop.watch(read.get(), base::Readiness::readable, [&] { loop.stop(); });
  ASSERT_EQ(::write(write.get(), "x", 1), 1);
  loop.run();
  loop.unwatch(watch);
  EXPECT_EQ(::fcntl(read.get(), F_GETFL), before);
}

TEST(AsioLoop, AnExceptionLeavesRunAndTheRestRunsAfterwards) {
  AsioLoop loop;
  std::string seen;
  loop.post([] { throw std::runtime_error("a bug"); });
  loop.post([&] { seen += 'p'; });
  loop.schedule(0ms, [] { throw std::logic_error("another"); });
  loop.schedule(1ms, [&] {
    seen += 't';
    loop.stop();
  });
  int thrown = 0;
  for (bool over = false; !over;) {
    try {
      loop.run();
      over = true;
    } catch (const std::exception&) {
      EXPECT_TRUE(loop.is_current());
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 2);
  EXPECT_EQ(seen, "pt");
}

TEST(AsioLoop, StopBeforeRunAndRunAgain) {
  AsioLoop loop;
  int ran = 0;
  loop.stop();
  loop.post([&] { ++ran; });
  loop.run();
  EXPECT_EQ(ran, 0);
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(ran, 1);
}

TEST(AsioLoop, WhatIsLeftIsDestroyedAndMayStillCallTheLoop) {
  int told = 0;
  {
    AsioLoop loop;
    const auto left = [&] {
      return base::OneShot<int>([&](Result<int> result) {
        EXPECT_FALSE(result.ok());
        ++told;
        loop.post([] { FAIL() << "ran in a destructor"; });
        loop.schedule(0ms, [] { FAIL() << "ran in a destructor"; });
      });
    };
    loop.post([done = left()]() mutable { done(1); });
    loop.schedule(0ms, [done = left()]() mutable { done(1); });
    const Pipe pipe;
    loop.watch(pipe.read.get(), base::Readiness::readable, [done = left()]() mutable { done(1); });
  }
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace sandbar::net
