// SPDX-License-Identifier: Apache-2.0
#include "fuse/convert.h"

#include <sys/file.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>

#include "base/log.h"

namespace sandbar::fuse {
namespace {

/// Linux' largest errno on x86-64, EHWPOISON. The kernel refuses a reply with an error below -511 and leaves its
/// request unanswered for ever (fuse_dev_do_write), so a number that a sandbox makes up must not get there.
constexpr int kLargestErrno = 133;

/// What stat(2) may show as the preferred block size. The kernel takes its logarithm as the inode's block bits, which
/// its page cache works with.
constexpr std::uint32_t kSmallestBlock = 512;
constexpr std::uint32_t kLargestBlock = 1024 * 1024;
constexpr std::uint32_t kDefaultBlock = 4096;

constexpr std::uint64_t kLargestOffset = std::numeric_limits<off_t>::max();

int os_to_errno(const Error& error) {
  const int number = error.os_errno;
  // ENOSYS means "never ask me again" to the kernel: fsync would then succeed without being sent, and locks would be
  // granted without the sandbox.
  if (number == ENOSYS) return EOPNOTSUPP;
  if (number > 0 && number <= kLargestErrno) return number;
  base::log_warning("an operation failed with an impossible error number: " + error.message());
  return EIO;
}

struct timespec to_timespec(const vfs::Time& time) {
  struct timespec result {};
  result.tv_sec = time.seconds;
  result.tv_nsec = std::min<std::uint32_t>(time.nanoseconds, 999'999'999);
  return result;
}

vfs::Time to_time(const struct timespec& time) {
  return vfs::Time{time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)};
}

std::uint32_t block_size(std::uint32_t given) {
  return std::has_single_bit(given) && given >= kSmallestBlock && given <= kLargestBlock ? given : kDefaultBlock;
}

vfs::LockType lock_type(int type) {
  if (type == F_RDLCK) return vfs::LockType::read;
  return type == F_WRLCK ? vfs::LockType::write : vfs::LockType::unlock;
}

short flock_type(vfs::LockType type) {
  if (type == vfs::LockType::read) return F_RDLCK;
  return type == vfs::LockType::write ? F_WRLCK : F_UNLCK;
}

}  // namespace

int to_errno(const Error& error) {
  switch (error.code) {
    case Errc::os:
      return os_to_errno(error);
    case Errc::timeout:
      return ETIMEDOUT;
    case Errc::disconnected:
      return ENOTCONN;
    case Errc::cancelled:
      return EINTR;
    case Errc::unsupported:
      return EOPNOTSUPP;
    case Errc::unauthorized:
      return EACCES;
    default:
      break;
  }
  base::log_warning("an operation failed: " + error.message());
  return EIO;
}

struct stat to_stat(const vfs::Attributes& attributes) {
  struct stat result {};
  result.st_ino = attributes.inode;
  result.st_mode = attributes.mode;
  result.st_nlink = attributes.links;
  result.st_uid = attributes.uid;
  result.st_gid = attributes.gid;
  result.st_rdev = attributes.rdev;
  // A larger size makes the kernel answer EIO to everything, readdirplus of the whole directory included.
  result.st_size = static_cast<off_t>(std::min(attributes.size, kLargestOffset));
  result.st_blksize = block_size(attributes.block_size);
  result.st_blocks = static_cast<blkcnt_t>(attributes.blocks);
  result.st_atim = to_timespec(attributes.accessed);
  result.st_mtim = to_timespec(attributes.modified);
  result.st_ctim = to_timespec(attributes.changed);
  return result;
}

double to_seconds(base::Duration duration) { return std::max(0.0, std::chrono::duration<double>(duration).count()); }

fuse_entry_param to_entry(const vfs::Entry& entry) {
  fuse_entry_param result{};
  result.ino = entry.node.value;
  result.generation = entry.generation;
  result.attr = to_stat(entry.attributes);
  result.entry_timeout = to_seconds(entry.name_valid);
  result.attr_timeout = to_seconds(entry.attributes_valid);
  return result;
}

struct statvfs to_statvfs(const vfs::StatFs& stat) {
  struct statvfs result {};
  result.f_bsize = stat.block_size;
  result.f_frsize = stat.fragment_size;
  result.f_blocks = stat.blocks;
  result.f_bfree = stat.blocks_free;
  result.f_bavail = stat.blocks_available;
  result.f_files = stat.files;
  result.f_ffree = stat.files_free;
  result.f_favail = stat.files_free;
  result.f_namemax = stat.name_max;
  return result;
}

vfs::Changes to_changes(const struct stat& attributes, int to_set) {
  vfs::Changes changes;
  if ((to_set & FUSE_SET_ATTR_MODE) != 0) changes.mode = attributes.st_mode & 07777U;
  if ((to_set & FUSE_SET_ATTR_UID) != 0) changes.uid = attributes.st_uid;
  if ((to_set & FUSE_SET_ATTR_GID) != 0) changes.gid = attributes.st_gid;
  if ((to_set & FUSE_SET_ATTR_SIZE) != 0) changes.size = static_cast<std::uint64_t>(attributes.st_size);
  // The kernel sets both bits for "now" (utimensat's UTIME_NOW); the time beside it is its own guess.
  changes.accessed_now = (to_set & FUSE_SET_ATTR_ATIME_NOW) != 0;
  changes.modified_now = (to_set & FUSE_SET_ATTR_MTIME_NOW) != 0;
  if ((to_set & FUSE_SET_ATTR_ATIME) != 0 && !changes.accessed_now) changes.accessed = to_time(attributes.st_atim);
  if ((to_set & FUSE_SET_ATTR_MTIME) != 0 && !changes.modified_now) changes.modified = to_time(attributes.st_mtim);
  return changes;
}

vfs::LockRequest to_lock(const struct flock& lock, std::uint64_t owner, bool wait) {
  vfs::LockRequest request;
  request.owner = owner;
  request.kind = vfs::LockKind::posix;
  request.type = lock_type(lock.l_type);
  request.wait = wait;
  request.start = static_cast<std::uint64_t>(lock.l_start);
  request.length = static_cast<std::uint64_t>(lock.l_len);
  request.pid = static_cast<std::uint32_t>(lock.l_pid);
  return request;
}

struct flock to_flock(const vfs::LockHolder& holder) {
  struct flock result {};
  result.l_type = flock_type(holder.type);
  result.l_whence = SEEK_SET;
  result.l_start = static_cast<off_t>(std::min(holder.start, kLargestOffset));
  // libfuse adds start and length: keep the sum below the sign bit. Length 0 is "to the end" on both sides.
  const std::uint64_t room = kLargestOffset - static_cast<std::uint64_t>(result.l_start);
  result.l_len = holder.length > room ? 0 : static_cast<off_t>(holder.length);
  result.l_pid = static_cast<pid_t>(std::min<std::uint32_t>(holder.pid, std::numeric_limits<pid_t>::max()));
  return result;
}

vfs::LockRequest to_flock_request(int operation, std::uint64_t owner) {
  vfs::LockRequest request;
  request.owner = owner;
  request.kind = vfs::LockKind::flock;
  const int kind = operation & ~LOCK_NB;
  request.type = kind == LOCK_SH ? vfs::LockType::read : kind == LOCK_EX ? vfs::LockType::write : vfs::LockType::unlock;
  request.wait = (operation & LOCK_NB) == 0;
  return request;
}

}  // namespace sandbar::fuse
