// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agent/admission.h"
#include "agent/agent_session.h"
#include "agent/journal.h"
#include "agent/process_service.h"
#include "agent/root.h"
#include "agent/state.h"
#include "agent/worker_pool.h"
#include "base/function.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "net/listen.h"

namespace sandbar::agent {

/// Clients at a time; each can make the agent hold tens of megabytes (wire/limits.h). Further ones get a goodbye.
constexpr std::size_t kMaxSessions = 256;
/// From SIGHUP to SIGKILL for processes when the agent itself ends: service managers allow little more.
constexpr base::Duration kShutDownGrace = std::chrono::seconds(5);

struct ServerOptions {
  AdmissionOptions admission;
  ProcessServiceOptions processes;
};

/// One agent: its listener, its services and its sessions. On the loop's thread; workers end before the root goes.
class AgentServer {
 public:
  AgentServer(base::Loop& loop, Root& root, const State& state, ServerOptions options);
  ~AgentServer();
  AgentServer(const AgentServer&) = delete;
  AgentServer& operator=(const AgentServer&) = delete;

  /// Returns the url for clients. Errors name the address.
  Result<std::string> listen(const std::string& address);
  /// One session over a pair of descriptors; `over` runs once when it has ended, with an error where none began.
  void serve_stdio(base::UniqueFd in, base::UniqueFd out, base::Function<void(Result<void>)> over);
  /// A client that was let in; `request` is what it showed.
  void adopt(std::unique_ptr<net::Transport> transport, const net::UpgradeRequest& request);
  /// For clients that come from now on.
  void set_grant_keys(grant::KeyRing keys) { admission_.set_grant_keys(std::move(keys)); }

  /// Stops listening, says goodbye to all, hangs processes up (SIGKILL after `grace`); `done` runs when all is over.
  void shut_down(base::Duration grace, base::Task done);
  void reap_orphans() { processes_.reap_orphans(); }
  [[nodiscard]] std::size_t sessions() const { return sessions_.size(); }

 private:
  net::ListenOptions listen_options();
  void on_closed(SessionKey key, const Error& reason);
  void check_shut_down();

  base::Loop& loop_;
  Admission admission_;
  Journals journals_;
  WorkerPool pool_;
  ProcessService processes_;
  AgentServices services_;
  std::uint64_t last_key_ = 0;
  std::map<SessionKey, std::unique_ptr<AgentSession>> sessions_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::StdioServer> stdio_;
  base::Function<void(Result<void>)> stdio_over_;
  bool processes_over_ = false;
  base::Task shut_down_done_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace sandbar::agent
