// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Lets the kernel read ahead more than its 128 KiB on the mount at `point`, where this user may. Does not touch the
/// mount itself, so the driver may call it.
void raise_read_ahead(const std::string& point);

}  // namespace sandbar::tools
