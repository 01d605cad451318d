// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "mounted.h"

namespace sandbar::fuse {
namespace {

using fakes::FakeKernel;

/// A child that waits until it is killed; its number stands for the caller of a request.
class Caller {
 public:
  Caller() : child_(::fork()) {
    if (child_ != 0) return;
    for (;;) ::pause();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() { kill(); }
  [[nodiscard]] std::uint32_t thread() const { return static_cast<std::uint32_t>(child_); }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  pid_t child_;
};

fuse_init_out init_reply(const FakeKernel& kernel, std::uint64_t request) {
  return kernel.payload<fuse_init_out>(request);
}

TEST_F(Mounted, TellsTheKernelWhatItCan) {
  mount();
  ASSERT_NE(nullptr, kernel_.reply(init_));
  const auto out = init_reply(kernel_, init_);
  EXPECT_EQ(1024U * 1024U, out.max_write);
  EXPECT_EQ(256U, out.max_pages);
  EXPECT_EQ(512U, out.max_background);
  EXPECT_EQ(384U, out.congestion_threshold);
  EXPECT_EQ(128U * 1024U, out.max_readahead);
  for (const std::uint32_t on : {FUSE_ASYNC_READ, FUSE_ATOMIC_O_TRUNC, FUSE_PARALLEL_DIROPS, FUSE_DO_READDIRPLUS,
                                 FUSE_READDIRPLUS_AUTO, FUSE_POSIX_LOCKS, FUSE_FLOCK_LOCKS, FUSE_AUTO_INVAL_DATA})
    EXPECT_EQ(on, out.flags & on);
  for (const std::uint32_t off : {FUSE_WRITEBACK_CACHE, FUSE_CACHE_SYMLINKS, FUSE_EXPORT_SUPPORT, FUSE_DONT_MASK,
                                  FUSE_POSIX_ACL, FUSE_EXPLICIT_INVAL_DATA})
    EXPECT_EQ(0U, out.flags & off);
}

TEST_F(Mounted, AsksForNothingThatAnOldKernelDoesNotHave) {
  attach();
  const auto request = kernel_.send_init(0, 31);
  turn();
  ASSERT_NE(nullptr, kernel_.reply(request));
  EXPECT_EQ(0, kernel_.reply(request)->error);
  EXPECT_EQ(static_cast<std::uint32_t>(FUSE_BIG_WRITES), init_reply(kernel_, request).flags & ~FUSE_INIT_EXT);
  EXPECT_EQ(1, ready_);
}

TEST_F(Mounted, TakesMaxRead) {
  mount({.max_read = 65536});
  EXPECT_EQ(0, kernel_.reply(init_)->error);
}

TEST_F(Mounted, RefusesRequestsBeforeInit) {
  attach();
  const auto request = kernel_.send(FUSE_LOOKUP, 1, FakeKernel::name("a"));
  turn();
  EXPECT_TRUE(files_.calls.empty());
  ASSERT_NE(nullptr, kernel_.reply(request));
  EXPECT_EQ(-EIO, kernel_.reply(request)->error);
  EXPECT_EQ(0, ready_);
}

TEST_F(Mounted, ReadsABoundedNumberOfRequestsATurn) {
  mount();
  for (int i = 0; i < 100; ++i) kernel_.send(FUSE_STATFS, 1);
  EXPECT_TRUE(session_->turn());
  EXPECT_EQ(32U, files_.calls.size());
  turn();
  EXPECT_EQ(100U, files_.calls.size());
}

TEST_F(Mounted, ForgetsAreHandedOnAndNeverAnswered) {
  mount();
  const auto one = kernel_.send(FUSE_FORGET, 3, FakeKernel::bytes(fuse_forget_in{2}));
  const auto many =
      kernel_.send(FUSE_BATCH_FORGET, 0,
                   FakeKernel::bytes(fuse_batch_forget_in{2, 0}) + FakeKernel::bytes(fuse_forget_one{4, 1}) +
                       FakeKernel::bytes(fuse_forget_one{5, 7}));
  turn();
  const std::vector<std::pair<vfs::NodeId, std::uint64_t>> expected{
      {vfs::NodeId(3), 2}, {vfs::NodeId(4), 1}, {vfs::NodeId(5), 7}};
  EXPECT_EQ(expected, files_.forgotten);
  EXPECT_EQ(nullptr, kernel_.reply(one));
  EXPECT_EQ(nullptr, kernel_.reply(many));
}

TEST_F(Mounted, ReleasesAreAnsweredAtOnce) {
  mount();
  fuse_release_in plain{};
  plain.fh = 77;
  fuse_release_in locked{};
  locked.fh = 78;
  locked.release_flags = FUSE_RELEASE_FLOCK_UNLOCK;
  locked.lock_owner = 9;
  const auto first = kernel_.send(FUSE_RELEASE, 3, FakeKernel::bytes(plain));
  const auto second = kernel_.send(FUSE_RELEASE, 3, FakeKernel::bytes(locked));
  const auto directory = kernel_.send(FUSE_RELEASEDIR, 3, FakeKernel::bytes(plain));
  turn();
  for (const auto request : {first, second, directory}) {
    ASSERT_NE(nullptr, kernel_.reply(request));
    EXPECT_EQ(0, kernel_.reply(request)->error);
  }
  ASSERT_EQ(3U, files_.released.size());
  EXPECT_FALSE(files_.released[0].second);
  EXPECT_EQ(9U, files_.released[1].second);
  EXPECT_FALSE(files_.released[2].second);
}

TEST_F(Mounted, OperationsThatDoNotExistAreEnosys) {
  mount();
  const auto request = kernel_.send(FUSE_IOCTL, 3, FakeKernel::bytes(fuse_ioctl_in{}));
  const auto unknown = kernel_.send(3999, 3);
  turn();
  EXPECT_EQ(-ENOSYS, kernel_.reply(request)->error);
  EXPECT_EQ(-ENOSYS, kernel_.reply(unknown)->error);
}

// What the kernel did not take is given back.

TEST_F(Mounted, GivesBackTheLookupOfAnEntryThatWasNotTaken) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  kernel_.send(FUSE_LOOKUP, 1, FakeKernel::name("a"));
  kernel_.send(FUSE_MKDIR, 1, FakeKernel::bytes(fuse_mkdir_in{0755, 0}) + FakeKernel::name("d"));
  turn();
  for (std::size_t i = 0; i < 2; ++i) {
    kernel_.give_up_next();
    files_.answer(i);
  }
  const std::vector<std::pair<vfs::NodeId, std::uint64_t>> expected{{vfs::NodeId(50), 1}, {vfs::NodeId(50), 1}};
  EXPECT_EQ(expected, files_.forgotten);
}

TEST_F(Mounted, GivesBackFilesThatWereNotTaken) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  kernel_.send(FUSE_OPEN, 3, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}));
  kernel_.send(FUSE_OPENDIR, 3, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}));
  kernel_.send(FUSE_CREATE, 1, FakeKernel::bytes(fuse_create_in{O_WRONLY, 0644, 0, 0}) + FakeKernel::name("new"));
  turn();
  for (std::size_t i = 0; i < 3; ++i) {
    kernel_.give_up_next();
    files_.answer(i);
  }
  EXPECT_EQ(3U, files_.released.size());
  for (const auto& [file, owner] : files_.released) EXPECT_EQ(77U, file.value);
  ASSERT_EQ(1U, files_.forgotten.size());
  EXPECT_EQ(50U, files_.forgotten[0].first.value);
}

