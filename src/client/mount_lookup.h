// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbar/result.h"
#include "sandbar/target.h"

/// Finds the Sandbar mount that a directory lies on, so that a tool needs no TARGET there. Any thread.
namespace sandbar::client {

/// How sandbox-mount names its file systems, and what it tells about itself in the root's extended attributes.
constexpr const char* kMountType = "fuse.sandbox";
constexpr const char* kTargetXattr = "user.sandbar.target";         ///< Target::text(), with the directory
constexpr const char* kTokenFileXattr = "user.sandbar.token-file";  ///< an absolute path; absent where none was given
constexpr const char* kCaFileXattr = "user.sandbar.ca-file";        ///< the same of the CA file
constexpr const char* kInsecureXattr = "user.sandbar.insecure";     ///< there where the mount was allowed plaintext
constexpr const char* kGrantCommandXattr = "user.sandbar.grant-command";  ///< for /bin/sh; likewise

/// One line of /proc/self/mountinfo (proc(5)), its octal escapes undone.
struct MountEntry {
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::string root;   ///< which directory of the file system is mounted: "/", another one for a bind mount
  std::string point;  ///< relative to the process' root
  std::string type;   ///< "fuse.sandbox"
  std::string source;
  std::optional<std::uint32_t> user;  ///< a FUSE mount's user_id: who mounted it
};

/// Lines that cannot be read are left out: the kernel writes this file, and one odd line must not hide the others.
std::vector<MountEntry> parse_mountinfo(std::string_view text);

/// Where a directory is, as the kernel says.
struct Place {
  std::uint64_t mount_id = 0;  ///< statx's stx_mnt_id; 0 where the kernel has none (before 5.8)
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::string path;  ///< absolute, without symlinks
};

/// The Sandbar mount of `place`: the one of its mount id, else the innermost of its device; null when it is on none.
const MountEntry* find_mount(const std::vector<MountEntry>& mounts, const Place& place);

/// The path below the file system's root that `path` has on `mount`, absolute: through bind mounts of a subdirectory
/// too. `path` must lie on it.
std::string path_on_mount(const MountEntry& mount, std::string_view path);

/// `below` ("/" or "/sub") appended to `directory`.
std::string join_directory(std::string_view directory, std::string_view below);

struct MountedDirectory {
  Target target;              ///< its directory is the remote one that corresponds to the local directory
  std::string point;          ///< where it is mounted, for messages
  std::string token_file;     ///< empty: none was given to sandbox-mount
  std::string grant_command;  ///< likewise
  std::string ca_file;        ///< likewise
  bool insecure = false;      ///< given to sandbox-mount
};

/// Whether what `mount` says of itself may be believed by `user`: root's mounts and the user's own. Anybody can mount a
/// file system that calls itself Sandbar's, with a target that is a command, and a token file that is not its own.
bool is_trusted(const MountEntry& mount, std::uint32_t user);

/// nullopt when `directory` ("." is usual) lies on no Sandbar mount; an Error when it does and the mount is another
/// user's, or does not say what it is of (a dead driver, a foreign one).
Result<std::optional<MountedDirectory>> find_mounted_directory(const std::string& directory);

}  // namespace sandbar::client
