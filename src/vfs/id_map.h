// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vfs/file_system.h"

namespace sandbar::vfs {

/// Numbers of one kind (users or groups) here and in the sandbox. A value; any thread.
class IdNumbers {
 public:
  /// All are as they are.
  IdNumbers() = default;
  /// One pair, both ways; others are as they are, but one that has the number of the pair's other half stands for none.
  IdNumbers(std::uint32_t local, std::uint32_t remote);
  /// Those alone. Ranges that overlap no other on either side.
  explicit IdNumbers(std::vector<IdRange> ranges);

  /// None where no number of the other side stands for it.
  [[nodiscard]] std::optional<std::uint32_t> local(std::uint32_t remote) const;
  [[nodiscard]] std::optional<std::uint32_t> remote(std::uint32_t local) const;
  [[nodiscard]] bool changes_nothing() const { return others_ && by_local_.empty(); }

 private:
  bool others_ = true;  ///< numbers beyond the ranges are as they are
  std::vector<IdRange> by_local_;
  std::vector<IdRange> by_remote_;
};

/// Users and groups here and in the sandbox. `none` changes nothing. `user` pairs the mounting user with the agent's
/// own user, both ways, and leaves the others: so an id that has the number of the pair's other half is *shadowed*.
/// `ranges` knows those of its ranges. An id that stands for none is shown as kNobody, and cannot be given to a file.
///
/// An agent that is not root acts as its own user for every caller; the caller's kernel has checked the permissions.
/// A value; any thread.
class IdMap {
 public:
  /// The kernel's overflowuid, "nobody" on Debian.
  static constexpr std::uint32_t kNobody = 65534;

  IdMap(const Options& options, const wire::Hello& agent);

  [[nodiscard]] std::uint32_t shown_uid(std::uint32_t remote) const { return uids_.local(remote).value_or(kNobody); }
  [[nodiscard]] std::uint32_t shown_gid(std::uint32_t remote) const { return gids_.local(remote).value_or(kNobody); }
  /// None for an id that stands for none of the sandbox.
  [[nodiscard]] std::optional<std::uint32_t> remote_uid(std::uint32_t shown) const { return uids_.remote(shown); }
  [[nodiscard]] std::optional<std::uint32_t> remote_gid(std::uint32_t shown) const { return gids_.remote(shown); }
  [[nodiscard]] bool changes_nothing() const { return uids_.changes_nothing() && gids_.changes_nothing(); }
  /// A caller that stands for none acts as nobody; such a group is left out.
  [[nodiscard]] wire::Caller remote_caller(const Caller& caller) const;

 private:
  IdNumbers uids_;
  IdNumbers gids_;
  bool agent_is_root_;
  bool only_known_act_;  ///< also where the agent is not root
  std::uint32_t agent_uid_;
  std::uint32_t agent_gid_;
};

}  // namespace sandbar::vfs