TEST_F(Mounted, GivesBackNothingThatWasTaken) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  kernel_.send(FUSE_CREATE, 1, FakeKernel::bytes(fuse_create_in{O_WRONLY, 0644, 0, 0}) + FakeKernel::name("new"));
  turn();
  files_.answer(0);
  EXPECT_TRUE(files_.released.empty());
  EXPECT_TRUE(files_.forgotten.empty());
}

// Answers.

TEST_F(Mounted, AnEntryIsToldWithItsTimes) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  files_.entry.generation = 6;
  files_.entry.name_valid = std::chrono::milliseconds(1500);
  files_.entry.attributes.inode = 4711;
  files_.entry.attributes.mode = S_IFREG | 0640;
  files_.entry.attributes.size = 5;
  files_.entry.attributes.modified = {-1, 999'999'999};
  const auto request = kernel_.send(FUSE_LOOKUP, 1, FakeKernel::name("a"));
  turn();
  files_.answer(0);
  const auto out = kernel_.payload<fuse_entry_out>(request);
  EXPECT_EQ(50U, out.nodeid);
  EXPECT_EQ(6U, out.generation);
  EXPECT_EQ(1U, out.entry_valid);
  EXPECT_EQ(500'000'000U, out.entry_valid_nsec);
  EXPECT_EQ(0U, out.attr_valid);
  EXPECT_EQ(4711U, out.attr.ino);
  EXPECT_EQ(S_IFREG | 0640U, out.attr.mode);
  EXPECT_EQ(static_cast<std::uint64_t>(-1), out.attr.mtime);
  EXPECT_EQ(999'999'999U, out.attr.mtimensec);
}

