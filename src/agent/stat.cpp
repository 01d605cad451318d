// SPDX-License-Identifier: Apache-2.0
#include "agent/stat.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cerrno>

namespace sandbar::agent {
namespace {

// statx(2) of Linux 5.8; older headers lack the name.
#ifdef STATX_MNT_ID
constexpr unsigned kMountId = STATX_MNT_ID;
#else
constexpr unsigned kMountId = 0x1000;
#endif

wire::Time time_of(const struct statx_timestamp& stamp) { return {stamp.tv_sec, stamp.tv_nsec}; }

Stat convert(const struct statx& from) {
  Stat to;
  wire::Attributes& out = to.attributes;
  out.device = makedev(from.stx_dev_major, from.stx_dev_minor);
  out.inode = from.stx_ino;
  if ((from.stx_mask & STATX_BTIME) != 0) out.birth = time_of(from.stx_btime);
  out.mode = from.stx_mode;
  out.links = from.stx_nlink;
  out.uid = from.stx_uid;
  out.gid = from.stx_gid;
  out.rdev = makedev(from.stx_rdev_major, from.stx_rdev_minor);
  out.size = from.stx_size;
  out.blocks = from.stx_blocks;
  out.block_size = from.stx_blksize;
  out.accessed = time_of(from.stx_atime);
  out.modified = time_of(from.stx_mtime);
  out.changed = time_of(from.stx_ctime);
  if ((from.stx_mask & kMountId) != 0) to.mount = from.stx_mnt_id;
  return to;
}

Result<Stat> stat_at(int directory, const char* name, int flags) {
  struct statx from {};
  if (::statx(directory, name, flags | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
              STATX_BASIC_STATS | STATX_BTIME | kMountId, &from) != 0)
    return os_error(errno, "stat");
  return convert(from);
}

void set_from_list(ssize_t listed, wire::Attributes& attributes) {
  attributes.has_xattrs = listed > 0 || (listed < 0 && errno != ENOTSUP);
}

}  // namespace

std::uint32_t Stat::type() const { return attributes.mode & S_IFMT; }

Result<Stat> stat_descriptor(int fd) { return stat_at(fd, "", AT_EMPTY_PATH); }

Result<Stat> stat_entry(int directory, const std::string& name) { return stat_at(directory, name.c_str(), 0); }

void find_xattrs(int fd, wire::Attributes& attributes) {
  if (S_ISLNK(attributes.mode)) return;
  set_from_list(::listxattr(ProcPath(fd).c_str(), nullptr, 0), attributes);
}

void find_entry_xattrs(int directory, const std::string& name, wire::Attributes& attributes) {
  if (S_ISLNK(attributes.mode)) return;
  // The directory's magic link and one name, whose symlink would not be followed: as good as openat(2).
  const std::string path = std::string(ProcPath(directory).c_str()) + '/' + name;
  set_from_list(::llistxattr(path.c_str(), nullptr, 0), attributes);
}

}  // namespace sandbar::agent
