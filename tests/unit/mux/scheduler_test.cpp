// SPDX-License-Identifier: Apache-2.0
#include "mux/scheduler.h"

#include <gtest/gtest.h>

#include "wire/limits.h"

namespace sandbar::mux {
namespace {

using wire::FrameType;

constexpr std::size_t kFragment = 64 * 1024;

OutFrame message(FrameType type, std::uint64_t id, std::size_t body) {
  return {type, 0, id, "head", std::string(body, 'b')};
}

TEST(Scheduler, SmallGoesAheadOfBulkThatIsUnderWay) {
  Scheduler scheduler;
  scheduler.push_message(message(FrameType::request, 1, 1024 * 1024));
  EXPECT_EQ(scheduler.next(kFragment)->channel, 1U);
  scheduler.push_message(message(FrameType::request, 2, 10));
  const auto small = scheduler.next(kFragment);
  EXPECT_EQ(small->channel, 2U);
  EXPECT_EQ(small->flags, 0);
  const auto bulk = scheduler.next(kFragment);
  EXPECT_EQ(bulk->channel, 1U);
  EXPECT_TRUE(bulk->head.empty()) << "the head goes with the first fragment only";
}

TEST(Scheduler, FragmentsMakeUpTheBodyAndTheLastSaysSo) {
  Scheduler scheduler;
  OutFrame whole = message(FrameType::response, 9, 0);
  for (int i = 0; i < 200'000; ++i) whole.body += static_cast<char>(i % 253);
  const std::string expected = whole.body;
  scheduler.push_message(std::move(whole));
  EXPECT_EQ(scheduler.response_bytes(), expected.size() + 4);
  std::string got;
  for (;;) {
    const auto frame = scheduler.next(kFragment);
    ASSERT_TRUE(frame);
    EXPECT_LE(frame->body.size(), kFragment);
    got += frame->body;
    if ((frame->flags & wire::kMore) == 0) break;
  }
  EXPECT_EQ(got, expected);
  EXPECT_TRUE(scheduler.empty());
  EXPECT_EQ(scheduler.response_bytes(), 0U);
}

TEST(Scheduler, BulkTakesTurns) {
  Scheduler scheduler;
  scheduler.push_message(message(FrameType::request, 1, 3 * kFragment));
  scheduler.push_message(message(FrameType::request, 2, 3 * kFragment));
  scheduler.push_data(5, std::string(3 * kFragment, 'd'));
  std::vector<std::uint64_t> order;
  while (const auto frame = scheduler.next(kFragment)) order.push_back(frame->channel);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 5, 1, 2, 5, 1, 2, 5}));
}

TEST(Scheduler, AFloodOfSmallMessagesDoesNotStarveBulk) {
  Scheduler scheduler;
  scheduler.push_data(5, std::string(kFragment, 'd'));
  std::size_t before = 0;
  for (int i = 0; i < 10'000; ++i) {
    scheduler.push_message(message(FrameType::request, 1000, 1000));
    const auto frame = scheduler.next(kFragment);
    if (frame->channel == 5) break;
    before += frame->head.size() + frame->body.size();
  }
  EXPECT_GE(before, Scheduler::kSmallRun - 2000);
  EXPECT_LE(before, Scheduler::kSmallRun + 2000);
}

TEST(Scheduler, AStreamKeepsItsOrderAndJoinsSmallWrites) {
  Scheduler scheduler;
  scheduler.push_data(7, "a");
  scheduler.push_data(7, "b");
  scheduler.push_data(7, std::string(kFragment, 'c'));
  scheduler.push_end(7);
  EXPECT_EQ(scheduler.waiting(7), kFragment + 2);
  const auto first = scheduler.next(kFragment);
  EXPECT_EQ(first->body, "ab" + std::string(kFragment - 2, 'c'));
  EXPECT_EQ(scheduler.next(kFragment)->body, "cc");
  EXPECT_EQ(scheduler.next(kFragment)->type, FrameType::end);
  EXPECT_FALSE(scheduler.next(kFragment));
  EXPECT_EQ(scheduler.waiting(7), 0U);
}

TEST(Scheduler, ADroppedChannelSaysNothingMore) {
  Scheduler scheduler;
  scheduler.push_data(7, "gone");
  scheduler.push_end(7);
  scheduler.drop_channel(7);
  EXPECT_FALSE(scheduler.next(kFragment));
}

TEST(Scheduler, ControlGoesFirst) {
  Scheduler scheduler;
  scheduler.push_message(message(FrameType::request, 1, 0));
  scheduler.push_control({FrameType::open, 0, 3, {}, {}});
  EXPECT_EQ(scheduler.next(kFragment)->type, FrameType::open);
}

