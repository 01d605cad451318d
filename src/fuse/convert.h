// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "sandbar/error.h"
#include "vfs/types.h"

/// Between the vfs' types and libfuse's. Values of the vfs may come from a sandbox that lies: what would harm the
/// kernel's side of the protocol is made harmless here.
namespace sandbar::fuse {

/// The errno that the caller of the system call sees, positive, 1..133:
/// os -> its errno, timeout -> ETIMEDOUT, disconnected -> ENOTCONN, cancelled -> EINTR, unsupported -> EOPNOTSUPP,
/// unauthorized -> EACCES, else EIO with a line in the log. Never ENOSYS, and never a number out of range (convert.cpp
/// says why).
int to_errno(const Error& error);

struct stat to_stat(const vfs::Attributes& attributes);
/// Seconds, not negative.
double to_seconds(base::Duration duration);
fuse_entry_param to_entry(const vfs::Entry& entry);
struct statvfs to_statvfs(const vfs::StatFs& stat);
/// `to_set` holds FUSE_SET_ATTR_* bits.
vfs::Changes to_changes(const struct stat& attributes, int to_set);
/// What fcntl(2)'s `lock` asks for.
vfs::LockRequest to_lock(const struct flock& lock, std::uint64_t owner, bool wait);
struct flock to_flock(const vfs::LockHolder& holder);
/// `operation` is flock(2)'s: LOCK_SH, LOCK_EX or LOCK_UN, with LOCK_NB.
vfs::LockRequest to_flock_request(int operation, std::uint64_t owner);

}  // namespace sandbar::fuse
