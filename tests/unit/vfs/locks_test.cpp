// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

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
  /// Of all: owner, r or w, start-end; by start.
  [[nodiscard]] std::string held() const {
    auto all = remote.tree.at("/f")->locks;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    std::string text;
    for (const fakes::FakeLock& each : all)
      text += (text.empty() ? "" : " ") + std::to_string(each.owner) + (each.type == LockType::read ? "r" : "w") +
              std::to_string(each.start) + "-" + std::to_string(each.end);
    return text;
  }
  Pending<LockHolder> start_test(std::uint64_t owner, std::uint64_t from) {
    return start<LockHolder>([&](auto done) {
      return fs->test_lock(file, request(owner, LockType::write, false, from, 0), std::move(done));
    });
  }
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

TEST_F(Locks, UnlockingWhatWasLockedLeavesNothingForCloseEither) {
  lock(file, request(1, LockType::write, false, 5, 5));
  lock(file, request(1, LockType::read, false, 20, 5));
  lock(file, request(1, LockType::unlock, false, 5, 5));
  flush(file, 2);
  remote.take_round_trips();
  EXPECT_EQ(locks(), 1U);
  lock(file, request(1, LockType::unlock, false, 0, 30));
  remote.take_round_trips();
  flush(file, 1);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Locks, AnUnknownOutcomeIsGivenBack) {
  remote.hold = Hold::answers;
  auto pending = start_lock(file, request(1, LockType::write));
  loop.advance(std::chrono::seconds(61));
  EXPECT_TRUE(pending.failed_with(Errc::timeout));
  remote.let_all_go();
  remote.hold = Hold::none;
  EXPECT_EQ(locks(), 0U);
  // An answer that never came leaves a doubt: close asks once more.
  remote.hold = Hold::requests;
  pending = start_lock(file, request(1, LockType::write));
  loop.advance(std::chrono::seconds(200));
  EXPECT_TRUE(pending.failed_with(Errc::timeout));
  remote.hold = Hold::none;
  lock(file, request(1, LockType::write, false, 5, 1));
  lock(file, request(1, LockType::unlock, false, 5, 1));
  remote.take_round_trips();
  flush(file, 1);
  EXPECT_EQ(remote.take_round_trips(), 1U);
  flush(file, 1);
  EXPECT_EQ(remote.take_round_trips(), 0U);
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
  EXPECT_EQ(held(), "1r0-10");
}

// What was there before, and of which kind, comes back; no more and no less.
TEST_F(Locks, AGrantThatCrossesTheInterruptLeavesWhatWasHeldBefore) {
  lock(file, request(1, LockType::read, false, 0, 10));
  lock(file, request(1, LockType::write, false, 20, 10));
  remote.hold = Hold::answers;
  auto pending = start_lock(file, request(1, LockType::write, true, 5, 20));
  loop.drain();
  EXPECT_EQ(held(), "1r0-5 1w5-25 1w25-30") << "granted, and the answer is on its way";
  fs->interrupt(pending.id, false);
  loop.drain();
  EXPECT_TRUE(pending.failed_with(Errc::cancelled));
  remote.hold = Hold::none;
  remote.let_all_go();
  loop.drain();
  EXPECT_EQ(held(), "1r0-5 1r5-10 1w20-25 1w25-30");
  // Nothing is left to wonder about.
  lock(file, request(1, LockType::unlock, false, 0, 40));
  remote.take_round_trips();
  flush(file, 1);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

// Another thread of the owner is asking for a part of it: its outcome is not to be undone.
TEST_F(Locks, GivingBackSparesWhatTheOwnerAsksForElsewhere) {
  lock_there();
  auto waits = start_lock(file, request(1, LockType::write, true, 0, 100));
  auto other = start_lock(file, request(1, LockType::write, true, 10, 10));
  loop.drain();
  remote.asked.clear();
  fs->interrupt(waits.id, false);
  loop.drain();
  EXPECT_TRUE(waits.failed_with(Errc::cancelled));
  EXPECT_EQ(remote.counts["lock"], 4U) << "two locks, and the parts before and behind the second";
  unlock_there();
  lock(file, request(2, LockType::unlock));
  EXPECT_EQ(finish(other).os_errno(), 0);
  EXPECT_EQ(held(), "1w10-20");
}

TEST_F(Locks, AFlockThatWaitedHasNothingToGetBack) {
  lock(file, flock(7, LockType::read));
  remote.hold = Hold::answers;
  auto pending = start_lock(file, request(7, LockType::write, true, 0, 0, LockKind::flock));
  loop.drain();
  fs->interrupt(pending.id, false);
  loop.drain();
  remote.hold = Hold::none;
  remote.let_all_go();
  loop.drain();
  EXPECT_EQ(locks(), 0U) << "flock(2): a conversion that waits has lost the old one";
}

TEST_F(Locks, TheHolderIsNamedWhereItIsOneOfThisMachine) {
  LockRequest mine = request(1, LockType::write, false, 10, 5);
  mine.pid = 4711;
  lock(file, mine);
  const auto test = [&](std::uint64_t owner, std::uint64_t from) {
    auto holder = finish(start_test(owner, from));
    return *holder.result();
  };
  EXPECT_EQ(test(2, 0).pid, 4711U);
  lock(file, request(1, LockType::unlock));
  lock_there();
  EXPECT_EQ(test(2, 0).type, LockType::write);
  EXPECT_EQ(test(2, 0).pid, 0U) << "a process of the sandbox has no number here";
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
