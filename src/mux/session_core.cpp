// SPDX-License-Identifier: Apache-2.0
#include "mux/session_core.h"

#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/thread_check.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace sandbar::mux {

using wire::FrameType;

static_assert(wire::kMaxMessage == net::kMaxTransportMessage);

namespace {

wire::Limits own_limits() {
  return {wire::kMaxBody, wire::kMaxRequests, wire::kRequestWindow, wire::kMaxChannels, wire::kChannelWindow};
}

Error lost(const Error& reason) {
  // Whatever ended the session, what waited for it was disconnected.
  return make_error(Errc::disconnected, reason.operation, reason.detail);
}

}  // namespace

SessionCore::SessionCore(base::Loop& loop, std::unique_ptr<net::Transport> transport, SessionOptions options,
                         Session::Handler& handler)
    : loop_(loop),
      transport_(std::move(transport)),
      options_(std::move(options)),
      handler_(&handler),
      peer_(transport_->peer()),
      liveness_(options_.ping_interval, options_.dead_after, loop.now()),
      next_channel_(options_.role == Role::client ? 1 : 2) {
  options_.hello.limits = own_limits();
}

void SessionCore::start() {
  arm_hello_timer();
  arm_liveness();
  transport_->start(*this);
  if (options_.role == Role::client) send_unnumbered(FrameType::hello, 0, wire::encode_hello(options_.hello));
  if (options_.first_message.empty()) return;
  loop_.post([weak = weak_from_this(), first = std::exchange(options_.first_message, {})]() mutable {
    if (const auto self = weak.lock()) self->on_message(std::move(first));
  });
}

void SessionCore::detach() {
  handler_ = nullptr;
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  // The peer is not to wait for us.
  if (linked_)
    transport_->send_last(wire::encode_frame(
        {FrameType::goodbye, 0, 0, 0, 0, wire::encode_goodbye({"disconnected", "the other side has ended"}), {}}));
  drop_link();
  // Completions never run inside a call: the last of this session's state goes with a task of its own.
  loop_.post([self = shared_from_this()] { self->end_requests(make_error(Errc::disconnected, "", "session closed")); });
}

SessionStats SessionCore::stats() const {
  SessionStats stats = stats_;
  stats.round_trip = liveness_.round_trip();
  return stats;
}

// --- Requests of ours ------------------------------------------------------------------------------------------

wire::RequestId SessionCore::request(Message message, RequestOptions options, base::OneShot<Message> done) {
  SANDBAR_ON_LOOP(loop_);
  SANDBAR_ASSERT(message.body.size() <= wire::kMaxBody && message.head.size() <= wire::kMaxHead);
  const wire::RequestId id(++last_request_);
  if (phase_ == Phase::closed) {
    loop_.post([done = std::move(done)]() mutable { done(make_error(Errc::disconnected, "", "session closed")); });
    return id;
  }
  Outgoing& out = outgoing_[id];
  out.done = std::move(done);
  out.body_size = message.body.size();
  if (options.timeout > base::Duration::zero()) {
    out.timer = loop_.schedule(options.timeout, [weak = weak_from_this(), id] {
      if (const auto self = weak.lock()) self->cancel(id, Errc::timeout);
    });
  }
  waiting_.push_back({id, std::move(message)});
  send_waiting_requests();
  return id;
}

void SessionCore::cancel(wire::RequestId request, Errc why) {
  const auto it = outgoing_.find(request);
  if (it == outgoing_.end() || !it->second.done) return;
  loop_.cancel(it->second.timer);
  // Told even when the request itself still waits: the scheduler keeps the cancel behind it.
  bool unsent = false;
  for (const Queued& queued : waiting_) unsent = unsent || queued.id == request;
  if (!unsent) scheduler_.push_cancel(request.value);
  auto done = std::move(it->second.done);
  loop_.post([done = std::move(done), why]() mutable { done(make_error(why, "")); });
  pump();
}

void SessionCore::send_waiting_requests() {
  if (phase_ != Phase::ready) return;
  while (!waiting_.empty()) {
    Queued& next = waiting_.front();
    const wire::Limits& limits = peer_hello_.limits;
    const bool fits = sent_requests_ < limits.max_requests &&
                      (sent_requests_ == 0 || sent_bodies_ + next.message.body.size() <= limits.request_window);
    if (!fits) break;
    ++sent_requests_;
    sent_bodies_ += next.message.body.size();
    ++stats_.requests_sent;
    const auto it = outgoing_.find(next.id);
    const bool given_up = it != outgoing_.end() && !it->second.done;
    scheduler_.push_message(
        {FrameType::request, 0, next.id.value, std::move(next.message.head), std::move(next.message.body)});
    if (given_up) scheduler_.push_cancel(next.id.value);
    waiting_.pop_front();
  }
  pump();
}

