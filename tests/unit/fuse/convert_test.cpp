// SPDX-License-Identifier: Apache-2.0
#include "fuse/convert.h"

#include <gtest/gtest.h>
#include <sys/file.h>

#include <cerrno>
#include <limits>

namespace sandbar::fuse {
namespace {

TEST(ToErrno, FollowsTheKindOfError) {
  EXPECT_EQ(ENOENT, to_errno(os_error(ENOENT, "open")));
  EXPECT_EQ(ETIMEDOUT, to_errno(make_error(Errc::timeout, "open")));
  EXPECT_EQ(ENOTCONN, to_errno(make_error(Errc::disconnected, "open")));
  EXPECT_EQ(EINTR, to_errno(make_error(Errc::cancelled, "open")));
  EXPECT_EQ(EOPNOTSUPP, to_errno(make_error(Errc::unsupported, "open")));
  EXPECT_EQ(EACCES, to_errno(make_error(Errc::unauthorized, "open")));
  for (const Errc code : {Errc::invalid, Errc::protocol, Errc::limit, Errc::unknown, Errc::internal})
    EXPECT_EQ(EIO, to_errno(make_error(code, "open")));
}

TEST(ToErrno, StaysWithinWhatTheKernelTakes) {
  EXPECT_EQ(1, to_errno(os_error(1, "")));
  EXPECT_EQ(133, to_errno(os_error(133, "")));
  for (const int number :
       {0, -1, 134, 511, 512, 1000, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()})
    EXPECT_EQ(EIO, to_errno(os_error(number, "")));
}

TEST(ToErrno, NeverTurnsAnOperationOffForGood) { EXPECT_EQ(EOPNOTSUPP, to_errno(os_error(ENOSYS, "fsync"))); }

TEST(ToStat, KeepsEverything) {
  vfs::Attributes attributes;
  attributes.inode = 0xffffffffffffffff;
  attributes.mode = S_IFREG | 06755;
  attributes.links = 3;
  attributes.uid = 4294967294U;
  attributes.gid = 7;
  attributes.rdev = 0x0501;
  attributes.size = 5;
  attributes.blocks = 8;
  attributes.block_size = 65536;
  attributes.accessed = {1, 2};
  attributes.modified = {-3, 4};
  attributes.changed = {5'000'000'000, 999'999'999};
  const struct stat stat = to_stat(attributes);
  EXPECT_EQ(0xffffffffffffffff, stat.st_ino);
  EXPECT_EQ(S_IFREG | 06755U, stat.st_mode);
  EXPECT_EQ(3U, stat.st_nlink);
  EXPECT_EQ(4294967294U, stat.st_uid);
  EXPECT_EQ(7U, stat.st_gid);
  EXPECT_EQ(0x0501U, stat.st_rdev);
  EXPECT_EQ(5, stat.st_size);
  EXPECT_EQ(8, stat.st_blocks);
  EXPECT_EQ(65536, stat.st_blksize);
  EXPECT_EQ(2, stat.st_atim.tv_nsec);
  EXPECT_EQ(-3, stat.st_mtim.tv_sec);
  EXPECT_EQ(5'000'000'000, stat.st_ctim.tv_sec);
}

TEST(ToStat, HasABlockSizeThatTheKernelCanUse) {
  const auto shown = [](std::uint32_t size) {
    vfs::Attributes attributes;
    attributes.block_size = size;
    return to_stat(attributes).st_blksize;
  };
  EXPECT_EQ(512, shown(512));
  EXPECT_EQ(1024 * 1024, shown(1024 * 1024));
  for (const std::uint32_t size : {0U, 1U, 256U, 511U, 4097U, 2U * 1024 * 1024, 0x80000000U})
    EXPECT_EQ(4096, shown(size));
}

TEST(ToStat, HasNoNegativeSize) {
  vfs::Attributes attributes;
  attributes.size = std::numeric_limits<std::uint64_t>::max();
  attributes.modified.nanoseconds = 4'000'000'000U;
  EXPECT_EQ(std::numeric_limits<off_t>::max(), to_stat(attributes).st_size);
  EXPECT_EQ(999'999'999, to_stat(attributes).st_mtim.tv_nsec);
}

TEST(ToSeconds, IsNeverNegative) {
  EXPECT_EQ(0.0, to_seconds(std::chrono::seconds(-1)));
  EXPECT_EQ(1.5, to_seconds(std::chrono::milliseconds(1500)));
}

TEST(ToChanges, TakesWhatIsSet) {
  struct stat attributes {};
  attributes.st_mode = S_IFREG | 04644;
  attributes.st_uid = 5;
  attributes.st_atim = {10, 11};
  const auto changes = to_changes(attributes, FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_ATIME |
                                                  FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW | FUSE_SET_ATTR_CTIME);
  EXPECT_EQ(04644U, changes.mode);
  EXPECT_EQ(5U, changes.uid);
  EXPECT_FALSE(changes.gid);
  EXPECT_FALSE(changes.size);
  ASSERT_TRUE(changes.accessed);
  EXPECT_EQ(10, changes.accessed->seconds);
  EXPECT_EQ(11U, changes.accessed->nanoseconds);
  EXPECT_FALSE(changes.accessed_now);
  EXPECT_TRUE(changes.modified_now);
  EXPECT_FALSE(changes.modified);
}

TEST(ToFlock, StaysBelowTheSignBit) {
  const auto whole = to_flock({vfs::LockType::read, 5, std::numeric_limits<std::uint64_t>::max(), 0});
  EXPECT_EQ(5, whole.l_start);
  EXPECT_EQ(0, whole.l_len);
  const auto part = to_flock({vfs::LockType::write, 5, 10, 42});
  EXPECT_EQ(F_WRLCK, part.l_type);
  EXPECT_EQ(10, part.l_len);
  EXPECT_EQ(42, part.l_pid);
  EXPECT_EQ(F_UNLCK, to_flock({}).l_type);
}

TEST(ToLock, TakesTheProcessAlong) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = 5;
  lock.l_len = 6;
  lock.l_pid = 4711;
  const vfs::LockRequest request = to_lock(lock, 9, true);
  EXPECT_EQ(vfs::LockType::write, request.type);
  EXPECT_EQ(5U, request.start);
  EXPECT_EQ(6U, request.length);
  EXPECT_EQ(4711U, request.pid);
  EXPECT_EQ(9U, request.owner);
  EXPECT_TRUE(request.wait);
}

TEST(ToFlockRequest, KnowsWaitingFromTrying) {
  EXPECT_TRUE(to_flock_request(LOCK_EX, 1).wait);
  EXPECT_FALSE(to_flock_request(LOCK_EX | LOCK_NB, 1).wait);
  EXPECT_EQ(vfs::LockType::write, to_flock_request(LOCK_EX | LOCK_NB, 1).type);
  EXPECT_EQ(vfs::LockType::read, to_flock_request(LOCK_SH, 1).type);
  EXPECT_EQ(vfs::LockType::unlock, to_flock_request(LOCK_UN, 1).type);
}

}  // namespace
}  // namespace sandbar::fuse
