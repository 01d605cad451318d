// SPDX-License-Identifier: Apache-2.0
#include "agent/server.h"

#include <utility>

#include "base/log.h"
#include "base/thread_check.h"

namespace sandbar::agent {

AgentServer::AgentServer(base::Loop& loop, Root& root, const State& state, ServerOptions options)
    : loop_(loop),
      admission_(std::move(options.admission)),
      journals_(loop),
      processes_(loop, root, journals_, options.processes),
      services_{loop, root, pool_, journals_, processes_, admission_, state.id(), state.epoch()} {}

AgentServer::~AgentServer() {
  alive_.reset();
  listener_.reset();
  stdio_.reset();
  sessions_.clear();
}

net::ListenOptions AgentServer::listen_options() {
  net::ListenOptions options;
  options.authorize = [this](const net::UpgradeRequest& request) {
    const auto access = admission_.admit(request.token);
    if (!access) base::log_debug("client " + request.peer + " is not let in: " + access.error().detail);
    return access.ok();
  };
  options.accepted = [this](std::unique_ptr<net::Transport> transport, const net::UpgradeRequest& request) {
    adopt(std::move(transport), request);
  };
  return options;
}

Result<std::string> AgentServer::listen(const std::string& address) {
  SANDBAR_ON_LOOP(loop_);
  auto listener = net::listen(loop_, address, listen_options());
  if (!listener) return std::move(listener).error();
  listener_ = std::move(*listener);
  return listener_->url();
}

void AgentServer::serve_stdio(base::UniqueFd in, base::UniqueFd out, base::Function<void(Result<void>)> over) {
  SANDBAR_ON_LOOP(loop_);
  stdio_over_ = std::move(over);
  stdio_ = net::serve_stdio(loop_, std::move(in), std::move(out), listen_options(), [this](Error reason) {
    if (auto told = std::exchange(stdio_over_, nullptr)) told(std::move(reason));
  });
}

void AgentServer::adopt(std::unique_ptr<net::Transport> transport, const net::UpgradeRequest& request) {
  const SessionKey key(++last_key_);
  // A client that is refused still gets a session, to be told why; but not without end.
  if (sessions_.size() >= 2 * kMaxSessions) return;
  std::optional<Error> refusal;
  // Asked again: a grant may have ended, or a key gone, while the upgrade was answered.
  auto access = admission_.admit(request.token);
  if (!access)
    refusal = access.error();
  else if (shut_down_done_)
    refusal = make_error(Errc::disconnected, "connect", "the agent is shutting down");
  else if (sessions_.size() >= kMaxSessions)
    refusal = make_error(Errc::limit, "connect", "the agent has " + std::to_string(kMaxSessions) + " clients already");
  base::log_debug("client " + transport->peer() + " connected");
  sessions_.emplace(key, std::make_unique<AgentSession>(services_, key, std::move(transport),
                                                        access ? std::move(*access) : Access{}, std::move(refusal),
                                                        [this, key](const Error& reason) { on_closed(key, reason); }));
}

void AgentServer::on_closed(SessionKey key, const Error& reason) {
  base::log_debug("a client is gone: " + reason.message());
  loop_.post([this, key, reason, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    sessions_.erase(key);
    if (auto told = std::exchange(stdio_over_, nullptr)) told(Result<void>());
    check_shut_down();
  });
}

void AgentServer::shut_down(base::Duration grace, base::Task done) {
  SANDBAR_ON_LOOP(loop_);
  shut_down_done_ = std::move(done);
  listener_.reset();
  stdio_.reset();
  for (auto& [key, session] : sessions_)
    session->close(make_error(Errc::disconnected, "serve", "the agent is shutting down"));
  processes_.shut_down(grace, [this] {
    processes_over_ = true;
    check_shut_down();
  });
}

void AgentServer::check_shut_down() {
  if (!shut_down_done_ || !processes_over_ || !sessions_.empty()) return;
  loop_.post(std::exchange(shut_down_done_, nullptr));
}

}  // namespace sandbar::agent
