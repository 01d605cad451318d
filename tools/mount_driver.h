// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "client/grant_source.h"
#include "daemonize.h"
#include "fuse/mount.h"
#include "fuse/session.h"
#include "sandbar/target.h"
#include "vfs/file_system.h"

namespace sandbar::tools {

struct DriverOptions {
  Target target;
  bool background = false;                      ///< whoever started it does not wait for its end
  std::shared_ptr<client::GrantSource> grants;  ///< where its tokens come from
  std::string ca_file;                          ///< absolute; empty: the system's
  bool insecure = false;
  vfs::Options files;
  fuse::SessionOptions session;
  fuse::MountOptions mount;
};

/// Connects, mounts last, and runs until the mount is gone: unmounted by someone, or by INT, TERM or HUP. Returns the
/// exit code. The calling thread becomes the loop's. Nothing is left behind, at whatever stage it ends.
int run_driver(DriverOptions options, StartReport report);

}  // namespace sandbar::tools
