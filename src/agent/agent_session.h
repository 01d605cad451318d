// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/admission.h"
#include "agent/file_service.h"
#include "agent/journal.h"
#include "agent/process_service.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "base/loop.h"
#include "mux/greeter.h"
#include "mux/session.h"

namespace sandbar::agent {

/// What all sessions of an agent share. References: it outlives them.
struct AgentServices {
  base::Loop& loop;
  Root& root;
  WorkerPool& pool;
  Journals& journals;
  ProcessService& processes;
  const Admission& admission;
  std::string agent;  ///< for the hello: id and epoch of State
  std::uint64_t epoch = 1;
};

/// A session's locks are given back when it has been without a connection for so long: who waits for one should not
/// wait for a client that may never come back. NFS clients have 90 s.
constexpr base::Duration kLockGrace = std::chrono::seconds(60);

/// One client: decodes its requests and hands them to the services. On the loop's thread.
class AgentSession final : public mux::Session::Handler {
 public:
  /// Who holds it. Calls come from inside the session's: it may be destroyed later, not in them.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Its connection is lost, and the client may come back.
    virtual void on_session_detached(SessionKey key, const Error& reason) = 0;
    virtual void on_session_resumed(SessionKey key) = 0;
    /// Over; once.
    virtual void on_session_closed(SessionKey key, const Error& reason) = 0;
  };

  struct Options {
    Access access;                 ///< what the client showed at the upgrade allows
    std::optional<Error> refusal;  ///< the client is told this instead of a hello
    std::string name;         ///< Hello::session, when the client wants it kept; empty: it ends with its connection
    base::Duration lease{0};  ///< for how long the owner keeps it without a connection
    base::Duration lock_grace = kLockGrace;  ///< for how long it keeps its locks then
  };

  AgentSession(AgentServices& services, SessionKey key, mux::Greeter::Greeted client, Options options, Owner& owner);
  ~AgentSession() override;
  AgentSession(const AgentSession&) = delete;
  AgentSession& operator=(const AgentSession&) = delete;

  /// Sends a goodbye; the owner is told later.
  void close(const Error& reason) { session_->close(reason); }
  [[nodiscard]] const std::string& subject() const { return options_.access.subject(); }
  /// The client came back, on a connection that was let in with this access, of the same subject. An error, with the
  /// transport left where it is, when it may not: see mux::Session::take_over.
  Result<void> take_over(mux::Greeter::Greeted& client, const Access& shown);
  [[nodiscard]] std::size_t retained() const { return session_->retained(); }

  void on_ready(const wire::Hello& peer_hello) override;
  void on_request(mux::Message message, mux::Responder responder) override;
  void on_drained() override;
  void on_detached(const Error& reason) override;
  void on_resumed(const wire::Hello& peer_hello) override;
  void on_closed(const Error& reason) override;

 private:
  [[nodiscard]] wire::Hello hello() const;
  Result<void> on_hello(const wire::Hello& theirs, wire::Hello& ours);
  void handle(const wire::RequestContext& context, wire::Spawn request, mux::Responder responder);
  void handle(const wire::RequestContext& context, const wire::WaitProcess& request, mux::Responder responder);
  void handle(const wire::RequestContext& context, const wire::SignalProcess& request, mux::Responder responder);
  void handle(const wire::RequestContext& context, const wire::Authorize& request, mux::Responder responder);
  void refuse(const wire::RequestBody& request, mux::Responder responder, const Error& why);
  Result<void> check(const wire::RequestContext& context, wire::Spawn& request) const;
  Result<ProcessChannels> take_channels(const wire::Spawn& request);

  AgentServices& services_;
  SessionKey key_;
  Options options_;
  Owner& owner_;
  std::string journal_;
  base::TimerId lock_timer_;
  bool locks_lost_ = false;  ///< and the client has not shown that it knows
  std::unique_ptr<mux::Session> session_;
  std::unique_ptr<FileService> files_;
};

}  // namespace sandbar::agent
