// SPDX-License-Identifier: Apache-2.0
#include "exec_plan.h"

#include <utility>

#include "client/mount_lookup.h"
#include "client/token.h"

namespace sandbar::tools {
namespace {

struct Place {
  Target target;
  std::string token_file = {};  ///< this and the rest: what its mount was given
  std::string grant_command = {};
  std::string ca_file = {};
  bool insecure = false;
};

Result<Place> place_here() {
  auto found = client::find_mounted_directory(".");
  if (!found) return std::move(found).error();
  if (!*found)
    return make_error(Errc::invalid, "",
                      "no TARGET was given, and the working directory does not lie on a Sandbar mount");
  return Place{std::move((*found)->target), std::move((*found)->token_file), std::move((*found)->grant_command),
               std::move((*found)->ca_file), (*found)->insecure};
}

Result<Place> place_of(const ExecArguments& arguments) {
  if (!arguments.target) return place_here();
  auto target = Target::parse(*arguments.target);
  if (!target) return std::move(target).error();
  return Place{std::move(target).value()};
}

}  // namespace

void declare_exec(cli::App& app, ExecArguments& arguments) {
  app.argument("TARGET", arguments.target,
               "the sandbox and its directory: wss://HOST:PORT, ws://HOST:PORT, unix:/PATH or exec:COMMAND, each with "
               ":/DIR if wanted. "
               "Left out: those of the Sandbar mount that the working directory lies on")
      .option("--cwd", arguments.directory, "DIR",
              "run the command there instead; a relative one is seen from TARGET's directory")
      .option("--env", arguments.environment, "NAME=VALUE", "set a variable of the command; may be given again")
      .option("--token-file", arguments.token_file, "FILE",
              "read the agent's token from there, not from SANDBOX_TOKEN; only its owner may have rights on it")
      .option("--grant-command", arguments.grant_command, "CMD",
              "a shell command that prints {\"url\",\"token\",\"expires_at\"}; run when no cached grant is good")
      .option("--ca-file", arguments.ca_file, "FILE",
              "of wss://: trust the certificates in this PEM file, and not those that the system trusts")
      .flag("--insecure", arguments.insecure, "let ws:// send the token and all data to other machines unencrypted")
      .flag("--quiet", arguments.quiet, "no notices when the connection breaks and comes back")
      .section("Exit status",
               "That of the command; 128+N when signal N ended it; 125 when sandbox-exec itself failed (usage, no "
               "connection, connection lost); 126 when the command is not executable; 127 when it was not found.")
      .section("Examples",
               "  cd box/src && sandbox-exec -- make\n"
               "  sandbox-exec ws://127.0.0.1:40123:/src --env CC=clang -- make test\n"
               "  tar c . | sandbox-exec 'exec:ssh HOST sandboxd agent --stdio' -- tar x -C /tmp");
}

std::string resolve_directory(const std::string& base, const std::string& directory) {
  if (directory.empty()) return base;
  if (directory.front() == '/') return directory;
  return client::join_directory(base, "/" + directory);
}

Result<ExecPlan> plan_exec(const ExecArguments& arguments) {
  auto place = place_of(arguments);
  if (!place) return std::move(place).error();
  // What the mount was given comes before SANDBOX_TOKEN, which may be another sandbox's.
  const bool given = !arguments.token_file.empty() || !arguments.grant_command.empty();
  const std::string& file = given ? arguments.token_file : place->token_file;
  client::keep_tokens_out_of_cores();
  ExecPlan plan;
  plan.grant_command = given ? arguments.grant_command : place->grant_command;
  auto token = plan.grant_command.empty() ? client::find_token(file) : std::string();
  client::forget_token_in_environment();
  if (!token) return std::move(token).error();
  plan.directory = resolve_directory(place->target.directory, arguments.directory);
  plan.target = std::move(place->target);
  plan.token = std::move(token).value();
  plan.ca_file = arguments.ca_file.empty() ? std::move(place->ca_file) : arguments.ca_file;
  plan.insecure = arguments.insecure || place->insecure;
  return plan;
}

}  // namespace sandbar::tools
