// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "client/grant_worker.h"
#include "sandbar/result.h"
#include "wire/grant_heads.h"

namespace sandbar::client {

struct GrantCommand {
  std::string command;
  GrantKind kind = GrantKind::files;
  std::uint16_t port = 0;
  std::string target;  ///< Target::address()
  std::chrono::milliseconds time_limit{30'000};
};

/// What is kept of the standard error of a command, bytes: its end.
constexpr std::size_t kMaxCommandComplaint = 1024;

/// Runs `/bin/sh -c COMMAND` in a session of its own (it cannot ask the terminal), with /dev/null as its standard
/// input, our environment without SANDBOX_TOKEN but with SANDBAR_GRANT_KIND, SANDBAR_GRANT_TARGET and for a port
/// SANDBAR_GRANT_PORT, and reads the wire::GrantAnswer that it prints. Blocks until the command has ended, not its
/// background children; it and what it left is then killed, as when the time is over, when it prints more than
/// wire::kMaxGrantAnswer, and when `cancellation` comes.
///
/// Errc::disconnected where it fails, with the end of what it wrote to its standard error, and where its answer cannot
/// be used; Errc::timeout; Errc::cancelled. Nothing of its standard output is in an error.
Result<wire::GrantAnswer> run_grant_command(const GrantCommand& command, const Cancellation& cancellation);

}  // namespace sandbar::client