TEST_F(Mounted, OpenFlagsReachTheKernel) {
  mount();
  files_.opened = {vfs::FileId(77), true, true};
  const auto request = kernel_.send(FUSE_OPEN, 3, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}));
  turn();
  files_.answer(0);
  const auto out = kernel_.payload<fuse_open_out>(request);
  EXPECT_EQ(77U, out.fh);
  EXPECT_EQ(static_cast<std::uint32_t>(FOPEN_KEEP_CACHE | FOPEN_DIRECT_IO), out.open_flags);
}

TEST_F(Mounted, MoreBytesThanAskedForAreEio) {
  mount();
  files_.bytes = std::string(101, 'x');
  const auto read = kernel_.send(FUSE_READ, 3, FakeKernel::bytes(fuse_read_in{77, 0, 100, 0, 0, 0, 0}));
  files_.count = 6;
  const auto write =
      kernel_.send(FUSE_WRITE, 3, FakeKernel::bytes(fuse_write_in{77, 0, 5, 0, 0, 0, 0}) + std::string(5, 'x'));
  turn();
  files_.answer_all();
  EXPECT_EQ(-EIO, kernel_.reply(read)->error);
  EXPECT_EQ(-EIO, kernel_.reply(write)->error);
}

TEST_F(Mounted, ATargetWithAZeroByteIsEio) {
  mount();
  files_.bytes = std::string("a\0b", 3);
  const auto request = kernel_.send(FUSE_READLINK, 3);
  turn();
  files_.answer(0);
  EXPECT_EQ(-EIO, kernel_.reply(request)->error);
}

TEST_F(Mounted, XattrsCanBeProbedForTheirSize) {
  mount();
  files_.bytes = "0123456789";
  const auto ask = [&](std::uint32_t opcode, std::uint32_t size) {
    return kernel_.send(opcode, 3, FakeKernel::bytes(fuse_getxattr_in{size, 0}) + FakeKernel::name("user.a"));
  };
  for (const std::uint32_t opcode : {FUSE_GETXATTR, FUSE_LISTXATTR}) {
    const auto probe = ask(opcode, 0);
    const auto fits = ask(opcode, 10);
    const auto small = ask(opcode, 9);
    turn();
    files_.answer_all();
    EXPECT_EQ(10U, kernel_.payload<fuse_getxattr_out>(probe).size);
    EXPECT_EQ("0123456789", kernel_.reply(fits)->payload);
    EXPECT_EQ(-ERANGE, kernel_.reply(small)->error);
  }
}

TEST_F(Mounted, AnEmptyXattrIsNoError) {
  mount();
  const auto request =
      kernel_.send(FUSE_GETXATTR, 3, FakeKernel::bytes(fuse_getxattr_in{9, 0}) + FakeKernel::name("user.a"));
  turn();
  files_.answer(0);
  EXPECT_EQ(0, kernel_.reply(request)->error);
  EXPECT_TRUE(kernel_.reply(request)->payload.empty());
}

