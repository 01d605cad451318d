// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbar/result.h"
#include "vfs/file_system.h"

namespace sandbar::tools {

/// The file of `idmap=FILE` (sandbox-mount(1), "MAP FILE").
struct IdMapFile {
  static constexpr std::size_t kMaxLines = 4096;
  static constexpr std::size_t kMaxSize = 256 * 1024;  ///< bytes

  std::vector<vfs::IdRange> uids;
  std::vector<vfs::IdRange> gids;
};

/// The names of this machine's users and groups.
class LocalNames {
 public:
  virtual ~LocalNames() = default;
  [[nodiscard]] virtual std::optional<std::uint32_t> uid(const std::string& name) const = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> gid(const std::string& name) const = 0;
};

/// Errc::invalid with `file`, the line and the reason.
Result<IdMapFile> parse_id_map(std::string_view text, const std::string& file, const LocalNames& names);

/// Reads and parses `file`, with getpwnam(3) and getgrnam(3) for names; those of the file system for one that cannot be
/// read.
Result<IdMapFile> read_id_map(const std::string& file);

}  // namespace sandbar::tools
