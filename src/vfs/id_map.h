// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "vfs/file_system.h"

namespace sandbar::vfs {

/// Numbers of users and groups here and in the sandbox. `none` changes nothing. `user` pairs the mounting user with the
/// agent's own user, both ways, and leaves the others: so an id that has the number of the pair's other half is
/// *shadowed*. It is shown as kNobody, and cannot be given to a file. A value; any thread.
class IdMap {
 public:
  /// The kernel's overflowuid, "nobody" on Debian.
  static constexpr std::uint32_t kNobody = 65534;

  IdMap(const Options& options, const wire::Hello& agent);

  [[nodiscard]] std::uint32_t shown_uid(std::uint32_t remote) const { return shown(uid_, remote); }
  [[nodiscard]] std::uint32_t shown_gid(std::uint32_t remote) const { return shown(gid_, remote); }
  /// None for a shadowed id.
  [[nodiscard]] std::optional<std::uint32_t> remote_uid(std::uint32_t shown) const { return remote(uid_, shown); }
  [[nodiscard]] std::optional<std::uint32_t> remote_gid(std::uint32_t shown) const { return remote(gid_, shown); }
  /// A shadowed caller acts as nobody; a shadowed group is left out.
  [[nodiscard]] wire::Caller remote_caller(const Caller& caller) const;

 private:
  struct Pair {
    std::uint32_t local = 0;
    std::uint32_t remote = 0;
  };
  static std::uint32_t shown(Pair pair, std::uint32_t id);
  static std::optional<std::uint32_t> remote(Pair pair, std::uint32_t id);

  // A pair of equal numbers maps nothing.
  Pair uid_;
  Pair gid_;
};

}  // namespace sandbar::vfs