TEST_F(Mounted, TheHolderOfALock) {
  mount();
  files_.holder = {vfs::LockType::write, 10, 0, 0};
  fuse_lk_in lock{};
  lock.fh = 77;
  lock.lk.type = F_RDLCK;
  const auto request = kernel_.send(FUSE_GETLK, 3, FakeKernel::bytes(lock));
  turn();
  files_.answer(0);
  const auto out = kernel_.payload<fuse_lk_out>(request);
  EXPECT_EQ(static_cast<std::uint32_t>(F_WRLCK), out.lk.type);
  EXPECT_EQ(10U, out.lk.start);
  EXPECT_EQ(static_cast<std::uint64_t>(0x7fffffffffffffff), out.lk.end);
}

TEST_F(Mounted, AnErrorThatTheKernelWouldRefuseIsEio) {
  mount();
  for (const int number : {0, -1, 134, 512, 1 << 30}) {
    const auto request = kernel_.send(FUSE_STATFS, 1);
    turn();
    files_.answer_all(os_error(number, "it"));
    ASSERT_NE(nullptr, kernel_.reply(request)) << number;
    EXPECT_EQ(-EIO, kernel_.reply(request)->error) << number;
  }
}

// Listings.

vfs::Listed listed(const std::string& name, std::uint64_t cookie, std::uint64_t node) {
  vfs::Listed entry;
  entry.name = name;
  entry.cookie = cookie;
  entry.inode = 900 + cookie;
  entry.type = S_IFREG;
  if (node == 0) return entry;
  entry.entry.emplace();
  entry.entry->node = vfs::NodeId(node);
  entry.entry->attributes.mode = S_IFREG | 0644;
  return entry;
}

class Listing : public Mounted {
 protected:
  void SetUp() override {
    mount();
    files_.listing = {listed(".", 1, 0), listed("..", 2, 0), listed("a", 3, 50), listed(std::string(255, 'n'), 4, 51)};
  }
  std::uint64_t list(std::uint32_t opcode, std::uint32_t size, std::uint64_t from = 0) {
    const auto request = kernel_.send(opcode, 1, FakeKernel::bytes(fuse_read_in{77, from, size, 0, 0, 0, 0}));
    turn();
    return request;
  }
};

TEST_F(Listing, HoldsTheEntriesInTheirOrder) {
  const auto request = list(FUSE_READDIR, 4096);
  files_.answer(0);
  EXPECT_EQ(4U, files_.taken);
  const auto first = kernel_.payload<fuse_dirent>(request);
  EXPECT_EQ(901U, first.ino);
  EXPECT_EQ(1U, first.off);
  EXPECT_EQ(1U, first.namelen);
  EXPECT_EQ(static_cast<std::uint32_t>(S_IFREG >> 12), first.type);
  EXPECT_EQ(3 * FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1) + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 255),
            kernel_.reply(request)->payload.size());
}

TEST_F(Listing, EndsWhereTheNextDoesNotFitAndGoesOnThere) {
  constexpr std::uint32_t kShort = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1);
  const auto exact = list(FUSE_READDIR, 3 * kShort);
  files_.answer(0);
  EXPECT_EQ(3U, files_.taken);
  EXPECT_EQ(3 * kShort, kernel_.reply(exact)->payload.size());
  const auto short_of_one = list(FUSE_READDIR, 3 * kShort - 1);
  files_.answer(1);
  EXPECT_EQ(2U, files_.taken);
  EXPECT_EQ(2 * kShort, kernel_.reply(short_of_one)->payload.size());
  const auto rest = list(FUSE_READDIR, 4096, 3);
  files_.answer(2);
  EXPECT_EQ(1U, files_.taken);
  EXPECT_EQ(255U, kernel_.payload<fuse_dirent>(rest).namelen);
}

