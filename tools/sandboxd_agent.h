// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/io.h"

namespace sandbar::tools {

struct AgentArguments {
  std::optional<std::string> root;
  std::optional<std::string> listen;
  bool stdio = false;
  std::optional<std::string> state;
  std::optional<std::string> token_file;
  std::vector<std::string> grant_pubkeys;
  std::optional<std::string> sandbox;
  bool no_auth = false;
  std::optional<std::string> session_lease;
  std::optional<std::string> tls_cert;
  std::optional<std::string> tls_key;
  bool insecure = false;
};

void declare_agent(cli::App& app, AgentArguments& into);

/// `sandboxd agent`, from parsed words to the exit code. Changes what belongs to the whole process (signals, umask,
/// limits, with --stdio also descriptors 0 and 1): a test runs it in a child.
int run_agent(const cli::App& app, const AgentArguments& arguments, cli::Io io);

}  // namespace sandbar::tools
