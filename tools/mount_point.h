// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "sandbar/result.h"

namespace sandbar::tools {

/// Makes sure that something can be mounted on `directory`: it exists, is a directory, holds nothing unless `nonempty`,
/// and is no mount point. A mount that a killed sandbox-mount left there is removed first. Gives the absolute path
/// without symlinks. An Error says what to do.
Result<std::string> prepare_mount_point(const std::string& directory, bool nonempty);

/// Says what to do when FUSE cannot be used at all (no /dev/fuse, no right to open it, no fusermount3 for an ordinary
/// user), or `allow_other` is not allowed for this user.
Result<void> check_fuse(bool allow_other);

/// A mount of ours as the kernel numbers it.
struct MountedDevice {
  std::string point;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

/// The mount that was just made at `point`. Asks the kernel only, so the driver may call it; so do the next two.
MountedDevice mounted_device(const std::string& point);

/// Lets the kernel read ahead more than its 128 KiB on the mount, where this user may.
void raise_read_ahead(const MountedDevice& device);

/// Removes the mount if it is still there after its connection was aborted (`umount -f` of a busy one, or the abort
/// file of /sys/fs/fuse/connections): nothing can be done with it any more.
void remove_if_left(const MountedDevice& device);

}  // namespace sandbar::tools
