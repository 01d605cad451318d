// SPDX-License-Identifier: Apache-2.0
#include "sandboxd_agent.h"

#include <cerrno>
#include <ostream>

#include "agent/server.h"
#include "base/duration.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/output.h"
#include "client/token.h"
#include "net/asio_loop.h"
#include "server_process.h"

namespace sandbar::tools {
namespace {

constexpr const char* kProgram = "sandboxd";

/// `hint`: what to do; empty where the error says so itself.
int fail(cli::Io io, const Error& error, std::string_view hint = {}) {
  cli::print_error(io.err, kProgram, error.message() + (hint.empty() ? "" : "; ") + std::string(hint));
  return 1;
}

std::string_view listen_hint(const Error& error) {
  switch (error.os_errno) {
    case 0:
      return {};
    case EADDRINUSE:
      return "choose another port, or port 0 for a free one";
    case EACCES:
      return "choose a port above 1023 or a folder that you may write to";
    case EADDRNOTAVAIL:
      return "choose an address of this machine, as 127.0.0.1:PORT or 0.0.0.0:PORT";
    default:
      return "choose another address";
  }
}

/// None for what is no time, or too long.
std::optional<base::Duration> session_lease(const AgentArguments& arguments) {
  if (!arguments.session_lease) return agent::kSessionLease;
  const auto lease = base::parse_duration(*arguments.session_lease);
  return lease && *lease <= agent::kMaxSessionLease ? lease : std::nullopt;
}

std::optional<int> check_usage(const cli::App& app, const AgentArguments& arguments, cli::Io io) {
  if (!arguments.root) return app.usage_error(io, "--root DIR is missing: which directory to serve");
  if (!arguments.listen && !arguments.stdio) return app.usage_error(io, "--listen ADDR or --stdio is missing");
  if (arguments.listen && arguments.stdio) return app.usage_error(io, "--listen and --stdio exclude each other");
  if (arguments.no_auth && arguments.token_file)
    return app.usage_error(io, "--no-auth and --token-file exclude each other");
  if (!session_lease(arguments))
    return app.usage_error(io,
                           "--session-lease takes a time of at most 7 days, as 90s, 10m or 1h, not \"" +
                               base::printable(*arguments.session_lease) + "\"",
                           *arguments.session_lease, "1h");
  if (arguments.tls_cert.has_value() != arguments.tls_key.has_value())
    return app.usage_error(io, "--tls-cert FILE and --tls-key FILE belong together");
  if (arguments.tls_cert && arguments.stdio) return app.usage_error(io, "--tls-cert is for --listen HOST:PORT");
  if (arguments.tls_cert && arguments.insecure)
    return app.usage_error(io, "--insecure is for an agent without TLS: leave it or --tls-cert out");
  if (arguments.no_auth && !arguments.grant_pubkeys.empty())
    return app.usage_error(io, "--no-auth and --grant-pubkey exclude each other");
  if (arguments.sandbox && arguments.grant_pubkeys.empty())
    return app.usage_error(io, "--sandbox ID is what grants must be for; it needs --grant-pubkey FILE");
  return std::nullopt;
}

/// The token to ask clients for; empty: none. An agent that anybody could reach and use is not started.
Result<std::string> choose_token(const AgentArguments& arguments) {
  if (!arguments.no_auth) {
    auto token = client::find_token(arguments.token_file.value_or(""));
    if (!token || !token->empty() || arguments.stdio || !arguments.grant_pubkeys.empty()) return token;
    return make_error(
        Errc::invalid, "start the agent",
        "there is no token that clients must show; give --token-file FILE or set SANDBOX_TOKEN, give "
        "--grant-pubkey FILE to let in who has a grant, or --no-auth for an address that only this machine "
        "reaches");
  }
  if (!arguments.listen || net::is_local_address(*arguments.listen)) return std::string();
  return make_error(Errc::invalid, "start the agent",
                    "--no-auth is for addresses that only this machine reaches (127.0.0.1:PORT, [::1]:PORT, "
                    "localhost:PORT, unix:PATH), and " +
                        base::printable(*arguments.listen) +
                        " is none; choose one of these, or give --token-file FILE");
}

Result<grant::KeyRing> read_grant_keys(const std::vector<std::string>& files) {
  grant::KeyRing keys;
  for (const std::string& file : files)
    if (auto added = keys.add_file(file); !added) return std::move(added).error();
  return keys;
}

Result<agent::AdmissionOptions> choose_admission(const AgentArguments& arguments) {
  auto token = choose_token(arguments);
  client::forget_token_in_environment();
  if (!token) return std::move(token).error();
  agent::AdmissionOptions admission;
  admission.token = std::move(*token);
  admission.sandbox = arguments.sandbox.value_or("");
  if (arguments.grant_pubkeys.empty()) return admission;
  auto keys = read_grant_keys(arguments.grant_pubkeys);
  if (!keys) return std::move(keys).error();
  admission.grant_keys = std::move(*keys);
  return admission;
}

Result<agent::State> open_state(const AgentArguments& arguments) {
  return arguments.state ? agent::State::open(*arguments.state) : agent::State::temporary();
}

/// The running agent: from the ready line, or from the start of the session, to the end.
class AgentRun {
 public:
  AgentRun(net::AsioLoop& loop, agent::Root& root, const agent::State& state, agent::ServerOptions options,
           StopSignals& signals, const AgentArguments& arguments)
      : loop_(loop), root_(root), server_(loop, root, state, std::move(options)) {
    signals.on_stop(loop, [this] { stop(agent::kShutDownGrace); });
    signals.on_reload(loop, [this, &arguments] { reload(arguments); });
    signals.on_child(loop, [this] { server_.reap_orphans(); });
  }

