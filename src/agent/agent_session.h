// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "agent/admission.h"
#include "agent/file_service.h"
#include "agent/journal.h"
#include "agent/process_service.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "base/function.h"
#include "base/loop.h"
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

/// One client: decodes its requests and hands them to the services. On the loop's thread.
class AgentSession final : public mux::Session::Handler {
 public:
  /// `access`: what the client showed at the upgrade allows. `refusal`: the client is told this instead of a hello.
  /// `closed` runs once when the session is over; the owner destroys this later, not inside the call.
  AgentSession(AgentServices& services, SessionKey key, std::unique_ptr<net::Transport> transport, Access access,
               std::optional<Error> refusal, base::Function<void(const Error&)> closed);
  ~AgentSession() override;
  AgentSession(const AgentSession&) = delete;
  AgentSession& operator=(const AgentSession&) = delete;

  /// Sends a goodbye; `closed` follows.
  void close(const Error& reason) { session_->close(reason); }

  void on_ready(const wire::Hello& peer_hello) override;
  void on_request(mux::Message message, mux::Responder responder) override;
  void on_drained() override;
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
  Access access_;
  std::optional<Error> refusal_;
  base::Function<void(const Error&)> closed_;
  std::string journal_;
  std::unique_ptr<mux::Session> session_;
  std::unique_ptr<FileService> files_;
};

}  // namespace sandbar::agent
