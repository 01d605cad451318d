// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "mounted.h"

namespace sandbar::fuse {
namespace {

using fakes::FakeKernel;

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
  for (const std::uint32_t on :
       {FUSE_ASYNC_READ, FUSE_ATOMIC_O_TRUNC, FUSE_PARALLEL_DIROPS, FUSE_DO_READDIRPLUS, FUSE_READDIRPLUS_AUTO,
        FUSE_POSIX_LOCKS, FUSE_FLOCK_LOCKS, FUSE_AUTO_INVAL_DATA, FUSE_DONT_MASK, FUSE_POSIX_ACL})
    EXPECT_EQ(on, out.flags & on);
  for (const std::uint32_t off :
       {FUSE_WRITEBACK_CACHE, FUSE_CACHE_SYMLINKS, FUSE_EXPORT_SUPPORT, FUSE_EXPLICIT_INVAL_DATA})
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
  const auto request = kernel_.send(FUSE_BMAP, 3, FakeKernel::bytes(fuse_bmap_in{}));
  const auto unknown = kernel_.send(3999, 3);
  turn();
  EXPECT_EQ(-ENOSYS, kernel_.reply(request)->error);
  EXPECT_EQ(-ENOSYS, kernel_.reply(unknown)->error);
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
