// SPDX-License-Identifier: Apache-2.0
#include "client/live_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "base/thread_check.h"
#include "wire/capabilities.h"

namespace sandbar::client {
namespace {

/// After a connection that lived for less the next attempt is not made at once: an agent that takes and drops each is
/// not to keep us busy.
constexpr base::Duration kLived = std::chrono::milliseconds(100);
/// An agent that promises more is not believed.
constexpr std::uint64_t kLongestLease = 7 * 24 * 3600;

mux::SessionOptions session_options(const ConnectionOptions& options, base::Duration timeout) {
  mux::SessionOptions session;
  session.role = mux::Role::client;
  session.resumable = options.reconnect;
  session.hello.software = "sandbar " SANDBAR_VERSION;
  session.hello.capabilities = {wire::kCapabilityFilesPosix, wire::kCapabilityProcess};
  if (options.reconnect) session.hello.capabilities.emplace_back(wire::kCapabilityResume);
  session.hello.journal = options.journal;
  session.hello_timeout = timeout;
  return session;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  const std::string bytes = base::random_bytes(sizeof seed);
  std::memcpy(&seed, bytes.data(), sizeof seed);
  return seed;
}

}  // namespace

LiveConnection::LiveConnection(base::Loop& loop, Target target, ConnectionOptions options, Dialed first,
                               base::Function<void(Result<void>)> settled)
    : loop_(loop),
      target_(std::move(target)),
      options_(std::move(options)),
      settled_(std::move(settled)),
      backoff_(random_seed()) {
  begin_session(std::move(first));
}

LiveConnection::~LiveConnection() {
  loop_.cancel(timer_);
  loop_.cancel(lease_timer_);
}

base::Task LiveConnection::guarded(void (LiveConnection::*step)()) {
  return [this, alive = std::weak_ptr<bool>(alive_), step] {
    if (!alive.expired()) (this->*step)();
  };
}

void LiveConnection::begin_session(Dialed dialed) {
  mux::Session::Handler& handler = *this;
  over_ = false;
  token_ = std::move(dialed.token);
  const base::Duration left = std::max<base::Duration>(dialed.deadline - loop_.now(), std::chrono::milliseconds(1));
  mux::SessionOptions options = session_options(options_, left);
  if (files_) options.hello.last_answered = files_->last_settled();
  session_ = std::make_unique<mux::Session>(loop_, std::move(dialed.transport), std::move(options), handler);
}

/// Attaches the grants of further kinds to a session that has begun, and renews all before they expire.
void LiveConnection::keep_grants() {
  if (!options_.grants) return settle({});
  keeper_.emplace(loop_, *files_, options_.grants, options_.kinds, token_);
  keeper_->start([this, alive = std::weak_ptr<bool>(alive_)](Result<void> attached) {
    if (alive.expired()) return;
    if (!attached && !settled_) base::log_warning("a grant is missing: " + attached.error().message());
    settle(std::move(attached));
  });
}

void LiveConnection::on_lost(base::Function<void(Error)> lost) {
  SANDBAR_ON_LOOP(loop_);
  lost_ = std::move(lost);
  if (lost_ && reason_) tell_lost();
}

void LiveConnection::on_ready(const wire::Hello& peer_hello) {
  if (!wire::offers(peer_hello, wire::kCapabilityFilesPosix)) {
    const Error error = make_error(
        Errc::unsupported, "",
        std::string("the agent does not offer ") + wire::kCapabilityFilesPosix + "; it may be of another version");
    return files_ ? session_->close(error) : settle(error);
  }
  begun_ = true;
  up_since_ = loop_.now();
  if (!files_) {
    files_.emplace(loop_, *session_, !options_.journal.empty(), options_.reconnect ? OnLoss::wait : OnLoss::fail);
    return keep_grants();
  }
  files_->restart(*session_);
  keep_grants();
  mended(ConnectionEvent::Kind::renewed);
}

void LiveConnection::on_request(mux::Message, mux::Responder responder) {
  responder.fail(make_error(Errc::unsupported, "request", "a client offers no service"));
}

void LiveConnection::on_detached(const Error& reason) {
  files_->connection_broken();
  const bool again = std::exchange(broken_, true);
  tell(again ? ConnectionEvent::Kind::failed : ConnectionEvent::Kind::lost, reason);
  if (!again) {
    const std::chrono::seconds lease(std::min(session_->peer_hello().lease, kLongestLease));
    lease_timer_ = loop_.schedule(lease, guarded(&LiveConnection::lease_over));
  }
  dial_later();
}

/// Whoever waits for what only this session had is told; files go on with the next one.
void LiveConnection::lease_over() {
  session_->close(
      make_error(Errc::disconnected, "", "the sandbox could not be reached for as long as it keeps a session"));
}

void LiveConnection::on_resumed(const wire::Hello& peer_hello) {
  up_since_ = loop_.now();
  loop_.cancel(lease_timer_);
  files_->connection_resumed();
  if (peer_hello.locks_lost) files_->locks_lost();
  mended(ConnectionEvent::Kind::resumed);
}

void LiveConnection::on_closed(const Error& reason) {
  keeper_.reset();
  if (settled_) return settle(reason);
  if (!options_.reconnect) {
    reason_ = reason;
    files_->give_up(reason);
    if (lost_) tell_lost();
    return;
  }
  // The session that is over stays until the next one is there: we are inside its call.
  if (begun_) files_->pause();
  over_ = true;
  loop_.cancel(lease_timer_);
  if (!std::exchange(broken_, true)) tell(ConnectionEvent::Kind::lost, reason);
  const bool had_begun = std::exchange(begun_, false);
  tell(had_begun ? ConnectionEvent::Kind::session_lost : ConnectionEvent::Kind::failed, reason);
  dial_later();
  if (!had_begun || reason.code != Errc::unknown) return;
  // An agent that does not know the session was reached, and takes a new one at once.
  loop_.cancel(timer_);
  timer_ = loop_.schedule({}, guarded(&LiveConnection::dial_now));
}

void LiveConnection::mended(ConnectionEvent::Kind how) {
  broken_ = false;
  network_.reset();
  tell(how);
}

void LiveConnection::settle(Result<void> outcome) {
  if (auto settled = std::exchange(settled_, nullptr)) settled(std::move(outcome));
}

/// Posted, so that it comes after the completions of failed requests, and so that the callback may destroy us.
void LiveConnection::tell_lost() {
  loop_.post([alive = std::weak_ptr<bool>(alive_), lost = std::exchange(lost_, nullptr), reason = *reason_]() mutable {
    if (!alive.expired()) lost(std::move(reason));
  });
}

void LiveConnection::tell(ConnectionEvent::Kind kind, Error reason) {
  loop_.post([this, alive = std::weak_ptr<bool>(alive_), event = ConnectionEvent{kind, std::move(reason)}] {
    if (!alive.expired() && told_) told_(event);
  });
}

/// What waits to try again does so now.
void LiveConnection::network_changed() {
  if (dialing_ || !timer_) return;
  backoff_.reset(true);
  up_since_ = {};
  dial_later();
}

void LiveConnection::dial_later() {
  loop_.cancel(timer_);
  if (!network_) network_ = net::watch_network(loop_, guarded(&LiveConnection::network_changed));
  if (up_since_ != base::TimePoint{}) backoff_.reset(loop_.now() - up_since_ >= kLived);
  up_since_ = {};
  timer_ = loop_.schedule(backoff_.next(), guarded(&LiveConnection::dial_now));
}

void LiveConnection::dial_now() {
  timer_ = {};
  dialing_ = dial(loop_, target_, options_, [this, alive = std::weak_ptr<bool>(alive_)](Result<Dialed> result) {
    if (!alive.expired()) dialed(std::move(result));
  });
}

void LiveConnection::dialed(Result<Dialed> result) {
  dialing_.reset();
  if (!result) {
    tell(ConnectionEvent::Kind::failed, std::move(result).error());
    return dial_later();
  }
  if (over_) return begin_session(std::move(*result));
  session_->resume(std::move(result->transport));
}

}  // namespace sandbar::client
