// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "sandbar/result.h"
#include "sandbar/target.h"

namespace sandbar::tools {

/// sandbox-exec's command line, as it was given.
struct ExecArguments {
  std::optional<std::string> target;
  std::string directory;  ///< --cwd
  std::vector<std::string> environment;
  std::string token_file;
  std::string grant_command;
  bool quiet = false;
  std::string ca_file;
  bool insecure = false;
  std::vector<std::string> command;
};

/// Declares the options and arguments of sandbox-exec; `arguments` is filled by app.parse().
void declare_exec(cli::App& app, ExecArguments& arguments);

/// What to run, and where.
struct ExecPlan {
  Target target;
  std::string directory;      ///< in the sandbox
  std::string token;          ///< empty where there is a grant command
  std::string grant_command;  ///< empty: none
  std::string ca_file;
  bool insecure = false;
};

/// Resolves what the command line left open, without any connection: TARGET and directory from the mount on which the
/// working directory lies, the token from its file or the environment.
Result<ExecPlan> plan_exec(const ExecArguments& arguments);

/// `directory` as seen from `base`: itself where it is absolute or `base` where it is empty.
std::string resolve_directory(const std::string& base, const std::string& directory);

}  // namespace sandbar::tools
