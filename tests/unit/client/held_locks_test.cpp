// SPDX-License-Identifier: Apache-2.0
#include "client/held_locks.h"

#include <gtest/gtest.h>

namespace sandbar::client {
namespace {

using wire::HandleId;
using wire::LockKind;
using wire::LockType;

wire::Lock lock(std::uint64_t handle, std::uint64_t owner, LockType type, std::uint64_t start = 0,
                std::uint64_t length = 0, LockKind kind = LockKind::posix) {
  return {HandleId(handle), wire::LockOwner(owner), kind, type, false, start, length};
}

class HeldLocksTest : public testing::Test {
 protected:
  bool spoilt(std::uint64_t handle) const { return locks.is_spoilt(HandleId(handle)); }
  HeldLocks locks;
  int a = 0, b = 0;  // two files
};

TEST_F(HeldLocksTest, OnlyWhoHoldsOneLosesOne) {
  locks.answered(lock(1, 10, LockType::write), &a, true);
  locks.answered(lock(2, 20, LockType::write), &a, false);
  locks.answered(lock(3, 30, LockType::read), &b, true);
  locks.answered(lock(3, 30, LockType::unlock), &b, true);
  locks.lose_all();
  EXPECT_TRUE(spoilt(1));
  EXPECT_FALSE(spoilt(2));
  EXPECT_FALSE(spoilt(3));
  locks.close(HandleId(1));
  EXPECT_FALSE(spoilt(1));
}

TEST_F(HeldLocksTest, AllHandlesByWhichTheOwnerHasLockedTheFile) {
  locks.answered(lock(1, 10, LockType::write, 0, 10), &a, true);
  locks.answered(lock(2, 10, LockType::read, 20, 10), &a, true);
  locks.answered(lock(1, 10, LockType::unlock, 0, 10), &a, true);
  locks.answered(lock(3, 10, LockType::write), &b, true);
  locks.answered(lock(3, 10, LockType::unlock), &b, true);
  locks.lose_all();
  EXPECT_TRUE(spoilt(1)) << "the owner's lock of the file, whichever handle it came by";
  EXPECT_TRUE(spoilt(2));
  EXPECT_FALSE(spoilt(3));
}

TEST_F(HeldLocksTest, RangesCount) {
  // SQLite's way: bytes taken and given back one by one.
  locks.answered(lock(1, 10, LockType::read, 100, 1), &a, true);
  locks.answered(lock(1, 10, LockType::read, 200, 510), &a, true);
  locks.answered(lock(1, 10, LockType::unlock, 100, 1), &a, true);
  locks.answered(lock(1, 10, LockType::unlock, 0, 0), &a, true);
  locks.lose_all();
  EXPECT_FALSE(spoilt(1));
  locks.answered(lock(1, 10, LockType::read, 100, 2), &a, true);
  locks.answered(lock(1, 10, LockType::unlock, 100, 1), &a, true);
  locks.answered(lock(1, 10, LockType::unlock, 101, 1), &a, false);
  locks.lose_all();
  EXPECT_TRUE(spoilt(1)) << "the unlock was refused";
}

TEST_F(HeldLocksTest, AnFlockThatCannotBeConvertedIsGivenBack) {
  locks.answered(lock(1, 10, LockType::read, 0, 0, LockKind::flock), &a, true);
  locks.answered(lock(1, 10, LockType::write, 0, 0, LockKind::flock), &a, false);
  locks.answered(lock(2, 20, LockType::read), &a, true);
  locks.answered(lock(2, 20, LockType::write), &a, false);
  locks.lose_all();
  EXPECT_FALSE(spoilt(1));
  EXPECT_TRUE(spoilt(2)) << "a posix lock stays as it was";
}

TEST_F(HeldLocksTest, HandlesThatAreNotKnownAreTheirOwn) {
  locks.answered(lock(1, 10, LockType::write), nullptr, true);
  locks.answered(lock(2, 10, LockType::write), nullptr, true);
  locks.answered(lock(2, 10, LockType::unlock), nullptr, true);
  locks.lose_all();
  EXPECT_TRUE(spoilt(1));
  EXPECT_FALSE(spoilt(2));
}

TEST_F(HeldLocksTest, AClosedHandleIsForgotten) {
  locks.answered(lock(1, 10, LockType::write), &a, true);
  locks.close(HandleId(1));
  locks.lose_all();
  EXPECT_FALSE(spoilt(1));
}

}  // namespace
}  // namespace sandbar::client
