// SPDX-License-Identifier: Apache-2.0
#include "vfs/lock_table.h"

#include <gtest/gtest.h>

namespace sandbar::vfs {
namespace {

constexpr LockTable::Key kKey{NodeId(5), 77, LockKind::posix};

TEST(LockTable, HoldsWhatWasTaken) {
  LockTable table;
  EXPECT_FALSE(table.holds(kKey));
  EXPECT_TRUE(table.begin(kKey, FileId(1)));
  EXPECT_TRUE(table.holds(kKey));  // it may be, by now
  table.end(kKey, FileId(1), true);
  EXPECT_TRUE(table.holds(kKey));
  EXPECT_FALSE(table.holds({NodeId(5), 77, LockKind::flock}));
  EXPECT_FALSE(table.holds({NodeId(5), 78, LockKind::posix}));
  EXPECT_FALSE(table.holds({NodeId(6), 77, LockKind::posix}));
  table.clear(kKey, table.now());
  EXPECT_FALSE(table.holds(kKey));
}

TEST(LockTable, ARefusedLockLeavesNothing) {
  LockTable table;
  table.begin(kKey, FileId(1));
  table.end(kKey, FileId(1), false);
  EXPECT_FALSE(table.holds(kKey));
}

TEST(LockTable, ARefusalDoesNotTakeAwayAnothersGrant) {
  LockTable table;
  EXPECT_TRUE(table.begin(kKey, FileId(1)));
  EXPECT_FALSE(table.begin(kKey, FileId(1)));
  table.end(kKey, FileId(1), true);
  table.end(kKey, FileId(1), false);
  EXPECT_TRUE(table.holds(kKey));
}

TEST(LockTable, ClearingSparesWhatWasAskedForLater) {
  LockTable table;
  table.begin(kKey, FileId(1));
  table.end(kKey, FileId(1), true);
  const std::uint64_t sent = table.now();
  table.begin(kKey, FileId(1));
  table.end(kKey, FileId(1), true);
  table.clear(kKey, sent);
  EXPECT_TRUE(table.holds(kKey));
}

TEST(LockTable, KnowsWhatWasTakenThroughAFile) {
  LockTable table;
  const LockTable::Key other{NodeId(5), 9, LockKind::flock};
  table.begin(kKey, FileId(1));
  table.begin(other, FileId(1));
  table.begin(kKey, FileId(2));
  EXPECT_EQ(table.through(FileId(1)), (std::vector<LockTable::Key>{kKey, other}));
  table.forget(FileId(1));
  EXPECT_TRUE(table.through(FileId(1)).empty());
  EXPECT_TRUE(table.holds(kKey));
  table.forget(FileId(2));
  EXPECT_FALSE(table.holds(kKey));
}

}  // namespace
}  // namespace sandbar::vfs
