// SPDX-License-Identifier: Apache-2.0
#include "sandbox_mount_main.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "cli/app.h"
#include "cli/output.h"
#include "client/grant_source.h"
#include "client/token.h"
#include "daemonize.h"
#include "id_map_file.h"
#include "mount_driver.h"
#include "mount_options.h"
#include "mount_point.h"
#include "stored_link.h"

namespace sandbar::tools {
namespace {

constexpr const char* kProgram = "sandbox-mount";

struct CommandLine {
  std::string target;
  std::string directory;
  std::vector<std::string> options;
  std::optional<std::string> token_file;
  std::optional<std::string> ca_file;
  bool insecure = false;
  std::optional<std::string> grant_command;
  std::optional<std::string> readlink;
  bool foreground = false;
  bool quiet = false;
  bool sloppy = false;  ///< mount(8)'s -s
  bool fake = false;    ///< mount(8)'s -f
};

bool is_mount_helper(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return name.substr(slash == std::string_view::npos ? 0 : slash + 1).starts_with("mount.");
}

/// mount(8) gives its helpers options of its own (mount(8), "External helpers"): -f is not ours there.
std::vector<const char*> without_mount_options(int argc, const char* const* argv, CommandLine& line) {
  std::vector<const char*> words{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool letters = word.size() > 1 && word[0] == '-' && word.find_first_not_of("sfnv", 1) == std::string::npos;
    if (letters) {
      line.sloppy = line.sloppy || word.find('s') != std::string_view::npos;
      line.fake = line.fake || word.find('f') != std::string_view::npos;
    } else if ((word == "-N" || word == "-t") && i + 1 < argc) {
      ++i;
    } else {
      words.push_back(argv[i]);
    }
  }
  return words;
}

void declare(cli::App& app, CommandLine& line) {
  app.argument("TARGET", line.target,
               "which sandbox and which directory of it: wss://HOST[:PORT][:/DIR], ws://HOST[:PORT][:/DIR], "
               "unix:/SOCKET[:/DIR], "
               "exec:COMMAND[:/DIR]")
      .argument("DIR", line.directory, "an empty directory, where the sandbox's is to appear")
      .option("-o", line.options, "OPT[,OPT...]", "mount options, see below; may be given again")
      .option("--token-file", line.token_file, "FILE",
              "a file of yours alone (chmod 600) with the token; without it SANDBOX_TOKEN is taken")
      .option("--ca-file", line.ca_file, "FILE",
              "of wss://: trust the certificates in this PEM file, and not those that the system trusts")
      .flag("--insecure", line.insecure, "let ws:// send the token and all data to other machines unencrypted")
      .option("--grant-command", line.grant_command, "CMD",
              "a shell command that prints {\"url\",\"token\",\"expires_at\"}; run when no cached grant is good")
      .option("--readlink", line.readlink, "PATH",
              "print the target of a symbolic link in a mount as the sandbox stores it, and mount nothing")
      .flag("-f,--foreground", line.foreground, "stay in the foreground; Ctrl-C unmounts")
      .flag("--quiet", line.quiet, "no notices, errors only")
      .section("Mount options", mount_option_rows())
      .section("Exit codes", "0 mounted (with -f: unmounted), 1 failed, 2 usage.")
      .section("Examples",
               "  sandbox-mount ws://127.0.0.1:7070:/workspace box --token-file token\n"
               "  sandbox-mount 'exec:ssh host sandboxd agent --stdio --root /srv' box\n"
               "  umount box");
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path full = std::filesystem::absolute(path, ignored);
  return ignored ? path : full.lexically_normal().string();
}

/// Where tokens come from: a command, a file, or the environment, in which nothing of it stays. Nothing is run here,
/// and no thread started.
Result<std::shared_ptr<client::GrantSource>> take_grants(const Target& target, const MountRequest& request) {
  client::keep_tokens_out_of_cores();
  auto token = request.grant_command.empty() ? client::find_token(request.token_file) : std::string();
  client::forget_token_in_environment();
  if (!token) return std::move(token).error();
  if (!request.grant_command.empty())
    return client::make_command_source({.command = request.grant_command, .target = target});
  return client::make_fixed_source(std::move(*token), request.token_file.empty() ? "" : absolute(request.token_file));
}

DriverOptions driver_options(const Target& target, const MountRequest& request, const IdMapFile& ids,
                             const std::string& point, std::shared_ptr<client::GrantSource> grants) {
  DriverOptions options;
  options.target = target;
  options.grants = std::move(grants);
  options.files.timeout = std::chrono::seconds(request.timeout_seconds);
  options.files.id_map = request.id_map;
  options.files.uid_ranges = ids.uids;
  options.files.gid_ranges = ids.gids;
  options.files.uid = ::getuid();
  options.files.gid = ::getgid();
  options.files.read_only = request.read_only;
  options.files.safe_links = request.safe_links;
  options.files.directory = target.directory;
  options.files.target = target.text();
  if (!request.token_file.empty()) options.files.token_file = absolute(request.token_file);
  if (!request.ca_file.empty()) options.files.ca_file = absolute(request.ca_file);
  options.ca_file = options.files.ca_file;
  options.insecure = options.files.insecure = request.insecure;
  options.files.grant_command = request.grant_command;
  options.session.max_read = request.max_read;
  options.session.own_uid = ::getuid();
  options.session.own_uid_is_mapped = request.id_map == vfs::IdMapMode::user;
  options.session.root_may_be_another = request.id_map == vfs::IdMapMode::ranges;
  options.mount.mount_point = point;
  options.mount.source = target.text();
  options.mount.allow_other = request.allow_other;
  options.mount.no_symlink_follow = request.no_symlink_follow;
  options.mount.max_read = request.max_read;
  options.mount.flags = request.flags;
  return options;
}

int failed(cli::Io io, const Error& error) {
  cli::print_error(io.err, kProgram, error);
  return 1;
}

int mount(const CommandLine& line, const Target& target, const MountRequest& request, const IdMapFile& ids,
          cli::Io io) {
  auto grants = take_grants(target, request);
  if (!grants) return failed(io, grants.error());
  auto point = prepare_mount_point(line.directory, request.nonempty);
  if (!point) return failed(io, point.error());
  if (auto usable = check_fuse(request.allow_other); !usable) return failed(io, usable.error());
  if (line.fake) return 0;
  DriverOptions options = driver_options(target, request, ids, *point, std::move(*grants));
  if (line.foreground) return run_driver(std::move(options), StartReport(kProgram, io));
  Background background = go_to_background(kProgram, io);
  if (!background.in_child) return background.exit_code;
  options.background = true;
  // Not through exit(): what the parent's objects would flush or remove at their end is the parent's.
  ::_exit(run_driver(std::move(options), StartReport(kProgram, io, std::move(background.pipe))));
}

}  // namespace

int sandbox_mount_main(int argc, const char* const* argv, cli::Io io) {
  open_standard_streams();
  CommandLine line;
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 0 && is_mount_helper(argv[0])) words = without_mount_options(argc, argv, line);
  cli::App app({.program = kProgram,
                .summary = "Mounts a directory of a sandbox, so that ordinary programs work in it. Returns when the "
                           "mount is usable; unmount it with umount or fusermount3 -u."});
  if (asks_for_link(words)) return print_stored_link(words, kProgram, io);
  declare(app, line);
  if (const auto code = app.parse(static_cast<int>(words.size()), words.data(), io)) return *code;
  base::set_log_program(kProgram);
  if (line.quiet) base::set_log_level(base::LogLevel::error);
  auto target = Target::parse(line.target);
  if (!target) return app.usage_error(io, target.error().message());
  MountRequest request;
  for (const std::string& options : line.options)
    if (auto parsed = parse_mount_options(options, line.sloppy, request); !parsed)
      return app.usage_error(io, parsed.error().message());
  if (line.token_file) request.token_file = *line.token_file;
  if (line.ca_file) request.ca_file = *line.ca_file;
  request.insecure = request.insecure || line.insecure;
  if (line.grant_command) request.grant_command = *line.grant_command;
  if (!request.token_file.empty() && !request.grant_command.empty())
    return app.usage_error(io, "a token file and a grant command exclude each other");
  if (request.grant_command.size() > client::kMaxGrantCommand)
    return app.usage_error(io, "the grant command is longer than 4096 bytes; put it into a script");
  IdMapFile ids;
  if (!request.id_map_file.empty()) {
    auto read = read_id_map(request.id_map_file);
    if (!read) return app.usage_error(io, read.error().message());
    ids = std::move(*read);
  }
  return mount(line, *target, request, ids, io);
}

}  // namespace sandbar::tools