TEST_F(Listing, AtTheEndIsEmpty) {
  const auto request = list(FUSE_READDIR, 4096, 4);
  files_.answer(0);
  EXPECT_EQ(0, kernel_.reply(request)->error);
  EXPECT_TRUE(kernel_.reply(request)->payload.empty());
}

TEST_F(Listing, WithAttributesNamesNodesButNotOfDots) {
  const auto request = list(FUSE_READDIRPLUS, 4096);
  files_.answer(0);
  const std::string& payload = kernel_.reply(request)->payload;
  constexpr std::size_t kDot = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS + 1);
  std::array<fuse_direntplus, 3> entries{};
  for (std::size_t i = 0; i < 3; ++i) std::memcpy(&entries[i], payload.data() + i * kDot, sizeof(fuse_direntplus));
  EXPECT_EQ(0U, entries[0].entry_out.nodeid);
  EXPECT_EQ(901U, entries[0].dirent.ino);
  EXPECT_EQ(0U, entries[1].entry_out.nodeid);
  EXPECT_EQ(50U, entries[2].entry_out.nodeid);
  EXPECT_EQ(903U, entries[2].dirent.ino);
}

TEST_F(Listing, GivenUpByTheKernelGivesBackWhatItCounted) {
  list(FUSE_READDIRPLUS, 4096);
  kernel_.give_up_next();
  files_.answer(0);
  const std::vector<std::pair<vfs::NodeId, std::uint64_t>> expected{{vfs::NodeId(50), 1}, {vfs::NodeId(51), 1}};
  EXPECT_EQ(expected, files_.forgotten);
}

TEST_F(Listing, WithoutAttributesCountsNothing) {
  list(FUSE_READDIR, 4096);
  kernel_.give_up_next();
  files_.answer(0);
  EXPECT_TRUE(files_.forgotten.empty());
}

TEST_F(Listing, ThatFailsHalfwayTellsWhatItHas) {
  const auto request = list(FUSE_READDIRPLUS, 4096);
  files_.answer(0, os_error(EIO, "list"));
  EXPECT_EQ(0, kernel_.reply(request)->error);
  const auto next = list(FUSE_READDIRPLUS, 4096, 4);
  files_.answer(1, os_error(EIO, "list"));
  EXPECT_EQ(-EIO, kernel_.reply(next)->error);
}

// Interrupts.

TEST_F(Mounted, AnInterruptReachesItsOperation) {
  mount();
  const Caller caller;
  kernel_.send(FUSE_STATFS, 1, {}, caller.thread());
  const auto request = kernel_.send(FUSE_STATFS, 1, {}, caller.thread());
  kernel_.interrupt(request);
  turn();
  ASSERT_EQ(1U, files_.interrupts.size());
  EXPECT_EQ(files_.calls[1].operation, files_.interrupts[0].operation);
  EXPECT_FALSE(files_.interrupts[0].dying);
  files_.answer(1, make_error(Errc::cancelled, "statfs"));
  EXPECT_EQ(-EINTR, kernel_.reply(request)->error);
}

TEST_F(Mounted, AnInterruptThatOvertakesItsRequestIsNotLost) {
  mount();
  const Caller caller;
  kernel_.interrupt(4 + init_);  // numbers go up by two: the one after next
  kernel_.send(FUSE_STATFS, 1, {}, caller.thread());
  turn();
  ASSERT_EQ(1U, files_.interrupts.size());
  EXPECT_EQ(files_.calls[0].operation, files_.interrupts[0].operation);
}

TEST_F(Mounted, AnInterruptAfterTheAnswerIsHarmless) {
  mount();
  const auto request = kernel_.send(FUSE_STATFS, 1);
  turn();
  files_.answer(0);
  const auto interrupt = kernel_.interrupt(request);
  turn();
  EXPECT_TRUE(files_.interrupts.empty());
  EXPECT_EQ(1, kernel_.reply(request)->times);
  // libfuse keeps it for a request that may still come, and hands it back at the next one.
  kernel_.send(FUSE_STATFS, 1);
  turn();
  EXPECT_TRUE(files_.interrupts.empty());
  ASSERT_NE(nullptr, kernel_.reply(interrupt));
  EXPECT_EQ(-EAGAIN, kernel_.reply(interrupt)->error);
}

