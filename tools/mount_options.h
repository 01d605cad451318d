// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help.h"
#include "sandbar/result.h"
#include "vfs/file_system.h"

namespace sandbar::tools {

/// What the -o options of sandbox-mount say.
struct MountRequest {
  std::string token_file;     ///< as given; empty: none
  std::string grant_command;  ///< for /bin/sh; empty: none
  std::string ca_file;        ///< as given; empty: none
  bool insecure = false;
  std::uint64_t timeout_seconds = 60;  ///< 1..86400
  vfs::IdMapMode id_map = vfs::IdMapMode::user;
  std::string id_map_file;  ///< idmap=FILE: as given
  bool nonempty = false;    ///< the mount point may hold something
  bool allow_other = false;
  bool read_only = false;
  bool safe_links = true;          ///< symlinks=safe, not raw
  bool no_symlink_follow = false;  ///< nosymfollow
  std::uint32_t max_read = 0;      ///< bytes, a multiple of 4096; 0: not given
  std::vector<std::string> flags;  ///< for the kernel, in order: "ro", "noexec"
};

/// Adds the comma-separated options of one -o to `request`; later ones win. A comma or a backslash inside a value is
/// written with a backslash in front. Errc::invalid with what is wrong and the nearest real option; with `sloppy`
/// (mount(8)'s -s) unknown options are left out.
Result<void> parse_mount_options(std::string_view text, bool sloppy, MountRequest& request);

/// The options for --help: what each does.
std::vector<cli::HelpRow> mount_option_rows();

}  // namespace sandbar::tools
