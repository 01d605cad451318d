// SPDX-License-Identifier: Apache-2.0
#include "sandboxd_main.h"

#include "cli/app.h"
#include "sandboxd_agent.h"
#include "sandboxd_grant.h"

namespace sandbar::tools {

int sandboxd_main(int argc, const char* const* argv, cli::Io io) {
  cli::App app({.program = "sandboxd", .summary = "The side of Sandbar that runs in the sandbox."});
  AgentArguments arguments;
  cli::App& agent =
      app.verb("agent", "Serves a directory and commands of this machine to sandbox-mount and sandbox-exec.");
  declare_agent(agent, arguments);
  GrantArguments grant_arguments;
  cli::App& grant =
      app.verb("grant", "Signs a grant: prints a token with which a client may use a sandbox for a while.");
  declare_grant(grant, grant_arguments);
  KeygenArguments keygen_arguments;
  cli::App& keygen = app.verb("keygen", "Makes the key that signs grants, and the public one that agents are given.");
  declare_keygen(keygen, keygen_arguments);
  if (const auto code = app.parse(argc, argv, io)) return *code;
  if (app.chosen() == "grant") return run_grant(grant, grant_arguments, io);
  if (app.chosen() == "keygen") return run_keygen(keygen, keygen_arguments, io);
  return run_agent(agent, arguments, io);
}

}  // namespace sandbar::tools
