// SPDX-License-Identifier: Apache-2.0
#include "vfs/lock_table.h"

#include <gtest/gtest.h>

namespace sandbar::vfs {
namespace {

using Parts = std::vector<LockTable::Ranges::Part>;

constexpr LockTable::Key kKey{NodeId(5), 77, LockKind::posix};
constexpr LockTable::Key kFlock{NodeId(5), 9, LockKind::flock};
constexpr LockSpan kWhole;

class LockTableTest : public testing::Test {
 protected:
  LockTable::RequestId begin(LockSpan span = kWhole, LockType type = LockType::write, std::uint32_t pid = 0,
                             const LockTable::Key& key = kKey, FileId file = FileId(1)) {
    return table.begin(key, file, {type, span, pid});
  }
  void unlock(const LockTable::Key& key, LockSpan span) { table.unlocked(key, span, table.unlocking(key, span)); }

  LockTable table;
};

TEST(LockSpan, Ends) {
  EXPECT_EQ(LockSpan::of(5, 0).end, kLockEnd);
  EXPECT_EQ(LockSpan::of(5, 0).length(), 0U);
  EXPECT_EQ(LockSpan::of(5, 3).end, 8U);
  EXPECT_EQ(LockSpan::of(5, 3).length(), 3U);
  EXPECT_EQ(LockSpan::of(kLockEnd - 1, 1).length(), 0U) << "the last byte there can be";
  EXPECT_EQ(LockSpan::of(5, ~0ULL).end, kLockEnd);
  EXPECT_EQ(LockSpan::of(~0ULL, 2).end, kLockEnd);
}

TEST_F(LockTableTest, HoldsWhatWasTaken) {
  EXPECT_FALSE(table.holds(kKey));
  const auto request = begin();
  EXPECT_TRUE(table.holds(kKey)) << "it may, by now";
  table.granted(request);
  EXPECT_TRUE(table.holds(kKey));
  EXPECT_FALSE(table.holds({NodeId(5), 77, LockKind::flock}));
  EXPECT_FALSE(table.holds({NodeId(5), 78, LockKind::posix}));
  EXPECT_FALSE(table.holds({NodeId(6), 77, LockKind::posix}));
  unlock(kKey, kWhole);
  EXPECT_FALSE(table.holds(kKey));
}

TEST_F(LockTableTest, ARefusedLockLeavesNothing) {
  table.refused(begin());
  EXPECT_FALSE(table.holds(kKey));
}

TEST_F(LockTableTest, ARefusalDoesNotTakeAwayAnothersGrant) {
  const auto first = begin({0, 5});
  const auto second = begin({5, 9});
  table.granted(first);
  table.refused(second);
  EXPECT_TRUE(table.holds(kKey));
}

TEST_F(LockTableTest, UnlockingSparesWhatWasAskedForLater) {
  table.granted(begin());
  const std::uint64_t sent = table.unlocking(kKey, kWhole);
  table.granted(begin());
  table.unlocked(kKey, kWhole, sent);
  EXPECT_TRUE(table.holds(kKey));
}

TEST_F(LockTableTest, UnlockingTheLastRangeLeavesNothing) {
  table.granted(begin({0, 10}));
  table.granted(begin({20, 30}, LockType::read));
  unlock(kKey, {0, 15});
  EXPECT_TRUE(table.holds(kKey));
  unlock(kKey, {15, 100});
  EXPECT_FALSE(table.holds(kKey));
}

TEST_F(LockTableTest, AnAbandonedRequestTellsWhatWasThereBefore) {
  table.granted(begin({0, 10}, LockType::read));
  table.granted(begin({20, 30}, LockType::write));
  EXPECT_EQ(
      table.abandoned(begin({5, 40})),
      (Parts{{5, 10, LockType::read}, {10, 20, std::nullopt}, {20, 30, LockType::write}, {30, 40, std::nullopt}}));
  unlock(kKey, {0, 50});
  EXPECT_TRUE(table.holds(kKey)) << "not settled yet";
  table.settled(kKey);
  unlock(kKey, {0, 50});
  EXPECT_FALSE(table.holds(kKey));
}

TEST_F(LockTableTest, UnlockingAllEndsAnyDoubt) {
  table.abandoned(begin({5, 40}));
  unlock(kKey, kWhole);
  EXPECT_FALSE(table.holds(kKey));
  table.settled(kKey);
  table.granted(begin({5, 6}));
  unlock(kKey, {5, 6});
  EXPECT_FALSE(table.holds(kKey));
}

TEST_F(LockTableTest, WhatIsBeingUnlockedDoesNotComeBack) {
  table.granted(begin({0, 10}));
  const auto waits = begin({0, 20});
  const std::uint64_t sent = table.unlocking(kKey, {0, 5});
  EXPECT_EQ(table.abandoned(waits), (Parts{{0, 5, std::nullopt}, {5, 10, LockType::write}, {10, 20, std::nullopt}}));
  table.unlocked(kKey, {0, 5}, sent);
  EXPECT_TRUE(table.holds(kKey));
}

TEST_F(LockTableTest, OtherRequestsOfTheOwnerKeepTheirOutcome) {
  const auto first = begin({0, 20});
  const auto second = begin({5, 10});
  EXPECT_EQ(table.abandoned(first), (Parts{{0, 5, std::nullopt}, {10, 20, std::nullopt}}));
  EXPECT_TRUE(table.holds(kKey));
  begin({0, 10}, LockType::write, 0, {NodeId(6), 77, LockKind::posix});
  EXPECT_EQ(table.abandoned(second), (Parts{{5, 10, std::nullopt}})) << "another file's do not count";
}

TEST_F(LockTableTest, AFlockIsLostWhileItIsConverted) {
  table.granted(begin(kWhole, LockType::read, 0, kFlock));
  EXPECT_EQ(table.abandoned(begin(kWhole, LockType::write, 0, kFlock)), (Parts{{0, kLockEnd, std::nullopt}}));
}

TEST_F(LockTableTest, NamesTheProcessThatHolds) {
  table.granted(begin({10, 20}, LockType::write, 4711));
  const LockHolder holder{LockType::write, 10, 10, 0};
  EXPECT_EQ(table.process_of(NodeId(5), 78, holder), 4711U);
  EXPECT_EQ(table.process_of(NodeId(5), 77, holder), 0U) << "nobody is in its own way";
  EXPECT_EQ(table.process_of(NodeId(6), 78, holder), 0U);
  EXPECT_EQ(table.process_of(NodeId(5), 78, {LockType::read, 10, 10, 0}), 0U);
  EXPECT_EQ(table.process_of(NodeId(5), 78, {LockType::write, 10, 9, 0}), 0U);
  EXPECT_EQ(table.process_of(NodeId(5), 78, {LockType::write, 9, 11, 0}), 0U);
  table.granted(begin({20, kLockEnd}, LockType::write, 4711));
  EXPECT_EQ(table.process_of(NodeId(5), 78, {LockType::write, 10, 0, 0}), 4711U) << "melted, and to the end";
}

TEST_F(LockTableTest, KnowsWhatWasTakenThroughAFile) {
  const auto first = begin();
  begin(kWhole, LockType::write, 0, kFlock);
  begin(kWhole, LockType::write, 0, kKey, FileId(2));
  EXPECT_EQ(table.through(FileId(1)), (std::vector<LockTable::Key>{kKey, kFlock}));
  table.forget(FileId(1));
  EXPECT_TRUE(table.through(FileId(1)).empty());
  EXPECT_TRUE(table.holds(kKey));
  table.granted(first);
  table.forget(FileId(2));
  EXPECT_FALSE(table.holds(kKey));
  EXPECT_EQ(table.process_of(NodeId(5), 78, {LockType::write, 0, 0, 0}), 0U);
}

}  // namespace
}  // namespace sandbar::vfs
