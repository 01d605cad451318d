// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
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
#include "mux/greeter.h"
#include "net/listen.h"

namespace sandbar::agent {

/// Clients at a time; each can make the agent hold tens of megabytes (wire/limits.h). A further one takes the place of
/// the session that has been without a connection for longest, or gets a goodbye.
constexpr std::size_t kMaxSessions = 256;
/// What all sessions without a connection may hold for their clients, bytes; beyond, the oldest are given up.
constexpr std::size_t kMaxDetachedBytes = 256 * 1024 * 1024;
/// How long a session is kept without a connection, by default, and at most.
constexpr base::Duration kSessionLease = std::chrono::hours(1);
constexpr base::Duration kMaxSessionLease = std::chrono::hours(24 * 7);
/// From the connection to the client's hello.
constexpr base::Duration kGreetingTime = std::chrono::seconds(10);
/// From SIGHUP to SIGKILL for processes when the agent itself ends: service managers allow little more.
constexpr base::Duration kShutDownGrace = std::chrono::seconds(5);

struct ServerOptions {
  AdmissionOptions admission;
  ProcessServiceOptions processes;
  base::Duration session_lease = kSessionLease;  ///< 0: a session ends with its connection
  base::Duration lock_grace = kLockGrace;        ///< for how long a session keeps its locks without a connection
  std::string tls_certificate = {};              ///< this and the next two: as net::ListenOptions'
  std::string tls_key = {};
  bool insecure = false;
};

/// One agent: its listener, its services and its sessions. On the loop's thread; workers end before the root goes.
class AgentServer final : private AgentSession::Owner {
 public:
  AgentServer(base::Loop& loop, Root& root, const State& state, ServerOptions options);
  ~AgentServer() override;
  AgentServer(const AgentServer&) = delete;
  AgentServer& operator=(const AgentServer&) = delete;

  /// Returns the url for clients. Errors name the address.
  Result<std::string> listen(const std::string& address);
  /// Takes the certificate and the key anew, for later clients; on an error the old ones stay.
  Result<void> reload_tls();
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
  struct Entry {
    std::string name;
    std::unique_ptr<AgentSession> session;
    base::TimerId lease;  ///< running while it is detached
  };
  using GreeterId = std::uint64_t;
  /// A client before its hello.
  struct Arrival {
    std::string token;
    std::unique_ptr<mux::Greeter> greeter;
  };

  net::ListenOptions listen_options();
  void greeted(GreeterId id, mux::Greeter::Greeted client);
  void begin(mux::Greeter::Greeted client, Result<Access> access);
  void go_on(GreeterId id, mux::Greeter::Greeted client, const Result<Access>& access);
  Result<void> take_over(mux::Greeter::Greeted& client, const Result<Access>& access);
  std::optional<Error> refusal();
  void on_session_detached(SessionKey key, const Error& reason) override;
  void on_session_resumed(SessionKey key) override;
  void on_session_closed(SessionKey key, const Error& reason) override;
  void reattached(SessionKey key);
  void bound_detached();
  bool give_up_oldest();
  void check_shut_down();

  base::Loop& loop_;
  Admission admission_;
  base::Duration lease_;
  const base::Duration lock_grace_;
  const std::string tls_certificate_, tls_key_;
  const bool insecure_;
  Journals journals_;
  WorkerPool pool_;
  ProcessService processes_;
  AgentServices services_;
  std::uint64_t last_key_ = 0;
  std::map<SessionKey, Entry> sessions_;
  std::unordered_map<std::string, SessionKey> names_;
  std::deque<SessionKey> detached_;  ///< without a connection, the longest first
  base::TimerId detached_timer_;     ///< looks at their memory, which their processes' output still fills
  GreeterId last_greeter_ = 0;
  std::map<GreeterId, Arrival> greeters_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::StdioServer> stdio_;
  base::Function<void(Result<void>)> stdio_over_;
  bool processes_over_ = false;
  base::Task shut_down_done_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace sandbar::agent