TEST_F(Mounted, ACallerThatIsKilledAfterAFirstInterruptIsNoticed) {
  mount();
  Caller caller;
  const auto request = kernel_.send(FUSE_STATFS, 1, {}, caller.thread());
  kernel_.interrupt(request);
  turn();
  loop_.advance(std::chrono::seconds(1));
  ASSERT_EQ(1U, files_.interrupts.size());
  caller.kill();
  loop_.advance(std::chrono::milliseconds(100));
  ASSERT_EQ(2U, files_.interrupts.size());
  EXPECT_TRUE(files_.interrupts[1].dying);
  EXPECT_EQ(files_.calls[0].operation, files_.interrupts[1].operation);
  EXPECT_EQ(0U, loop_.timers());
}

TEST_F(Mounted, AnAnsweredRequestIsNotLookedAtAgain) {
  mount();
  Caller caller;
  const auto request = kernel_.send(FUSE_STATFS, 1, {}, caller.thread());
  kernel_.interrupt(request);
  turn();
  files_.answer(0);
  caller.kill();
  loop_.advance(std::chrono::seconds(1));
  EXPECT_EQ(1U, files_.interrupts.size());
  EXPECT_EQ(0U, loop_.timers());
}

TEST_F(Mounted, NothingIsLookedAtAfterTheEnd) {
  mount();
  Caller caller;
  const auto request = kernel_.send(FUSE_STATFS, 1, {}, caller.thread());
  kernel_.interrupt(request);
  turn();
  session_.reset();
  EXPECT_EQ(0U, loop_.timers());
}

// The getattr that follows a lookup.

class AfterALookup : public Mounted {
 protected:
  static constexpr std::uint32_t kThread = 4000;

  void SetUp() override {
    mount();
    files_.entry.node = vfs::NodeId(50);
    files_.entry.attributes.size = 99;
    look_up();
  }
  void look_up() {
    kernel_.send(FUSE_LOOKUP, 1, FakeKernel::name("a"), kThread);
    turn();
    files_.answer_all();
    files_.calls.clear();
  }
  /// True where the file system was asked.
  bool asked(std::uint64_t node, std::uint32_t thread, std::uint64_t file = 0) {
    files_.calls.clear();
    const auto request = kernel_.send(
        FUSE_GETATTR, node, FakeKernel::bytes(fuse_getattr_in{file != 0 ? FUSE_GETATTR_FH : 0U, 0, file}), thread);
    turn();
    if (!files_.calls.empty()) return true;
    EXPECT_EQ(99U, kernel_.payload<fuse_attr_out>(request).attr.size);
    EXPECT_EQ(0U, kernel_.payload<fuse_attr_out>(request).attr_valid);
    return false;
  }
};

TEST_F(AfterALookup, IsAnsweredFromItOnce) {
  EXPECT_FALSE(asked(50, kThread));
  EXPECT_TRUE(asked(50, kThread));
}

TEST_F(AfterALookup, OfAnotherThreadIsAsked) { EXPECT_TRUE(asked(50, kThread + 64)); }

TEST_F(AfterALookup, OfAnotherNodeIsAskedAndEndsIt) {
  EXPECT_TRUE(asked(51, kThread));
  EXPECT_TRUE(asked(50, kThread));
}

TEST_F(AfterALookup, OfAnOpenFileIsAsked) { EXPECT_TRUE(asked(50, kThread, 77)); }

TEST_F(AfterALookup, TooLateIsAsked) {
  loop_.advance(std::chrono::milliseconds(2));
  EXPECT_FALSE(asked(50, kThread));
  look_up();
  loop_.advance(std::chrono::microseconds(2001));
  EXPECT_TRUE(asked(50, kThread));
}