  int listen(const std::string& address, cli::Io io) {
    auto url = server_.listen(address);
    if (!url) return fail(io, url.error(), listen_hint(url.error()));
    cli::JsonObject ready;
    ready.field("ready", true).field("url", *url).field("root", root_.path());
    io.out << ready.text() << '\n' << std::flush;
    if (!io.out) return fail(io, make_error(Errc::invalid, "print the ready line", "stdout does not take it"));
    loop_.run();
    return 0;
  }

  int serve_stdio(StdioPair stdio, cli::Io io) {
    int code = 0;
    server_.serve_stdio(std::move(stdio.in), std::move(stdio.out), [&, this](Result<void> ended) {
      if (!ended) code = fail(io, ended.error());
      stop(agent::kHangUpGrace);
    });
    loop_.run();
    return code;
  }

 private:
  /// Each is read again for itself: one that cannot be used leaves the other's news in place.
  void reload(const AgentArguments& arguments) {
    if (arguments.tls_cert) reload_certificate();
    if (!arguments.grant_pubkeys.empty()) reload_keys(arguments.grant_pubkeys);
  }
  void reload_certificate() {
    if (const auto reloaded = server_.reload_tls(); reloaded)
      base::log_info("the TLS certificate was read again");
    else
      base::log_error(reloaded.error().message() + "; the old certificate stays in use");
  }
  void reload_keys(const std::vector<std::string>& files) {
    auto keys = read_grant_keys(files);
    if (!keys) return base::log_error("the grant keys stay as they were: " + keys.error().message());
    base::log_info("read " + std::to_string(keys->size()) + " grant keys again");
    server_.set_grant_keys(std::move(*keys));
  }

  /// The second request to stop does not wait for anybody.
  void stop(base::Duration grace) {
    if (std::exchange(stopping_, true)) return loop_.stop();
    server_.shut_down(grace, [this] { loop_.stop(); });
  }

  net::AsioLoop& loop_;
  agent::Root& root_;
  agent::AgentServer server_;
  bool stopping_ = false;
};

}  // namespace

void declare_agent(cli::App& app, AgentArguments& into) {
  app.option("--root", into.root, "DIR", "the directory to serve; its clients reach no file outside")
      .option("--listen", into.listen, "ADDR", "HOST:PORT (port 0 picks a free one) or unix:PATH")
      .flag("--stdio", into.stdio, "serve one client on stdin and stdout instead")
      .option("--state", into.state, "DIR",
              "keeps who this agent is, and what clients did, across its starts; made when missing")
      .option("--token-file", into.token_file, "FILE", "holds the token that clients must show (else SANDBOX_TOKEN)")
      .option("--grant-pubkey", into.grant_pubkeys, "FILE",
              "let in who has a grant that a key of this file signed (sandboxd keygen, sandboxd grant); may be given "
              "again; SIGHUP reads the files again")
      .option("--sandbox", into.sandbox, "ID", "take grants for this sandbox only (sandboxd grant --sandbox ID)")
      .option("--session-lease", into.session_lease, "TIME",
              "how long a client may stay away when its connection is lost, and still find its commands, open files "
              "and streams: 30, 90s, 10m, 1h (the default), 7d at most; 0: not at all")
      .flag("--no-auth", into.no_auth, "ask for no token: only on loopback addresses, Unix sockets and stdio")
      .option("--tls-cert", into.tls_cert, "FILE", "speak TLS (wss://): the certificate and its chain, PEM")
      .option("--tls-key", into.tls_key, "FILE", "the certificate's key, PEM; SIGHUP reads both files again")
      .flag("--insecure", into.insecure, "listen without TLS on addresses that other machines reach");
  app.section("Exit codes",
              "0 after SIGTERM, SIGINT or (without --tls-cert and --grant-pubkey) SIGHUP, and when the client of "
              "--stdio has gone; 1 failed; 2 usage.");
}

int run_agent(const cli::App& app, const AgentArguments& arguments, cli::Io io) {
  if (const auto code = check_usage(app, arguments, io)) return *code;
  base::set_log_program(kProgram);
  fill_standard_descriptors();
  auto admission = choose_admission(arguments);
  if (!admission) return fail(io, admission.error());

  agent::ServerOptions options;
  options.admission = std::move(*admission);
  options.session_lease = *session_lease(arguments);
  options.tls_certificate = arguments.tls_cert.value_or("");
  options.tls_key = arguments.tls_key.value_or("");
  options.insecure = arguments.insecure;
  options.processes.defaults = raise_limits();
  options.processes.reap_orphans = is_init();
  auto root = agent::Root::open(*arguments.root);
  if (!root) return fail(io, root.error(), "--root is a directory that exists and that you may read");
  auto state = open_state(arguments);
  if (!state) return fail(io, state.error());

  net::AsioLoop loop;
  // With --stdio a hang-up is the client's end. Before there are threads: they inherit the mask.
  const bool reloads = !arguments.stdio && (arguments.tls_cert || !arguments.grant_pubkeys.empty());
  StopSignals signals(reloads ? StopSignals::HangUp::reloads : StopSignals::HangUp::stops);
  AgentRun run(loop, **root, *state, std::move(options), signals, arguments);
  return arguments.stdio ? run.serve_stdio(take_stdio(), io) : run.listen(*arguments.listen, io);
}

}  // namespace sandbar::tools
