// SPDX-License-Identifier: Apache-2.0
// The connection under a session: how one is lost and another takes its place.
#include <utility>

#include "base/thread_check.h"
#include "mux/session_core.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace sandbar::mux {

using wire::FrameType;

namespace {

/// An ack goes out after so many bytes, or so long after the first: what the peer keeps for us stays well below what it
/// may keep, and a quiet session costs few frames.
constexpr std::size_t kAckBytes = 512 * 1024;
constexpr base::Duration kAckDelay = std::chrono::milliseconds(100);

}  // namespace

bool SessionCore::outlives_connections() const {
  if (phase_ != Phase::ready) return false;
  return options_.role == Role::agent ? !options_.hello.session.empty()
                                      : options_.resumable && !peer_hello_.session.empty();
}

void SessionCore::stop_timers() {
  loop_.cancel(std::exchange(hello_timer_, {}));
  loop_.cancel(std::exchange(liveness_timer_, {}));
  loop_.cancel(std::exchange(ack_timer_, {}));
}

void SessionCore::drop_link() {
  stop_timers();
  linked_ = false;
  ping_.reset();
  pong_.reset();
  ack_due_ = false;
  unacknowledged_ = 0;
  transport_.reset();
}

void SessionCore::lose_link(const Error& reason) {
  drop_link();
  if (handler_ != nullptr) handler_->on_detached(reason);
}

void SessionCore::link_up() {
  loop_.cancel(std::exchange(hello_timer_, {}));
  linked_ = true;
  ping_.reset();  // one that waited for the hello would measure that
  peer_ = transport_->peer();
  sizer_ = {};
}

void SessionCore::arm_hello_timer() {
  hello_timer_ = loop_.schedule(options_.hello_timeout, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    const Error late = make_error(Errc::timeout, "wait for the peer's hello");
    if (self->outlives_connections()) return self->lose_link(late);
    self->close(late);
  });
}

void SessionCore::arm_liveness() {
  liveness_timer_ = loop_.schedule(options_.ping_interval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->phase_ == Phase::closed) return;
    const Liveness::Tick tick = self->liveness_.tick(self->loop_.now());
    if (tick.dead) {
      const Error dead = make_error(Errc::disconnected, "", "the peer is silent");
      return self->outlives_connections() ? self->lose_link(dead) : self->close(dead);
    }
    self->ping_ = tick.ping;
    self->pump();
    self->arm_liveness();
  });
}

/// One of the frames that belong to the connection; false when none is due.
bool SessionCore::send_link_frame() {
  if (pong_) {
    send_unnumbered(FrameType::pong, *std::exchange(pong_, std::nullopt), {});
    return true;
  }
  if (ack_due_) {
    ack_due_ = false;
    unacknowledged_ = 0;
    loop_.cancel(std::exchange(ack_timer_, {}));
    send_unnumbered(FrameType::ack, received_sequence_, {});
    return true;
  }
  if (!ping_) return false;
  send_unnumbered(FrameType::ping, *std::exchange(ping_, std::nullopt), {});
  return true;
}

void SessionCore::count_received(std::size_t bytes) {
  unacknowledged_ += bytes;
  if (ack_due_) return;
  if (unacknowledged_ >= kAckBytes) {
    ack_due_ = true;
    return pump();
  }
  if (ack_timer_) return;
  ack_timer_ = loop_.schedule(kAckDelay, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || !self->linked_) return;
    self->ack_timer_ = {};
    self->ack_due_ = true;
    self->pump();
  });
}

void SessionCore::resume(std::unique_ptr<net::Transport> transport) {
  SANDBAR_ON_LOOP(loop_);
  SANDBAR_ASSERT(options_.role == Role::client);
  // Without a name the agent would take it for a new session.
  if (!outlives_connections()) return;
  drop_link();
  transport_ = std::move(transport);
  transport_->start(*this);
  liveness_.restart(loop_.now());
  arm_liveness();
  arm_hello_timer();
  wire::Hello hello = options_.hello;
  hello.session = peer_hello_.session;
  hello.fence = ++fence_;
  hello.received = received_sequence_;
  send_unnumbered(FrameType::hello, 0, wire::encode_hello(hello));
}

Result<void> SessionCore::receive_resumed() {
  if (!sent_.rewind(peer_hello_.received))
    return make_error(Errc::protocol, "read from the peer", "it has received what was not sent");
  ++stats_.resumes;
  link_up();
  if (handler_ != nullptr) handler_->on_resumed(peer_hello_);
  pump();
  return {};
}

Result<void> SessionCore::take_over(std::unique_ptr<net::Transport>& transport, const wire::Hello& theirs) {
  SANDBAR_ON_LOOP(loop_);
  SANDBAR_ASSERT(options_.role == Role::agent);
  const auto refused = [](const char* why) { return make_error(Errc::protocol, "take a session up", why); };
  if (phase_ != Phase::ready) return make_error(Errc::unknown, "take a session up", "it is over");
  // A connection that was slow to come must not push out the one that was made after it.
  if (theirs.fence <= fence_) return refused("a later connection has taken it up");
  if (options_.on_hello)
    if (Result<void> agreed = options_.on_hello(theirs, options_.hello); !agreed) return agreed;
  if (!sent_.rewind(theirs.received)) return refused("more was received than sent, or less than was acknowledged");
  drop_link();
  fence_ = theirs.fence;
  ++stats_.resumes;
  transport_ = std::move(transport);
  transport_->start(*this);
  liveness_.restart(loop_.now());
  arm_liveness();
  wire::Hello ours = options_.hello;
  ours.received = received_sequence_;
  send_unnumbered(FrameType::hello, 0, wire::encode_hello(ours));
  link_up();
  if (handler_ != nullptr) handler_->on_resumed(theirs);
  pump();
  return {};
}

}  // namespace sandbar::mux