TEST_F(AfterALookup, AnythingElseThatTheThreadDoesEndsIt) {
  kernel_.send(FUSE_OPEN, 50, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}), kThread);
  turn();
  EXPECT_TRUE(asked(50, kThread));
}

TEST_F(AfterALookup, WhatAnotherThreadDoesDoesNot) {
  kernel_.send(FUSE_OPEN, 50, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}), kThread + 1);
  turn();
  EXPECT_FALSE(asked(50, kThread));
}

TEST_F(AfterALookup, AnUnknownThreadIsAsked) {
  kernel_.send(FUSE_LOOKUP, 1, FakeKernel::name("a"), 0);
  turn();
  files_.answer_all();
  EXPECT_TRUE(asked(50, 0));
}

// Callers.

TEST_F(Mounted, GroupsAreFetchedWhereTheyMatter) {
  mount({.own_uid = 1000, .own_uid_is_mapped = true});
  std::array<gid_t, 2> groups{3000, 3001};
  if (::getuid() != 0) GTEST_FAIL() << "this test runs as root, as all of ours do";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(groups.size(), groups.data()) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto pid = static_cast<std::uint32_t>(child);
  for (const std::uint32_t uid : {0U, 1000U, 1001U}) kernel_.send(FUSE_STATFS, 1, {}, pid, uid);
  turn();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(3U, files_.calls.size());
  EXPECT_TRUE(files_.calls[0].caller.groups.empty());
  EXPECT_TRUE(files_.calls[1].caller.groups.empty());
  EXPECT_EQ((std::vector<std::uint32_t>{3000, 3001}), files_.calls[2].caller.groups);
}

TEST_F(Mounted, GroupsOfACallerThatIsGoneAreNone) {
  mount({.own_uid_is_mapped = false});
  kernel_.send(FUSE_STATFS, 1, {}, 0x7ffffff0, 1001);
  turn();
  ASSERT_EQ(1U, files_.calls.size());
  EXPECT_TRUE(files_.calls[0].caller.groups.empty());
}

TEST(SessionOptions, TheMountingUsersGroupsMatterWithoutMapping) {
  EXPECT_TRUE((SessionOptions{.own_uid = 1000, .own_uid_is_mapped = false}.needs_groups(1000)));
  EXPECT_FALSE((SessionOptions{.own_uid = 1000, .own_uid_is_mapped = true}.needs_groups(1000)));
}

// The end.

TEST_F(Mounted, AnUnmountEndsIt) {
  mount();
  kernel_.send(FUSE_STATFS, 1);
  turn();
  kernel_.unmount();
  EXPECT_FALSE(session_->turn());
  EXPECT_EQ(1, ended_);
  EXPECT_FALSE(ended_by_);
  EXPECT_FALSE(session_->turn());
  EXPECT_EQ(1, ended_) << "told once";
  files_.answer(0);
}

TEST_F(Mounted, RequestsUnderWayMayOutliveTheSession) {
  mount();
  std::vector<std::uint64_t> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(kernel_.send(FUSE_STATFS, 1));
  turn();
  session_.reset();
  files_.answer(3);
  files_.answer(4, os_error(EIO, "it"));
  files_.calls.clear();
  for (const auto request : requests) EXPECT_EQ(nullptr, kernel_.reply(request));
}

class EndsItself : public Mounted {
  void on_ready() override {
    ++ready_;
    session_.reset();
  }
};

TEST_F(EndsItself, WhenItBecomesReady) {
  attach();
  kernel_.send_init(0);
  kernel_.send(FUSE_STATFS, 1);
  session_->turn();
  EXPECT_EQ(nullptr, session_);
  EXPECT_TRUE(files_.calls.empty());
}

TEST_F(Mounted, AFrameThatIsNoneEndsItWithAReason) {
  mount();
  kernel_.send_raw("short");
  EXPECT_FALSE(session_->turn());
  EXPECT_EQ(1, ended_);
  ASSERT_TRUE(ended_by_);
  EXPECT_EQ(EIO, ended_by_->os_errno);
}

}  // namespace
}  // namespace sandbar::fuse
