// SPDX-License-Identifier: Apache-2.0
// Locks of two owners, of two sessions, and of the sandbox's own processes.
#include <sys/file.h>
#include <sys/wait.h>

#include "unit/agent/files_fixture.h"

namespace sandbar::agent {
namespace {

using wire::LockKind;
using wire::LockType;

/// Another process that holds a lock until it is told to end.
class Holder {
 public:
  template <class Take>
  Holder(const std::string& path, Take take) {
    if (::pipe(ready_) != 0 || ::pipe(end_) != 0) std::abort();
    child_ = ::fork();
    if (child_ == 0) {
      const int fd = ::open(path.c_str(), O_RDWR);
      if (fd < 0 || take(fd) != 0) ::_exit(1);
      char byte = 'r';
      if (::write(ready_[1], &byte, 1) != 1) ::_exit(1);
      ::close(end_[1]);
      if (::read(end_[0], &byte, 1) < 0) ::_exit(1);
      ::_exit(0);
    }
    char byte = 0;
    EXPECT_EQ(1, ::read(ready_[0], &byte, 1));
  }
  ~Holder() { end(); }
  void end() {
    if (child_ <= 0) return;
    ::close(end_[1]);
    int status = 0;
    ::waitpid(child_, &status, 0);
    EXPECT_EQ(0, status);
    for (const int fd : {ready_[0], ready_[1], end_[0]}) ::close(fd);
    child_ = -1;
  }
  [[nodiscard]] pid_t pid() const { return child_; }