void SessionCore::finish_response(wire::RequestId id, bool failed) {
  const auto it = outgoing_.find(id);
  Outgoing out = std::move(it->second);
  outgoing_.erase(it);
  loop_.cancel(out.timer);
  --sent_requests_;
  sent_bodies_ -= out.body_size;
  send_waiting_requests();
  if (!out.done) return;
  if (!failed) return out.done(std::move(out.answer));
  Error error;
  const Result<void> decoded = wire::decode_error(out.answer.head, error);
  out.done(decoded ? error : decoded.error());
}

// --- Requests of the peer's ------------------------------------------------------------------------------------

void SessionCore::deliver(wire::RequestId id) {
  Message message = std::move(incoming_[id].message);
  if (handler_ != nullptr) handler_->on_request(std::move(message), Responder(weak_from_this(), id));
}

void SessionCore::forget_incoming(wire::RequestId id) {
  const auto it = incoming_.find(id);
  if (it == incoming_.end()) return;
  incoming_bodies_ -= it->second.body_size;
  incoming_.erase(it);
}

void SessionCore::answer(wire::RequestId id, Message message) {
  SANDBAR_ON_LOOP(loop_);
  if (phase_ != Phase::ready) return;
  SANDBAR_ASSERT(message.body.size() <= wire::kMaxBody && message.head.size() <= wire::kMaxHead);
  forget_incoming(id);
  scheduler_.push_message({FrameType::response, 0, id.value, std::move(message.head), std::move(message.body)});
  if (scheduler_.response_bytes() > kReplyBacklog) backlogged_ = true;
  pump();
}

void SessionCore::answer_error(wire::RequestId id, const Error& error) {
  SANDBAR_ON_LOOP(loop_);
  if (phase_ != Phase::ready) return;
  forget_incoming(id);
  scheduler_.push_message({FrameType::response, wire::kFailed, id.value, wire::encode_error(error), {}});
  pump();
}

void SessionCore::on_cancel(wire::RequestId id, base::Task cancelled) {
  const auto it = incoming_.find(id);
  if (it == incoming_.end() || it->second.cancelled) return loop_.post(std::move(cancelled));
  it->second.on_cancel = std::move(cancelled);
}

bool SessionCore::is_cancelled(wire::RequestId id) const {
  const auto it = incoming_.find(id);
  return phase_ == Phase::closed || it == incoming_.end() || it->second.cancelled;
}

// --- Channels --------------------------------------------------------------------------------------------------

std::shared_ptr<Channel> SessionCore::open_channel() {
  SANDBAR_ON_LOOP(loop_);
  const wire::ChannelId id(next_channel_);
  next_channel_ += 2;
  const bool ready = phase_ == Phase::ready;
  auto channel =
      std::make_shared<ChannelCore>(loop_, weak_from_this(), id, ready ? peer_hello_.limits.channel_window : 0);
  if (phase_ == Phase::closed || channels_.size() >= wire::kMaxChannels) {
    channel->peer_reset(phase_ == Phase::closed ? make_error(Errc::disconnected, "open a channel", "session closed")
                                                : make_error(Errc::limit, "open a channel", "too many are open"));
    return channel;
  }
  channel->taken = true;
  channels_[id] = channel;
  scheduler_.push_control({FrameType::open, 0, id.value, {}, {}});
  pump();
  return channel;
}

std::shared_ptr<Channel> SessionCore::take_channel(wire::ChannelId id) {
  const auto it = channels_.find(id);
  const bool theirs = id.value % 2 != next_channel_ % 2;
  if (it == channels_.end() || !theirs || it->second->taken) return nullptr;
  it->second->taken = true;
  return it->second;
}

void SessionCore::channel_data(wire::ChannelId id, base::Bytes data) {
  scheduler_.push_data(id.value, std::move(data));
  pump();
}

void SessionCore::channel_end(wire::ChannelId id) {
  scheduler_.push_end(id.value);
  pump();
}

