// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sandbar/result.h"

namespace sandbar::fuse {

/// How the kernel shows our mounts: "fuse." and the subtype.
constexpr const char* kSubtype = "sandbox";

struct MountOptions {
  std::string mount_point = {};  ///< absolute: the process' working directory changes
  std::string source = {};       ///< shown as the device of the mount: the TARGET
  bool allow_other = false;
  bool no_symlink_follow = false;       ///< MS_NOSYMFOLLOW: links can be read, but not followed; only root can have it
  std::uint32_t max_read = 0;           ///< bytes; 0: the kernel's limit
  std::vector<std::string> flags = {};  ///< those of flag_names(), in order: "ro", "noexec"
};

/// The flags of mount(8) that are passed on: ro, rw, exec, noexec, atime, noatime, sync, async, dirsync.
const std::vector<std::string>& flag_names();

/// What libfuse is given: always default_permissions (so the kernel checks modes, and allow_other is safe), nosuid
/// and nodev. A comma or backslash of the source is escaped as libfuse and fusermount3 want it.
std::vector<std::string> mount_arguments(const MountOptions& options);

/// Sets MS_NOSYMFOLLOW on a mount, which libfuse 3.14 does not pass on. Errc::os.
Result<void> forbid_symlinks(const std::string& mount_point);

/// Takes what is written to descriptor 2 while it lives, fusermount3's messages included, so that a failed mount ends
/// in one message of ours. One thread.
class StderrCapture {
 public:
  StderrCapture();
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;
  ~StderrCapture();
  /// What was said, as one line: lines joined with "; ", without "fusermount3: " in front of them.
  [[nodiscard]] std::string text() const;

 private:
  int saved_ = -1;
  int memory_ = -1;
};

/// `text` as StderrCapture::text() gives it.
std::string one_line(std::string_view text);

}  // namespace sandbar::fuse
