// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/access.h"
#include "grant/keys.h"
#include "sandbar/result.h"

namespace sandbar::agent {

struct AdmissionOptions {
  std::string token;                         ///< shared by all clients; empty: none
  std::optional<grant::KeyRing> grant_keys;  ///< whose grants let in; none: no grant does
  std::string sandbox;                       ///< what grants must be for; empty: they may be for any
  std::function<grant::UnixTime()> clock = grant::unix_now;
};

/// Who is let in, and with what. With neither a token nor keys everybody is, and may do everything. On the loop's
/// thread.
class Admission {
 public:
  explicit Admission(AdmissionOptions options) : options_(std::move(options)) {}

  /// What the bearer of `token` may do. Errc::unauthorized where he is not let in, without the token.
  [[nodiscard]] Result<Access> admit(std::string_view token) const;
  /// Adds what `token` grants to a session's access. For one that may do everything its own kind of token changes
  /// nothing. Errc::unauthorized as admit(), and for a token of another subject.
  Result<void> authorize(Access& access, std::string_view token) const;

  /// From now on; sessions keep the grants that they have.
  void set_grant_keys(grant::KeyRing keys) { options_.grant_keys = std::move(keys); }
  [[nodiscard]] grant::UnixTime now() const { return options_.clock(); }

 private:
  [[nodiscard]] Result<grant::Grant> verify(std::string_view token) const;

  AdmissionOptions options_;
};

}  // namespace sandbar::agent