void SessionCore::channel_reset(wire::ChannelId id, const Error& reason) {
  if (channels_.erase(id) == 0) return;
  scheduler_.drop_channel(id.value);
  scheduler_.push_control({FrameType::reset, 0, id.value, wire::encode_error(reason), {}});
  pump();
}

void SessionCore::channel_credit(wire::ChannelId id, std::size_t bytes) {
  if (channels_.count(id) == 0) return;
  scheduler_.push_control({FrameType::credit, 0, id.value, wire::encode_credit(bytes), {}});
  pump();
}

void SessionCore::channel_done(wire::ChannelId id) { channels_.erase(id); }

std::size_t SessionCore::channel_waiting(wire::ChannelId id) const { return scheduler_.waiting(id.value); }

// --- Frames out ------------------------------------------------------------------------------------------------

void SessionCore::send_message(base::Bytes message) {
  ++stats_.frames_sent;
  stats_.bytes_sent += message.size();
  const std::size_t size = message.size();
  transport_->send(std::move(message));
  sizer_.sent(size, loop_.now(), !transport_->writable());
}

void SessionCore::send_unnumbered(FrameType type, std::uint64_t channel, base::BytesView head) {
  send_message(wire::encode_frame({type, 0, 0, channel, 0, head, {}}));
}

void SessionCore::send_frame(OutFrame out) {
  base::Bytes message =
      wire::encode_frame({out.type, out.flags, 0, out.channel, sent_.next_number(), out.head, out.body});
  sent_.keep(message);
  send_message(std::move(message));
}

void SessionCore::pump() {
  // Before the hellos nothing else may go out; a pump inside a pump has nothing left to do.
  if (phase_ != Phase::ready || pumping_) return;
  pumping_ = true;
  while (linked_ && transport_->writable() && pump_one()) {
  }
  pumping_ = false;
  if (!backlogged_ || scheduler_.response_bytes() > kReplyBacklog / 2) return;
  backlogged_ = false;
  loop_.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && self->handler_ != nullptr && self->phase_ == Phase::ready) self->handler_->on_drained();
  });
}

/// False when nothing can be sent now.
bool SessionCore::pump_one() {
  if (send_link_frame()) return true;
  if (const base::Bytes* again = sent_.resend()) {
    send_message(*again);
    sent_.resent();
    return true;
  }
  if (!sent_.has_room()) return false;
  std::optional<OutFrame> frame = scheduler_.next(sizer_.fragment(), sent_.has_room_for_bulk());
  if (!frame) return false;
  const bool data = frame->type == FrameType::data;
  const wire::ChannelId channel(frame->channel);
  send_frame(std::move(*frame));
  if (!data) return true;
  if (const auto it = channels_.find(channel); it != channels_.end()) it->second->drained();
  return true;
}

void SessionCore::on_writable() {
  sizer_.writable(loop_.now());
  pump();
}

// --- Life and end ----------------------------------------------------------------------------------------------

void SessionCore::close(const Error& reason) {
  SANDBAR_ON_LOOP(loop_);
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  stop_timers();
  if (transport_) {
    // What waits is given up; the goodbye goes out even when the transport is full.
    const wire::Goodbye goodbye{std::string(errc_name(reason.code)), reason.message()};
    send_unnumbered(FrameType::goodbye, 0, wire::encode_goodbye(goodbye));
    transport_->close(reason.message());
  }
  loop_.post([self = shared_from_this(), reason] { self->end(reason); });
}

void SessionCore::on_closed(Error reason) {
  if (phase_ == Phase::closed) return;
  if (outlives_connections()) return lose_link(reason);
  phase_ = Phase::closed;
  stop_timers();
  end(reason);
}

void SessionCore::end(const Error& reason) {
  const auto self = shared_from_this();
  end_requests(lost(reason));
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->on_closed(reason);
}

void SessionCore::end_requests(const Error& reason) {
  auto outgoing = std::exchange(outgoing_, {});
  for (auto& [id, out] : outgoing) {
    loop_.cancel(out.timer);
    if (out.done) out.done(reason);
  }
  auto channels = std::exchange(channels_, {});
  for (auto& [id, channel] : channels) channel->peer_reset(reason);
  auto incoming = std::exchange(incoming_, {});
  for (auto& [id, in] : incoming)
    if (in.on_cancel) in.on_cancel();
}

}  // namespace sandbar::mux