TEST(Scheduler, WithoutBulkOnlyControlAndSmallGoOut) {
  Scheduler scheduler;
  scheduler.push_message(message(FrameType::request, 1, Scheduler::kSmall + 1));
  scheduler.push_data(3, std::string(Scheduler::kSmall + 1, 'd'));
  EXPECT_FALSE(scheduler.next(kFragment, false));
  scheduler.push_message(message(FrameType::response, 2, Scheduler::kSmall - 4));
  scheduler.push_data(5, std::string(Scheduler::kSmall, 'd'));
  scheduler.push_end(5);
  scheduler.push_control({FrameType::open, 0, 7, {}, {}});
  EXPECT_EQ(scheduler.next(kFragment, false)->channel, 7U);
  EXPECT_EQ(scheduler.next(kFragment, false)->channel, 2U);
  EXPECT_EQ(scheduler.next(kFragment, false)->body.size(), Scheduler::kSmall);
  EXPECT_EQ(scheduler.next(kFragment, false)->type, FrameType::end);
  EXPECT_FALSE(scheduler.next(kFragment, false));
  EXPECT_FALSE(scheduler.empty());
  EXPECT_EQ(scheduler.next(kFragment)->channel, 1U);
  EXPECT_EQ(scheduler.next(kFragment)->channel, 3U);
  EXPECT_TRUE(scheduler.empty());
}

TEST(Scheduler, WithoutBulkAStreamThatHasGrownWaits) {
  Scheduler scheduler;
  scheduler.push_data(3, "little");
  scheduler.push_data(3, std::string(kFragment, 'd'));
  EXPECT_FALSE(scheduler.next(kFragment, false)) << "it would take the small ones' reserve";
  EXPECT_EQ(scheduler.waiting(3), kFragment + 6);
  EXPECT_EQ(scheduler.next(kFragment)->body.size(), kFragment);
  EXPECT_EQ(scheduler.next(kFragment, false)->body.size(), 6U);
  EXPECT_TRUE(scheduler.empty());
}

TEST(Scheduler, WithoutBulkThereIsNoTurnOfBulk) {
  Scheduler scheduler;
  scheduler.push_data(5, std::string(kFragment, 'd'));
  for (int i = 0; i < 1000; ++i) {
    scheduler.push_message(message(FrameType::request, 1000, 1000));
    ASSERT_EQ(scheduler.next(kFragment, false)->channel, 1000U);
  }
  scheduler.push_message(message(FrameType::request, 1000, 1000));
  EXPECT_EQ(scheduler.next(kFragment)->channel, 5U) << "its turn comes as soon as it may";
}

TEST(Scheduler, CountsTheBytesThatWait) {
  Scheduler scheduler;
  EXPECT_EQ(scheduler.bytes(), 0U);
  scheduler.push_message(message(FrameType::request, 1, 100'000));
  scheduler.push_message(message(FrameType::response, 2, 10));
  scheduler.push_data(3, std::string(50, 'd'));
  scheduler.push_data(5, std::string(70'000, 'd'));
  scheduler.push_end(5);
  std::size_t waiting = 100'004 + 14 + 50 + 70'000;
  EXPECT_EQ(scheduler.bytes(), waiting);
  EXPECT_EQ(scheduler.response_bytes(), 14U);
  while (const auto frame = scheduler.next(kFragment)) {
    waiting -= frame->head.size() + frame->body.size();
    EXPECT_EQ(scheduler.bytes(), waiting);
    if (frame->channel != 5 || frame->type != FrameType::data) continue;
    waiting -= scheduler.waiting(5);
    scheduler.drop_channel(5);
    EXPECT_EQ(scheduler.bytes(), waiting);
  }
  EXPECT_EQ(scheduler.bytes(), 0U);
}

TEST(FragmentSizer, FollowsTheMeasuredRateWithinItsBounds) {
  base::TimePoint now{std::chrono::hours(1)};
  const auto run = [&](double bytes_per_second) {
    FragmentSizer sizer;
    for (int i = 0; i < 200; ++i) {
      sizer.sent(sizer.fragment(), now, true);
      now += std::chrono::duration_cast<base::Duration>(
          std::chrono::duration<double>(static_cast<double>(sizer.fragment()) / bytes_per_second));
      sizer.writable(now);
    }
    return sizer.fragment();
  };
  EXPECT_EQ(run(10e3), wire::kMinFragment);
  EXPECT_NEAR(static_cast<double>(run(2e6)), 60e3, 6e3) << "30 ms of 2 MB/s";
  EXPECT_EQ(run(1e9), wire::kMaxFragment);
}

}  // namespace
}  // namespace sandbar::mux
