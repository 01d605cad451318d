// SPDX-License-Identifier: Apache-2.0
#include "agent/server.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "base/thread_check.h"
#include "wire/capabilities.h"

namespace sandbar::agent {
namespace {

/// How often the memory of sessions without a connection is looked at.
constexpr base::Duration kDetachedLook = std::chrono::seconds(5);

}  // namespace

AgentServer::AgentServer(base::Loop& loop, Root& root, const State& state, ServerOptions options)
    : loop_(loop),
      admission_(std::move(options.admission)),
      lease_(std::min(options.session_lease, kMaxSessionLease)),
      lock_grace_(options.lock_grace),
      tls_certificate_(std::move(options.tls_certificate)),
      tls_key_(std::move(options.tls_key)),
      insecure_(options.insecure),
      journals_(loop, state.journals()),
      processes_(loop, root, journals_, options.processes),
      services_{loop, root, pool_, journals_, processes_, admission_, state.id(), state.epoch()} {}

AgentServer::~AgentServer() {
  alive_.reset();
  listener_.reset();
  stdio_.reset();
  greeters_.clear();
  loop_.cancel(detached_timer_);
  for (auto& [key, entry] : sessions_) loop_.cancel(entry.lease);
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
  net::ListenOptions options = listen_options();
  options.tls_certificate = tls_certificate_;
  options.tls_key = tls_key_;
  options.insecure = insecure_;
  auto listener = net::listen(loop_, address, std::move(options));
  if (!listener) return std::move(listener).error();
  listener_ = std::move(*listener);
  return listener_->url();
}

Result<void> AgentServer::reload_tls() {
  SANDBAR_ON_LOOP(loop_);
  return listener_ ? listener_->reload() : Result<void>();
}

void AgentServer::serve_stdio(base::UniqueFd in, base::UniqueFd out, base::Function<void(Result<void>)> over) {
  SANDBAR_ON_LOOP(loop_);
  stdio_over_ = std::move(over);
  lease_ = {};  // these pipes are the only way in
  stdio_ = net::serve_stdio(loop_, std::move(in), std::move(out), listen_options(), [this](Error reason) {
    if (auto told = std::exchange(stdio_over_, nullptr)) told(std::move(reason));
  });
}

void AgentServer::adopt(std::unique_ptr<net::Transport> transport, const net::UpgradeRequest& request) {
  // A client that is refused is still told why; but not without end.
  if (sessions_.size() + greeters_.size() >= 2 * kMaxSessions) return;
  base::log_debug("client " + transport->peer() + " connected");
  const GreeterId id = ++last_greeter_;
  auto over = [this, id] {
    loop_.post([this, id, alive = std::weak_ptr(alive_)] {
      if (alive.expired()) return;
      greeters_.erase(id);
      if (sessions_.empty() && greeters_.empty() && stdio_over_) std::exchange(stdio_over_, nullptr)(Result<void>());
    });
  };
  greeters_[id] = {request.token,
                   std::make_unique<mux::Greeter>(
                       loop_, std::move(transport), kGreetingTime,
                       [this, id](mux::Greeter::Greeted client) { greeted(id, std::move(client)); }, over)};
}

void AgentServer::greeted(GreeterId id, mux::Greeter::Greeted client) {
  // Asked again: a grant may have ended, or a key gone, since the upgrade was answered.
  auto access = admission_.admit(greeters_.at(id).token);
  if (!client.hello.session.empty()) return go_on(id, std::move(client), access);
  begin(std::move(client), std::move(access));
  greeters_.erase(id);
}

/// Why no session may begin.
std::optional<Error> AgentServer::refusal() {
  if (shut_down_done_) return make_error(Errc::disconnected, "connect", "the agent is shutting down");
  if (sessions_.size() < kMaxSessions || give_up_oldest()) return std::nullopt;
  return make_error(Errc::limit, "connect", "the agent has " + std::to_string(kMaxSessions) + " clients already");
}

void AgentServer::begin(mux::Greeter::Greeted client, Result<Access> access) {
  const SessionKey key(++last_key_);
  AgentSession::Options options;
  options.refusal = access ? refusal() : std::optional<Error>(access.error());
  if (access) options.access = std::move(*access);
  const bool comes_back = wire::offers(client.hello, wire::kCapabilityResume);
  if (comes_back && lease_ > base::Duration::zero() && !options.refusal) {
    options.name = base::hex(base::random_bytes(16));
    options.lease = lease_;
    options.lock_grace = lock_grace_;
    names_.emplace(options.name, key);
  }
  const std::string name = options.name;
  AgentSession::Owner& owner = *this;
  sessions_.emplace(
      key,
      Entry{name, std::make_unique<AgentSession>(services_, key, std::move(client), std::move(options), owner), {}});
}

void AgentServer::go_on(GreeterId id, mux::Greeter::Greeted client, const Result<Access>& access) {
  if (auto taken = take_over(client, access); !taken)
    return greeters_.at(id).greeter->refuse(taken.error(), std::move(client.transport));
  greeters_.erase(id);
}

Result<void> AgentServer::take_over(mux::Greeter::Greeted& client, const Result<Access>& access) {
  if (!access) return access.error();
  const auto name = names_.find(client.hello.session);
  // Another subject's is as unknown to this one as one that never was: its name tells nobody anything.
  if (name == names_.end() || sessions_.at(name->second).session->subject() != access->subject())
    return make_error(Errc::unknown, "take a session up", "the agent does not know it (any more)");
  return sessions_.at(name->second).session->take_over(client, *access);
}

void AgentServer::on_session_detached(SessionKey key, const Error& reason) {
  base::log_debug("a client's connection is lost: " + reason.message());
  reattached(key);  // a resume that came to nothing
  sessions_.at(key).lease = loop_.schedule(lease_, [this, key] {
    sessions_.at(key).session->close(make_error(Errc::disconnected, "serve", "its client did not come back in time"));
  });
  detached_.push_back(key);
  bound_detached();
}

void AgentServer::on_session_resumed(SessionKey key) { reattached(key); }

void AgentServer::reattached(SessionKey key) {
  loop_.cancel(std::exchange(sessions_.at(key).lease, {}));
  std::erase(detached_, key);
}

/// Which is not at its end already.
bool AgentServer::give_up_oldest() {
  if (detached_.empty()) return false;
  const SessionKey oldest = detached_.front();
  detached_.pop_front();
  sessions_.at(oldest).session->close(make_error(Errc::limit, "serve", "the agent needs its memory for others"));
  return true;
}

void AgentServer::bound_detached() {
  loop_.cancel(std::exchange(detached_timer_, {}));
  std::size_t bytes = 0;
  for (const SessionKey key : detached_) bytes += sessions_.at(key).session->retained();
  while (bytes > kMaxDetachedBytes && !detached_.empty()) {
    bytes -= sessions_.at(detached_.front()).session->retained();
    give_up_oldest();
  }
  if (detached_.empty()) return;
  detached_timer_ = loop_.schedule(kDetachedLook, [this] { bound_detached(); });
}

void AgentServer::on_session_closed(SessionKey key, const Error& reason) {
  base::log_debug("a client is gone: " + reason.message());
  reattached(key);
  names_.erase(sessions_.at(key).name);
  loop_.post([this, key, alive = std::weak_ptr(alive_)] {
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
  greeters_.clear();
  for (auto& [key, entry] : sessions_)
    entry.session->close(make_error(Errc::disconnected, "serve", "the agent is shutting down"));
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
