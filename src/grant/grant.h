// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbar/result.h"

/// Signed grants: who may do what on a sandbox, until when. Plain values; no clock, no file but keys, no thread.
namespace sandbar::grant {

enum class Kind : std::uint8_t { files, shell, port };

/// "files", "shell", "port".
std::string_view kind_name(Kind kind) noexcept;
std::optional<Kind> kind_from_name(std::string_view name) noexcept;

/// Seconds since 1970, UTC.
using UnixTime = std::int64_t;
/// CLOCK_REALTIME.
UnixTime unix_now() noexcept;

/// How far the clocks of whoever signs and whoever checks may be apart.
constexpr UnixTime kClockLeeway = 5;
/// The longest life of a grant.
constexpr UnixTime kMaxLife = 30 * 24 * 3600;

/// What one token allows: one kind of access, to one subject, for a while.
struct Grant {
  std::string key_id;  ///< of the key that signed it
  Kind kind = Kind::files;
  std::string sandbox;     ///< empty: any agent that trusts the key
  std::uint16_t port = 0;  ///< Kind::port: which one; otherwise 0
  /// For whom: printable ASCII without spaces, 1..wire::kMaxGrantName bytes. Sessions, and what is attached to them,
  /// belong to a subject.
  std::string subject;
  std::optional<std::vector<std::uint32_t>> uids;  ///< users that it may act as; none: any
  /// Groups that it may act with, beside those of the agent itself; none: any where `uids` is none, else those whose
  /// numbers are in `uids` (users with a group of their own).
  std::optional<std::vector<std::uint32_t>> gids;
  UnixTime issued = 0;
  UnixTime expires = 0;
  bool operator==(const Grant&) const = default;
};

/// Errc::invalid with what is wrong: a port that does not fit the kind, a name that is none, a life that is none.
Result<void> check(const Grant& grant);

[[nodiscard]] bool has_expired(const Grant& grant, UnixTime now) noexcept;
[[nodiscard]] bool allows_user(const Grant& grant, std::uint32_t uid) noexcept;
[[nodiscard]] bool allows_group(const Grant& grant, std::uint32_t gid) noexcept;

}  // namespace sandbar::grant
