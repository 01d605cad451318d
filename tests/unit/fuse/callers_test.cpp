// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "mounted.h"

/// Who asks: interrupts, the getattr that follows a lookup, groups.
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
  EXPECT_FALSE((SessionOptions{.own_uid_is_mapped = false}.needs_groups(0)));
  EXPECT_TRUE((SessionOptions{.own_uid_is_mapped = false, .root_may_be_another = true}.needs_groups(0)));
}

}  // namespace
}  // namespace sandbar::fuse
