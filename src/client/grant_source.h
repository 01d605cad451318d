// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/one_shot.h"
#include "sandbar/target.h"
#include "wire/instant.h"

/// Where the tokens come from that a client shows: a file, the environment, a command; later the control plane.
///
/// Whoever connects does this, on the loop's thread:
///   1. get() with Reason::first, before each connect (a cached grant costs one small file), and connects with the
///   token;
///   2. where the connect fails with Errc::unauthorized: get() with Reason::refused and the token that was refused,
///      once; on success it connects again, and on an error that error is the reason. A source never answers with the
///      stale token again, so there is no loop in this;
///   3. over a session that stands, GrantKeeper (grant_keeper.h) attaches further kinds, and renews before the end.
namespace sandbar::client {

enum class GrantKind : std::uint8_t { files, shell, port };

std::string_view grant_kind_name(GrantKind kind) noexcept;

struct GrantWant {
  enum class Reason : std::uint8_t { first, expired, refused };

  GrantKind kind = GrantKind::files;
  std::uint16_t port = 0;  ///< GrantKind::port
  Reason reason = Reason::first;
  std::string stale;  ///< the token that has expired, soon will have, or was refused; empty with Reason::first
};

/// A token and its life. It goes into one header or one request, and nowhere else.
struct GrantToken {
  std::string token;  ///< empty: the client has none and shows none
  /// Where it is known. The client's clock may be wrong: this decides when to ask for another, not what is allowed.
  std::optional<wire::Instant> expires_at;
  wire::Instant fetched_at;  ///< with `expires_at`
};

/// When less than this is left a grant is renewed: a fifth of its life, at most 60 s, at least 1 s.
std::uint64_t renewal_margin(wire::Instant fetched_at, wire::Instant expires_at) noexcept;

/// A get() under way; destroying it gives up (a command that runs for nobody else is killed) and drops `done`.
class PendingGrant {
 public:
  virtual ~PendingGrant() = default;
};

/// Thread-safe where each caller uses a loop of its own. The loop's thread is never blocked: files, locks and commands
/// are a thread's. The loop must outlive what get() returned.
class GrantSource {
 public:
  virtual ~GrantSource() = default;
  /// `done` never runs inside this call. Errc::unauthorized where there is no other token than the stale one;
  /// Errc::disconnected or Errc::timeout where none could be fetched now (trying later may help); no error and no log
  /// line has a token in it.
  virtual std::unique_ptr<PendingGrant> get(base::Loop& loop, GrantWant want, base::OneShot<GrantToken> done) = 0;
};

/// `token` at first (empty: none); when it was refused or has expired, what `file` holds by then (empty: none, as for a
/// token of the environment). `file` should be absolute. One that is a pipe is not read again.
std::shared_ptr<GrantSource> make_fixed_source(std::string token, std::string file);

/// Bytes of a command: what an extended attribute of the mount can tell to other tools.
constexpr std::size_t kMaxGrantCommand = 4096;

struct GrantCommandOptions {
  std::string command;  ///< for /bin/sh -c
  Target target;        ///< whom the tokens are for
  /// Of one run.
  base::Duration time_limit = std::chrono::seconds(30);
};

/// What a command prints: {"url":..., "token":..., "expires_at":...}; cached across processes, and run once for however
/// many wait for the same. See grant_command.h for how it is run and grant_cache.h for where its answers are kept.
/// `url` may be left out. The token of an answer whose url is not of the target's origin is not used where the target
/// is a ws:// address: it was made for another server. A target that is a local socket or a command has no origin.
std::shared_ptr<GrantSource> make_command_source(GrantCommandOptions options);

}  // namespace sandbar::client
