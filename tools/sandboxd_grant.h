// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app.h"
#include "cli/io.h"
#include "sandbar/result.h"

/// The verbs of sandboxd for whoever runs only an agent, without a control plane that signs grants.
namespace sandbar::tools {

struct GrantArguments {
  std::optional<std::string> key;
  std::string kind;
  std::uint64_t port = 0;
  std::string sandbox;
  std::optional<std::string> subject;
  std::vector<std::string> uids;
  std::vector<std::string> gids;
  std::string ttl = "10m";
  std::string output;
};

void declare_grant(cli::App& app, GrantArguments& into);
/// Prints the token, and nothing else, on io.out; with `-o json` {"token","expires_at","key_id"}. The exit code.
int run_grant(const cli::App& app, const GrantArguments& arguments, cli::Io io);

struct KeygenArguments {
  std::optional<std::string> key;
};

void declare_keygen(cli::App& app, KeygenArguments& into);
/// Writes FILE (mode 0600) and FILE.pub, and prints the key's id. Refuses to overwrite either; where it fails, neither
/// is left. The exit code.
int run_keygen(const cli::App& app, const KeygenArguments& arguments, cli::Io io);

/// "90", "90s", "10m", "1h", "30d" as seconds, 1 to grant::kMaxLife. Errc::invalid for anything else.
Result<std::int64_t> parse_ttl(std::string_view text);

}  // namespace sandbar::tools
