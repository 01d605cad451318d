// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sandbar/files.h"
#include "sandbar/process.h"
#include "sandbar/result.h"
#include "sandbar/target.h"

namespace sandbar {

/// What a grant is asked for.
enum class AccessKind : std::uint8_t { files, shell };

struct ClientOptions {
  /// The agent's token; empty: none. Stays in memory, and is sent to this target only.
  std::string token = {};
  /// wss:// only: a PEM file with the certificates to trust, alone; empty: those that the system trusts.
  std::string ca_file = {};
  /// Lets ws:// reach other machines, to which the token and all data then go unencrypted.
  bool insecure = false;
  /// For connecting, the upgrade and the greeting together.
  std::chrono::milliseconds connect_timeout{15'000};
  /// For one exchange with the agent: a file operation, the start of a process, a signal. 0: none. Process::wait()
  /// and Process::write() have no limit.
  std::chrono::milliseconds request_timeout{60'000};
  /// When the connection breaks, come back: calls under way and streams go on where they were, as long as the agent
  /// keeps the session (its --session-lease). Without this the first break is the end.
  bool reconnect = true;
  /// Gets a line for people at each break and when it has ended. Runs on the library's thread, and must not block.
  std::function<void(const std::string& notice)> notices = {};
  /// Instead of `token`, unless empty: a command for /bin/sh that prints {"url","token","expires_at"}, as the
  /// --grant-command of sandbox-exec(1). It is run when no cached grant is good, on a thread of its own, and again
  /// before a grant expires. It is not counted into connect_timeout, but ended after 30 s.
  std::string grant_command = {};
  /// With grant_command: what the client is going to use, in the order of asking; at least one.
  std::vector<AccessKind> access = {AccessKind::files, AccessKind::shell};
};

/// What an agent says of itself.
struct AgentInfo {
  std::string software;   ///< "sandbar 0.1.0"
  std::string root;       ///< the served directory, as the sandbox names it
  std::uint32_t uid = 0;  ///< the agent's identity, with which files are touched and processes run
  std::uint32_t gid = 0;
};

/// A connection to one sandbox. Blocking and thread-safe: any number of threads may use it at once, and their requests
/// share the connection without waiting for each other. It owns one thread, on which output sinks run and signals are
/// blocked.
///
///   auto target = sandbar::Target::parse("ws://127.0.0.1:40123:/src");
///   auto client = sandbar::Client::connect(*target, {.token = token});
///   if (!client) return report(client.error());
///   auto text = client->files().read("/src/README.md");
///
/// Movable; a moved-from Client may only be destroyed or assigned to. The connection ends when the Client and all
/// Files and Processes that came from it are gone. After a break that outlasted the agent's patience, or a restart of
/// the agent, commands that ran are lost (Process::wait() answers Errc::disconnected), and files go on with a new
/// session.
class Client {
 public:
  /// Errc::disconnected (nobody answers there, the command ended), Errc::unauthorized (the token was refused),
  /// Errc::timeout, Errc::protocol (something else answers there, or a certificate is wrong), Errc::invalid (ws:// to
  /// another machine), Errc::unsupported (another version). The message names the target.
  static Result<Client> connect(const Target& target, const ClientOptions& options = {});

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  [[nodiscard]] Files files() const;
  /// Returns when the process has started; its output may come to the sinks before that. Errc::os with the operation
  /// "exec" when the command could not be executed (ENOENT: not found, EACCES: not executable), with another operation
  /// when it did not come to that (a directory that is missing); Errc::invalid for options that can never be right;
  /// Errc::limit for a command line or environment beyond about 190 KiB.
  Result<Process> spawn(ProcessOptions options);

  [[nodiscard]] const AgentInfo& agent() const;
  [[nodiscard]] const Target& target() const;
  /// False while the connection is broken.
  [[nodiscard]] bool connected() const;

 private:
  explicit Client(std::shared_ptr<client::ClientCore> core);
  std::shared_ptr<client::ClientCore> core_;
};

}  // namespace sandbar
