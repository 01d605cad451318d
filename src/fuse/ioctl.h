// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/ioctl.h>

#include <cstddef>

/// What the mount answers to ioctl(2), beyond the calls of POSIX. Only for our own tools: the numbers may change.
namespace sandbar::fuse {

/// On a directory of a mount, kStoredLink: the target of the symlink `name` in it as the sandbox stores it. (Extended
/// attributes of a symlink do not reach a FUSE driver.) errno as of readlink(2); ENOTTY outside of our mounts.
struct StoredLink {
  char name[256];     ///< in: a name, ended by a zero byte
  char target[4096];  ///< out: ended by a zero byte
};

constexpr unsigned long kStoredLink = _IOWR('S', 0x5b, StoredLink);

}  // namespace sandbar::fuse
