// SPDX-License-Identifier: Apache-2.0
#include "sandboxd_main.h"

#include "cli/app.h"
#include "sandboxd_agent.h"

namespace sandbar::tools {

int sandboxd_main(int argc, const char* const* argv, cli::Io io) {
  cli::App app({.program = "sandboxd", .summary = "The side of Sandbar that runs in the sandbox."});
  AgentArguments arguments;
  cli::App& agent =
      app.verb("agent", "Serves a directory and commands of this machine to sandbox-mount and sandbox-exec.");
  declare_agent(agent, arguments);
  if (const auto code = app.parse(argc, argv, io)) return *code;
  return run_agent(agent, arguments, io);
}

}  // namespace sandbar::tools
