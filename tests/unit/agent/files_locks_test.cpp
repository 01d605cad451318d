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
  int flock(std::uint64_t owner, LockType type) {
    return service.error_of(request(handle, owner, type, 0, 0, false, LockKind::flock));
  }

  wire::ObjectId root, file;
  wire::HandleId handle;
  std::string path;
};

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
  EXPECT_EQ(0, second.error_of(request(other, 7, LockType::write, 0, 0, false, LockKind::flock)));
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