 private:
  int ready_[2]{}, end_[2]{};
  pid_t child_ = -1;
};

int fcntl_lock(int fd, short type, off_t start, off_t length) {
  struct ::flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return ::fcntl(fd, F_SETLK, &lock);
}

/// Whether another process could lock the range now.
bool others_can_lock(const std::string& path, off_t start, off_t length) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(path.c_str(), O_RDWR);
    ::_exit(fd >= 0 && fcntl_lock(fd, F_WRLCK, start, length) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

class FilesLockTest : public FilesTest {
 protected:
  void SetUp() override {
    tree.write("file", "0123456789");
    root = service.attach();
    file = service.lookup(root, "file");
    handle = service.open(file, O_RDWR);
    path = tree.path("file");
  }
  static wire::Lock request(wire::HandleId handle, std::uint64_t owner, LockType type, std::uint64_t start = 0,
                            std::uint64_t length = 0, bool wait = false, LockKind kind = LockKind::posix) {
    return {handle, wire::LockOwner(owner), kind, type, wait, start, length};
  }
  int lock(std::uint64_t owner, LockType type, std::uint64_t start = 0, std::uint64_t length = 0) {
    return service.error_of(request(handle, owner, type, start, length));
  }
  std::shared_ptr<Service::Pending> wait_for(std::uint64_t owner, LockType type, std::uint64_t start = 0,
                                             std::uint64_t length = 0, LockKind kind = LockKind::posix) {
    return service.send(request(handle, owner, type, start, length, true, kind));
  }
  /// The owner's earlier requests are done with: one object's are in order.
  void settle(std::uint64_t owner, LockKind kind = LockKind::posix) {
    EXPECT_EQ(0, service.error_of(request(handle, owner, LockType::unlock, 1000, 1, false, kind)));
  }
  /// As F_GETLK of an owner that holds nothing would tell it: "r 0+10", or "-".
  std::string in_the_way(std::uint64_t start, std::uint64_t length, LockType of = LockType::write) {
    const wire::TestLock::Reply found = service.must(wire::TestLock{handle, wire::LockOwner(99), of, start, length});
    if (found.type == LockType::unlock) return "-";
    return (found.type == LockType::read ? "r " : "w ") + std::to_string(found.start) + "+" +
           std::to_string(found.length);
  }
  /// An answer is there, and it is this errno.
  void expect_error(const std::shared_ptr<Service::Pending>& call, int number) {
    const Result<FileAnswer> answer = service.wait(call);
    ASSERT_FALSE(answer);
    EXPECT_EQ(Errc::os, answer.error().code);
    EXPECT_EQ(number, answer.error().os_errno);
  }
  /// It has been tried, and waits.
  void expect_waits(const std::shared_ptr<Service::Pending>& call) {
    for (int i = 0; i < 20; ++i) service.must(wire::GetAttributes{file, {}});
    EXPECT_FALSE(call->answer);
  }
  int flock(std::uint64_t owner, LockType type) {
    return service.error_of(request(handle, owner, type, 0, 0, false, LockKind::flock));
  }

  wire::ObjectId root, file;
  wire::HandleId handle;
  std::string path;
};

// close(2) of a locked file and then a lock by another: on a local disk it is free. Here the two can be on two workers.
TEST_F(FilesLockTest, WhatWasGivenBackBeforeIsFree) {
  for (const LockKind kind : {LockKind::posix, LockKind::flock}) {
    std::vector<std::shared_ptr<Service::Pending>> calls;
    ASSERT_EQ(0, service.error_of(request(handle, 1, LockType::write, 0, 0, false, kind)));
    for (std::uint64_t owner = 1; owner < 400; ++owner) {
      calls.push_back(service.send(request(handle, owner, LockType::unlock, 0, 0, false, kind)));
      calls.push_back(service.send(request(handle, owner + 1, LockType::write, 0, 0, false, kind)));
      EXPECT_TRUE(service.wait(calls.back())) << owner;
    }
    for (const auto& call : calls) EXPECT_TRUE(service.wait(call));
    EXPECT_EQ(EAGAIN, service.error_of(request(handle, 1, LockType::write, 0, 0, false, kind)));
  }
}

TEST_F(FilesLockTest, OwnersExcludeEachOther) {
  EXPECT_EQ(0, lock(1, LockType::write, 0, 10));
  EXPECT_EQ(0, lock(1, LockType::write, 5, 10)) << "an owner is not in its own way";
  EXPECT_EQ(EAGAIN, lock(2, LockType::read, 9, 1));
  EXPECT_EQ(0, lock(2, LockType::read, 15, 1));
  EXPECT_EQ(0, lock(3, LockType::read, 15, 1));
  EXPECT_EQ(EAGAIN, lock(1, LockType::write, 15, 1));
  EXPECT_EQ(0, lock(1, LockType::unlock, 0, 5));
  EXPECT_EQ(0, lock(2, LockType::write, 0, 5));
  EXPECT_EQ(EAGAIN, lock(2, LockType::write, 5, 1));
  EXPECT_EQ(0, lock(1, LockType::read, 5, 10)) << "a downgrade";
  EXPECT_EQ(0, lock(2, LockType::read, 5, 10));
  EXPECT_EQ(EAGAIN, lock(1, LockType::write, 5, 10)) << "no upgrade beside another reader";
  EXPECT_EQ(0, lock(9, LockType::unlock)) << "of an owner without locks";
}

TEST_F(FilesLockTest, TellsWhatIsInTheWay) {
  EXPECT_EQ(0, lock(1, LockType::write, 10, 20));
  wire::TestLock::Reply found = service.must(wire::TestLock{handle, wire::LockOwner(2), LockType::read, 0, 0});
  EXPECT_EQ(LockType::write, found.type);
  EXPECT_EQ(10U, found.start);
  EXPECT_EQ(20U, found.length);
  EXPECT_EQ(0U, found.pid);
  found = service.must(wire::TestLock{handle, wire::LockOwner(1), LockType::write, 0, 0});
  EXPECT_EQ(LockType::unlock, found.type) << "its own";
  found = service.must(wire::TestLock{handle, wire::LockOwner(2), LockType::write, 0, 10});
  EXPECT_EQ(LockType::unlock, found.type);
  EXPECT_EQ(EINVAL, service.error_of(wire::TestLock{handle, wire::LockOwner(2), LockType::unlock, 0, 10}));
}

TEST_F(FilesLockTest, ProcessesOfTheSandboxCount) {
  Holder holder(path, [](int fd) { return fcntl_lock(fd, F_WRLCK, 0, 10); });
  EXPECT_EQ(EAGAIN, lock(1, LockType::read, 0, 1));
  EXPECT_EQ(0, lock(1, LockType::read, 10, 1));
  const wire::TestLock::Reply found = service.must(wire::TestLock{handle, wire::LockOwner(1), LockType::read, 0, 0});
  EXPECT_EQ(LockType::write, found.type);
  EXPECT_EQ(static_cast<std::uint32_t>(holder.pid()), found.pid);
  const auto waits = service.send(request(handle, 1, LockType::write, 0, 10, true));
  service.must(wire::GetAttributes{file, {}});
  EXPECT_FALSE(waits->answer);
  holder.end();
  EXPECT_TRUE(service.wait(waits));
  EXPECT_FALSE(others_can_lock(path, 0, 10));
  EXPECT_TRUE(others_can_lock(path, 20, 10));
  EXPECT_EQ(0, lock(1, LockType::unlock));
  EXPECT_TRUE(others_can_lock(path, 0, 0));
}

TEST_F(FilesLockTest, FlockIsAKindOfItsOwn) {
  EXPECT_EQ(0, flock(1, LockType::write));
  EXPECT_EQ(EAGAIN, flock(2, LockType::read));
  EXPECT_EQ(0, lock(2, LockType::write)) << "the kinds do not see each other";
  EXPECT_EQ(0, flock(1, LockType::read));
  EXPECT_EQ(0, flock(2, LockType::read));
  EXPECT_EQ(0, flock(1, LockType::unlock));
  EXPECT_EQ(0, flock(2, LockType::unlock));
  Holder holder(path, [](int fd) { return ::flock(fd, LOCK_EX | LOCK_NB); });
  EXPECT_EQ(EAGAIN, flock(1, LockType::read));
}

TEST_F(FilesLockTest, WaitersAreServedWhenTheLockIsGivenBack) {
  EXPECT_EQ(0, lock(1, LockType::write));
  std::vector<std::shared_ptr<Service::Pending>> waiting;
  for (std::uint64_t owner = 2; owner < 6; ++owner)
    waiting.push_back(service.send(request(handle, owner, LockType::read, 0, 0, true)));
  EXPECT_EQ(0, lock(1, LockType::unlock));
  for (const auto& call : waiting) EXPECT_TRUE(service.wait(call));
}

TEST_F(FilesLockTest, WaitersCanGiveUp) {
  EXPECT_EQ(0, lock(1, LockType::write));
  const auto waits = service.send(request(handle, 2, LockType::write, 0, 0, true));
  service.must(wire::GetAttributes{file, {}});
  service.core->cancel(waits->id);
  const Result<FileAnswer> answer = service.wait(waits);
  ASSERT_FALSE(answer);
  EXPECT_EQ(Errc::cancelled, answer.error().code);
  EXPECT_EQ(0, lock(1, LockType::unlock));
  // It may have been trying just then: what it got is given back.
  ASSERT_TRUE(service.loop.run_until([&] { return lock(3, LockType::write) == 0; }));
}

// What the owner had there, and of which kind, is its own again; no more and no less.
TEST_F(FilesLockTest, AGrantThatNobodyWantsAnyMoreIsUndone) {
  EXPECT_EQ(0, lock(1, LockType::read, 0, 10));
  EXPECT_EQ(0, lock(1, LockType::write, 20, 10));
  for (int i = 0; i < 20; ++i) {
    const auto waits = wait_for(1, LockType::write, 5, 20);
    service.core->cancel(waits->id);  // while a worker takes it
    EXPECT_EQ(Errc::cancelled, service.wait(waits).error().code);
    settle(1);
    EXPECT_EQ("r 0+10", in_the_way(0, 20));
    EXPECT_EQ("-", in_the_way(0, 20, LockType::read));
    EXPECT_EQ("-", in_the_way(10, 10));
    EXPECT_EQ("w 20+10", in_the_way(10, 100));
  }
  for (int i = 0; i < 20; ++i) {
    const auto waits = wait_for(1, LockType::read, 15, 0);
    service.core->cancel(waits->id);
    EXPECT_EQ(Errc::cancelled, service.wait(waits).error().code);
    settle(1);
    EXPECT_EQ("w 20+10", in_the_way(10, 0, LockType::read));
    EXPECT_EQ("-", in_the_way(30, 0));
  }
  EXPECT_EQ(0, lock(2, LockType::read, 0, 20)) << "not kept from others";
}

TEST_F(FilesLockTest, AnUndoneGrantDoesNotKeepWaitersWaiting) {
  const auto waits = wait_for(1, LockType::write);
  const auto second = wait_for(2, LockType::write);
  service.core->cancel(waits->id);
  EXPECT_TRUE(service.wait(second));
  EXPECT_EQ("w 0+0", in_the_way(5, 1));
  EXPECT_EQ(0, lock(2, LockType::unlock));
  const auto flocks = wait_for(1, LockType::write, 0, 0, LockKind::flock);
  service.core->cancel(flocks->id);
  settle(2, LockKind::flock);
  const auto third = wait_for(2, LockType::write, 0, 0, LockKind::flock);
  EXPECT_TRUE(service.wait(third));
}

TEST_F(FilesLockTest, OneOwnersRequestsAreDoneInTheirOrder) {
  for (int i = 0; i < 50; ++i) {
    std::vector<std::shared_ptr<Service::Pending>> calls;
    for (const LockType type : {LockType::write, LockType::unlock, LockType::read, LockType::write, LockType::read})
      calls.push_back(service.send(request(handle, 1, type, 0, 10)));
    for (const auto& call : calls) EXPECT_TRUE(service.wait(call));
    EXPECT_EQ("r 0+10", in_the_way(0, 0));
  }
}

TEST_F(FilesLockTest, AFlockThatCannotBeConvertedIsLost) {
  EXPECT_EQ(0, flock(1, LockType::read));
  EXPECT_EQ(0, flock(2, LockType::read));
  EXPECT_EQ(EAGAIN, flock(1, LockType::write));
  EXPECT_EQ(0, flock(2, LockType::write)) << "the first has lost its own, as flock(2) says";
  EXPECT_EQ(0, flock(2, LockType::unlock));
  EXPECT_EQ(0, flock(3, LockType::write));
}

TEST_F(FilesLockTest, Deadlocks) {
  EXPECT_EQ(0, lock(1, LockType::write, 0, 1));
  EXPECT_EQ(0, lock(2, LockType::write, 1, 1));
  EXPECT_EQ(0, lock(3, LockType::write, 2, 1));
  const auto first = wait_for(1, LockType::write, 1, 1);
  const auto second = wait_for(2, LockType::write, 2, 1);
  const auto fourth = wait_for(4, LockType::write, 0, 0);
  expect_waits(first);
  expect_error(wait_for(3, LockType::read, 0, 1), EDEADLK);
  EXPECT_EQ(EAGAIN, lock(3, LockType::read, 0, 1)) << "without waiting it is an ordinary refusal";
  EXPECT_EQ(0, lock(3, LockType::unlock, 2, 1));
  EXPECT_TRUE(service.wait(second)) << "who was refused is the only one";
  EXPECT_EQ(0, lock(2, LockType::unlock));
  EXPECT_TRUE(service.wait(first));
  EXPECT_EQ(0, lock(1, LockType::unlock));
  EXPECT_TRUE(service.wait(fourth));
}

TEST_F(FilesLockTest, TwoReadersThatBothWantToWriteDeadlock) {
  EXPECT_EQ(0, lock(1, LockType::read));
  EXPECT_EQ(0, lock(2, LockType::read));
  const auto first = wait_for(1, LockType::write);
  expect_waits(first);
  expect_error(wait_for(2, LockType::write), EDEADLK);
  EXPECT_EQ(0, lock(2, LockType::unlock));
  EXPECT_TRUE(service.wait(first));
}

TEST_F(FilesLockTest, DeadlocksOverTwoFiles) {
  tree.write("other", "x");
  const wire::HandleId other = service.open(service.lookup(root, "other"), O_RDWR);
  EXPECT_EQ(0, lock(1, LockType::write));
  EXPECT_EQ(0, service.error_of(request(other, 2, LockType::write)));
  const auto first = service.send(request(other, 1, LockType::read, 5, 1, true));
  expect_waits(first);
  expect_error(wait_for(2, LockType::write, 0, 1), EDEADLK);
  // A wait that was given up closes no circle.
  service.core->cancel(first->id);
  EXPECT_FALSE(service.wait(first));
  const auto second = wait_for(2, LockType::write, 0, 1);
  expect_waits(second);
  EXPECT_EQ(0, lock(1, LockType::unlock));
  EXPECT_TRUE(service.wait(second));
}

// An owner can have several threads: one waits, another gets what is wanted elsewhere.
TEST_F(FilesLockTest, AGrantCanCloseTheCircle) {
  EXPECT_EQ(0, lock(1, LockType::write, 0, 1));
  EXPECT_EQ(0, lock(3, LockType::write, 1, 1));
  const auto second = wait_for(2, LockType::write, 0, 1);
  const auto third = wait_for(1, LockType::write, 1, 1);
  expect_waits(second);
  expect_waits(third);
  EXPECT_EQ(0, lock(2, LockType::write, 2, 1));
  EXPECT_EQ(0, lock(3, LockType::write, 3, 1)) << "no circle yet";
  const auto fourth = wait_for(3, LockType::write, 2, 1);
  // 3 waits for 2, which waits for 1, which waits for 3.
  expect_error(fourth, EDEADLK);
  EXPECT_EQ(0, lock(2, LockType::unlock, 2, 1));
  // The same by a grant: 3 waits for byte 2 behind a process of the sandbox, and 2 gets it first.
  Holder holder(path, [](int fd) { return fcntl_lock(fd, F_WRLCK, 2, 1); });
  const auto of_two = wait_for(2, LockType::read, 2, 1);
  const auto of_three = wait_for(3, LockType::write, 2, 1);
  expect_waits(of_two);
  expect_waits(of_three);
  holder.end();
  EXPECT_TRUE(service.loop.run_until([&] { return of_two->answer || of_three->answer; }));
  if (of_two->answer) {
    // Either of the three may be the one that finds out.
    EXPECT_TRUE(service.loop.run_until([&] { return second->answer || third->answer || of_three->answer; }));
    const auto& refused = second->answer ? second : third->answer ? third : of_three;
    expect_error(refused, EDEADLK);
  } else {
    EXPECT_TRUE(*of_three->answer) << "byte 2 went to the other, and there is no circle";
  }
}

TEST_F(FilesLockTest, FlocksWaitForEver) {
  tree.write("other", "x");
  const wire::HandleId other = service.open(service.lookup(root, "other"), O_RDWR);
  const auto take = [&](wire::HandleId which, std::uint64_t owner, bool wait) {
    return service.send(request(which, owner, LockType::write, 0, 0, wait, LockKind::flock));
  };
  EXPECT_TRUE(service.wait(take(handle, 1, false)));
  EXPECT_TRUE(service.wait(take(other, 2, false)));
  const auto first = take(other, 1, true);
  const auto second = take(handle, 2, true);
  expect_waits(first);
  expect_waits(second);
  EXPECT_EQ(0, service.error_of(request(other, 2, LockType::unlock, 0, 0, false, LockKind::flock)));
  EXPECT_TRUE(service.wait(first));
}

TEST_F(FilesLockTest, AccessDecidesWhichLocks) {
  const wire::HandleId reader = service.open(file, O_RDONLY);
  const wire::HandleId writer = service.open(file, O_WRONLY);
  EXPECT_EQ(EBADF, service.error_of(request(reader, 1, LockType::write)));
  EXPECT_EQ(EBADF, service.error_of(request(writer, 1, LockType::read)));
  EXPECT_EQ(0, service.error_of(request(reader, 1, LockType::read, 0, 10)));
  EXPECT_EQ(0, service.error_of(request(reader, 1, LockType::read, 20, 10)));
  // The same owner with another open file: it keeps its read locks and is not in its own way.
  EXPECT_EQ(0, service.error_of(request(writer, 1, LockType::write, 5, 10)));
  EXPECT_EQ(EAGAIN, lock(2, LockType::write, 0, 1));
  EXPECT_EQ(0, lock(2, LockType::read, 0, 5));
  EXPECT_EQ(EAGAIN, lock(2, LockType::read, 5, 1));
  EXPECT_EQ(EAGAIN, lock(2, LockType::write, 20, 1));
  EXPECT_EQ(0, service.error_of(request(reader, 3, LockType::read, 100, 1, false, LockKind::flock)));
  EXPECT_EQ(EAGAIN, service.error_of(request(writer, 4, LockType::write, 0, 0, false, LockKind::flock)));
}

// A script that locks itself must still be executable: no descriptor for writing is kept for a reader's lock.
TEST_F(FilesLockTest, ReadersLocksDoNotMakeFilesBusy) {
  tree.write("script", "#!/bin/sh\nexit 0\n");
  ::chmod(tree.path("script").c_str(), 0755);
  const wire::HandleId reader = service.open(service.lookup(root, "script"), O_RDONLY);
  EXPECT_EQ(0, service.error_of(request(reader, 1, LockType::write, 0, 0, false, LockKind::flock)));
  EXPECT_EQ(0, service.error_of(request(reader, 1, LockType::read)));
  const std::string command = tree.path("script");
  EXPECT_EQ(0, std::system(command.c_str()));
}

TEST_F(FilesLockTest, Ranges) {
  EXPECT_EQ(EINVAL, lock(1, LockType::write, ~0ULL));
  EXPECT_EQ(EINVAL, lock(1, LockType::write, 0, ~0ULL));
  EXPECT_EQ(EINVAL, lock(1, LockType::write, ~0ULL >> 1U, ~0ULL >> 1U));
  EXPECT_EQ(0, lock(1, LockType::write, ~0ULL >> 1U, 1)) << "the last byte there can be";
  EXPECT_EQ(EAGAIN, lock(2, LockType::write));
  EXPECT_EQ(0, lock(1, LockType::unlock, ~0ULL >> 1U, 0));
  EXPECT_EQ(0, lock(2, LockType::write));
}

TEST_F(FilesLockTest, RangesAreBounded) {
  for (std::uint64_t i = 0; i < SessionLocks::kMaxRanges - 1; ++i) ASSERT_EQ(0, lock(1, LockType::read, 3 * i, 1));
  EXPECT_EQ(0, lock(1, LockType::read, 1'000'000, 3));
  EXPECT_EQ(ENOLCK, lock(1, LockType::read, 2'000'000, 1));
  EXPECT_EQ(ENOLCK, lock(1, LockType::unlock, 1'000'001, 1)) << "it would make two of one";
  EXPECT_EQ(0, lock(1, LockType::unlock, 1'000'000, 1));
  EXPECT_EQ(0, lock(1, LockType::unlock, 0, 1));
  EXPECT_EQ(0, lock(1, LockType::read, 2'000'000, 1));
  EXPECT_EQ(0, lock(1, LockType::unlock));
  EXPECT_EQ("-", in_the_way(0, 0));
}

TEST_F(FilesLockTest, LocksOutliveTheirHandleAndEndWithTheSession) {
  EXPECT_EQ(0, lock(1, LockType::write));
  EXPECT_EQ(0, flock(1, LockType::write));
  service.must(wire::Close{handle});
  EXPECT_FALSE(others_can_lock(path, 0, 0)) << "the client's kernel says when";
  Service second(tree.root());
  const wire::HandleId other = second.open(second.lookup(second.attach(), "file"), O_RDWR);
  EXPECT_EQ(EAGAIN, second.error_of(request(other, 1, LockType::write))) << "owners are a session's own";
  const auto waits = second.send(request(other, 1, LockType::write, 0, 0, true));
  service.core.reset();
  EXPECT_TRUE(second.wait(waits));
  EXPECT_TRUE(second.wait(second.send(request(other, 7, LockType::write, 0, 0, true, LockKind::flock))));
}

TEST_F(FilesLockTest, LocksOfUnlinkedFiles) {
  service.must(wire::Unlink{root, "file"});
  EXPECT_EQ(0, lock(1, LockType::write));
  EXPECT_EQ(EAGAIN, lock(2, LockType::write));
}

TEST_F(FilesLockTest, NothingIsLeftOfOwnersThatAreDone) {
  auto locks = std::make_shared<SessionLocks>(service.loop, service.root(), service.pool());
  auto open_file = std::make_shared<OpenFile>();
  open_file->fd = std::make_shared<const base::UniqueFd>(::open(path.c_str(), O_RDWR));
  open_file->flags = O_RDWR;
  const Result<Stat> stat = stat_descriptor(open_file->fd->get());
  ASSERT_TRUE(stat);
  open_file->object = service.root().objects().bind(*stat, nullptr, nullptr, "file");
  const auto call = [&](LockType type, std::uint64_t start, std::uint64_t length) {
    std::optional<Result<void>> answer;
    locks->lock(open_file, request(handle, 1, type, start, length),
                [&](Result<void> done) { answer = std::move(done); });
    EXPECT_TRUE(service.loop.run_until([&] { return answer.has_value(); }));
    return answer->ok();
  };
  EXPECT_TRUE(call(LockType::write, 0, 10));
  EXPECT_TRUE(call(LockType::unlock, 0, 5));
  EXPECT_EQ(1U, locks->owners());
  EXPECT_TRUE(call(LockType::unlock, 5, 5));
  EXPECT_EQ(0U, locks->owners());
}

}  // namespace
}  // namespace sandbar::agent
