// SPDX-License-Identifier: Apache-2.0
#include "unit/vfs/mount.h"

namespace sandbar::vfs {
namespace {

using Hold = fakes::FakeRemote::Hold;

class Locks : public Mount {
 protected:
  void SetUp() override {
    remote.tree.put_file("/f", "");
    open();
    node = find("/f").node;
    file = open_id(node, O_RDWR);
    remote.counts.clear();
  }
  static LockRequest request(std::uint64_t owner, LockType type, bool wait = false, std::uint64_t start = 0,
                             std::uint64_t length = 0, LockKind kind = LockKind::posix) {
    return {owner, kind, type, wait, start, length};
  }
  static LockRequest flock(std::uint64_t owner, LockType type) {
    return request(owner, type, false, 0, 0, LockKind::flock);
  }
  [[nodiscard]] std::size_t locks() const { return remote.tree.at("/f")->locks.size(); }
  /// The other side holds the whole file.
  void lock_there() { remote.tree.at("/f")->locks.push_back({999, LockKind::posix, LockType::write, 0, ~0ULL}); }
  void unlock_there() {
    std::erase_if(remote.tree.at("/f")->locks, [](const fakes::FakeLock& lock) { return lock.owner == 999; });
  }

  NodeId node;
  FileId file;
};

TEST_F(Locks, TakeTestAndGiveBack) {
  EXPECT_EQ(lock(file, request(1, LockType::write, false, 10, 5)).os_errno(), 0);
  EXPECT_EQ(lock(file, request(2, LockType::read, false, 14, 1)).os_errno(), EAGAIN);
  auto holder = finish(start<LockHolder>(
      [&](auto done) { return fs->test_lock(file, request(2, LockType::read, false, 0, 0), std::move(done)); }));
  EXPECT_EQ(holder.result()->type, LockType::write);
  EXPECT_EQ(holder.result()->start, 10U);
  EXPECT_EQ(holder.result()->length, 5U);
  EXPECT_EQ(lock(file, request(1, LockType::unlock, false, 10, 5)).os_errno(), 0);
  EXPECT_EQ(lock(file, request(2, LockType::read, false, 14, 1)).os_errno(), 0);
}

TEST_F(Locks, CloseGivesBackWithoutARoundTripWhenThereAreNone) {
  EXPECT_EQ(flush(file, 1).os_errno(), 0);
  EXPECT_EQ(remote.take_round_trips(), 0U);
  lock(file, request(1, LockType::write, false, 5, 5));
  EXPECT_EQ(flush(file, 2).os_errno(), 0);
  EXPECT_EQ(locks(), 1U);
  EXPECT_EQ(remote.take_round_trips(), 1U);
  EXPECT_EQ(flush(file, 1).os_errno(), 0);
  EXPECT_EQ(locks(), 0U);
  EXPECT_EQ(remote.take_round_trips(), 1U);
  EXPECT_EQ(flush(file, 1).os_errno(), 0);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Locks, ClosingAnotherDescriptorOfTheFileGivesBackToo) {
  const FileId other = open_id(node, O_RDONLY);
  lock(file, request(1, LockType::write));
  EXPECT_EQ(flush(other, 1).os_errno(), 0);
  EXPECT_EQ(locks(), 0U);
}

TEST_F(Locks, ARefusedLockCostsNothingAtClose) {
  lock_there();
  EXPECT_EQ(lock(file, request(1, LockType::write)).os_errno(), EAGAIN);
  remote.take_round_trips();
  EXPECT_EQ(flush(file, 1).os_errno(), 0);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Locks, UnlockingAllLeavesNothingForClose) {
  lock(file, request(1, LockType::write, false, 5, 5));
  lock(file, request(1, LockType::unlock));
  remote.take_round_trips();
  flush(file, 1);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Locks, AnUnknownOutcomeIsGivenBackAtClose) {
  remote.hold = Hold::answers;
  auto pending = start_lock(file, request(1, LockType::write));
  loop.advance(std::chrono::seconds(61));
  EXPECT_TRUE(pending.failed_with(Errc::timeout));
  remote.let_all_go();
  remote.hold = Hold::none;
  EXPECT_EQ(locks(), 1U);
  flush(file, 1);
  EXPECT_EQ(locks(), 0U);
}

TEST_F(Locks, ReleaseGivesBackFlocksBeforeItCloses) {
  EXPECT_EQ(lock(file, flock(7, LockType::write)).os_errno(), 0);
  EXPECT_EQ(flush(file, 1).os_errno(), 0);
  EXPECT_EQ(locks(), 1U);
  remote.asked.clear();
  fs->release(file, 7);
  loop.drain();
  EXPECT_EQ(locks(), 0U);
  ASSERT_EQ(remote.asked.size(), 2U);
  EXPECT_EQ(remote.asked[0].first, "lock");
  EXPECT_EQ(remote.asked[1].first, "close");
  forget(node);
  expect_clean();
}

TEST_F(Locks, ReleaseGivesBackOpenFileDescriptionLocks) {
  // F_OFD_SETLK: the owner is the description, which no flush names.
  EXPECT_EQ(lock(file, request(7, LockType::write, false, 1, 1)).os_errno(), 0);
  EXPECT_EQ(flush(file, 1).os_errno(), 0);
  EXPECT_EQ(locks(), 1U);
  release(file);
  EXPECT_EQ(locks(), 0U);
  forget(node);
  expect_clean();
}

TEST_F(Locks, ReleaseWithoutLocksIsTheCloseAlone) {
  fs->release(file, 7);
  loop.drain();
  EXPECT_EQ(remote.take_round_trips(), 1U);
}

TEST_F(Locks, AWaitHasNoTimeLimit) {
  lock_there();
  auto pending = start_lock(file, request(1, LockType::write, true));
  loop.advance(std::chrono::hours(24));
  EXPECT_FALSE(pending.ready());
  unlock_there();
  lock(file, request(2, LockType::unlock));  // lets the fake look again
  EXPECT_EQ(finish(pending).os_errno(), 0);
}

TEST_F(Locks, AWaitEndsByAnyInterrupt) {
  lock_there();
  auto pending = start_lock(file, request(1, LockType::write, true));
  loop.drain();
  fs->interrupt(pending.id, false);
  loop.drain();
  EXPECT_TRUE(pending.failed_with(Errc::cancelled));
  unlock_there();
  lock(file, request(2, LockType::unlock));
  EXPECT_EQ(locks(), 0U);
}

TEST_F(Locks, AGrantThatCrossesTheInterruptIsGivenBack) {
  remote.hold = Hold::answers;
  auto pending = start_lock(file, request(1, LockType::write, true, 3, 4));
  loop.drain();
  EXPECT_EQ(locks(), 1U);  // granted, and the answer is on its way
  fs->interrupt(pending.id, false);
  loop.drain();
  EXPECT_TRUE(pending.failed_with(Errc::cancelled));
  remote.hold = Hold::none;
  remote.let_all_go();
  loop.drain();
  EXPECT_EQ(locks(), 0U);
}

TEST_F(Locks, AnInterruptedWaitDoesNotCostWhatWasHeld) {
  lock(file, request(1, LockType::read, false, 0, 10));
  remote.hold = Hold::requests;
  auto pending = start_lock(file, request(1, LockType::write, true, 0, 10));
  fs->interrupt(pending.id, false);
  loop.drain();
  EXPECT_TRUE(pending.failed_with(Errc::cancelled));
  EXPECT_EQ(locks(), 1U);
  EXPECT_EQ(remote.counts["lock"], 2U);
}

TEST_F(Locks, ADyingCallerStillGivesBack) {
  lock(file, request(1, LockType::write));
  remote.hold = Hold::requests;
  auto pending = start<void>([&](auto done) { return fs->flush(file, 1, std::move(done)); });
  fs->interrupt(pending.id, true);
  loop.drain();
  EXPECT_TRUE(pending.failed_with(Errc::cancelled));
  EXPECT_EQ(locks(), 1U);
  remote.hold = Hold::none;
  remote.let_all_go();
  loop.drain();
  EXPECT_EQ(locks(), 0U);
}

}  // namespace
}  // namespace sandbar::vfs
