// SPDX-License-Identifier: Apache-2.0
// Frames in. Whatever the peer may not do ends the session with Errc::protocol and a reason; every count and size is
// checked before memory is taken for it.
#include <utility>

#include "mux/session_core.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace sandbar::mux {

using wire::FrameType;

namespace {

Error broken(std::string what) { return make_error(Errc::protocol, "read from the peer", std::move(what)); }

}  // namespace

void SessionCore::on_message(base::Bytes message) {
  if (phase_ == Phase::closed) return;
  const auto self = shared_from_this();
  ++stats_.frames_received;
  stats_.bytes_received += message.size();
  liveness_.heard(loop_.now());
  const Result<wire::Frame> frame = wire::decode_frame(message);
  const Result<void> received = frame ? receive(*frame) : Result<void>(frame.error());
  if (!received) close(received.error());
}

Result<void> SessionCore::check_sequence(const wire::Frame& frame) {
  if (frame.sequence != received_sequence_ + 1) return broken("a frame is missing or repeated");
  ++received_sequence_;
  return {};
}

Result<void> SessionCore::receive(const wire::Frame& frame) {
  if (frame.lane != 0) return broken("a lane that was not agreed on");
  if (!wire::is_numbered(frame.type)) return receive_unnumbered(frame);
  if (phase_ == Phase::hello) return broken("the first frame is not a hello");
  if (!linked_) return broken("the first frame on a connection is not a hello");
  if (Result<void> sequence = check_sequence(frame); !sequence) return sequence;
  count_received(wire::kFrameHeader + frame.head.size() + frame.body.size());
  switch (frame.type) {
    case FrameType::request:
      return receive_request(frame);
    case FrameType::response:
      return receive_response(frame);
    case FrameType::cancel:
      return receive_cancel(frame);
    case FrameType::open:
      return receive_open(frame);
    default:
      return receive_channel(frame);
  }
}

Result<void> SessionCore::receive_unnumbered(const wire::Frame& frame) {
  switch (frame.type) {
    case FrameType::ping:
      // Pongs do not pile up behind a peer that asks and does not read: the latest stands for those before.
      pong_ = frame.channel;
      if (linked_) {
        pump();
      } else if (transport_->writable()) {
        send_link_frame();
      }
      return {};
    case FrameType::pong:
      liveness_.pong(frame.channel, loop_.now());
      return {};
    case FrameType::ack:
      return receive_ack(frame);
    case FrameType::goodbye:
      return receive_goodbye(frame);
    default:
      return receive_hello(frame);
  }
}

Result<void> SessionCore::receive_ack(const wire::Frame& frame) {
  if (!linked_) return broken("the first frame on a connection is not a hello");
  if (!sent_.acknowledged(frame.channel)) return broken("an acknowledgement of what was not sent");
  pump();
  return {};
}

Result<void> SessionCore::receive_hello(const wire::Frame& frame) {
  if (linked_) return broken("a second hello");
  Result<wire::Hello> hello = wire::decode_hello(frame.head);
  if (!hello) return hello.error();
  const wire::Limits& limits = hello->limits;
  if (limits.max_body < wire::kMaxBody || limits.max_requests == 0 || limits.request_window < wire::kMaxBody ||
      limits.channel_window == 0)
    return broken("limits below what this version needs");
  const std::string session = phase_ == Phase::ready ? peer_hello_.session : hello->session;
  if (hello->session != session) return broken("it goes on with another session");
  peer_hello_ = std::move(hello).value();
  return phase_ == Phase::hello ? receive_first_hello() : receive_resumed();
}

Result<void> SessionCore::receive_first_hello() {
  if (options_.role == Role::agent) {
    if (options_.on_hello)
      if (Result<void> agreed = options_.on_hello(peer_hello_, options_.hello); !agreed) return agreed;
    send_unnumbered(FrameType::hello, 0, wire::encode_hello(options_.hello));
  }
  phase_ = Phase::ready;
  link_up();
  for (auto& [id, channel] : channels_) channel->open_window(peer_hello_.limits.channel_window);
  if (handler_ != nullptr) handler_->on_ready(peer_hello_);
  send_waiting_requests();
  return {};
}

Result<void> SessionCore::receive_request(const wire::Frame& frame) {
  const wire::RequestId id(frame.channel);
  if (!id) return broken("request number 0");
  const auto known = incoming_.find(id);
  const bool first = known == incoming_.end();
  if (first) {
    if (incoming_.size() >= wire::kMaxRequests) return broken("more requests than the limit");
  } else if (known->second.whole) {
    return broken("a request number that is in use");
  } else if (!frame.head.empty()) {
    return broken("a second head for one request");
  }
  Incoming& in = incoming_[id];
  in.body_size += frame.body.size();
  incoming_bodies_ += frame.body.size();
  if (in.body_size > wire::kMaxBody) return broken("a body beyond the limit");
  if (incoming_bodies_ > wire::kRequestWindow) return broken("more request bytes than the window");
  if (first) in.message.head = frame.head;
  in.message.body.append(frame.body);
  if ((frame.flags & wire::kMore) != 0) return {};
  in.whole = true;
  deliver(id);
  return {};
}

Result<void> SessionCore::receive_response(const wire::Frame& frame) {
  const wire::RequestId id(frame.channel);
  const auto it = outgoing_.find(id);
  if (it == outgoing_.end()) return broken("an answer to nothing");
  Outgoing& out = it->second;
  if (out.answering && !frame.head.empty()) return broken("a second head for one answer");
  if (out.answer.body.size() + frame.body.size() > wire::kMaxBody) return broken("a body beyond the limit");
  if (!out.answering) out.answer.head = frame.head;
  out.answering = true;
  out.answer.body.append(frame.body);
  if ((frame.flags & wire::kMore) == 0) finish_response(id, (frame.flags & wire::kFailed) != 0);
  return {};
}

Result<void> SessionCore::receive_cancel(const wire::Frame& frame) {
  // The answer may have crossed the cancel: an unknown number is no fault.
  const auto it = incoming_.find(wire::RequestId(frame.channel));
  if (it == incoming_.end() || it->second.cancelled) return {};
  if (!it->second.whole) return broken("a cancel inside a request");
  it->second.cancelled = true;
  if (auto cancelled = std::exchange(it->second.on_cancel, nullptr)) cancelled();
  return {};
}

Result<void> SessionCore::receive_open(const wire::Frame& frame) {
  const wire::ChannelId id(frame.channel);
  const bool theirs = id.value % 2 != next_channel_ % 2;
  if (!theirs || id.value <= last_peer_channel_) return broken("a channel number that is not next");
  if (channels_.size() >= wire::kMaxChannels) return broken("more channels than the limit");
  last_peer_channel_ = id.value;
  channels_[id] = std::make_shared<ChannelCore>(loop_, weak_from_this(), id, peer_hello_.limits.channel_window);
  return {};
}

Result<void> SessionCore::receive_channel(const wire::Frame& frame) {
  const wire::ChannelId id(frame.channel);
  const bool theirs = id.value % 2 != next_channel_ % 2;
  if (!id || (theirs ? id.value > last_peer_channel_ : id.value >= next_channel_))
    return broken("a channel that was never opened");
  const auto it = channels_.find(id);
  if (it == channels_.end()) return {};  // what was on its way when we reset it, or credit behind both ends
  const std::shared_ptr<ChannelCore> channel = it->second;
  switch (frame.type) {
    case FrameType::data:
      if (!channel->peer_data(base::Bytes(frame.body)))
        return broken("stream data beyond the credit, or behind its end");
      return {};
    case FrameType::credit: {
      const Result<std::uint64_t> bytes = wire::decode_credit(frame.head);
      if (!bytes) return bytes.error();
      if (!channel->peer_credit(*bytes)) return broken("credit beyond the window");
      return {};
    }
    case FrameType::end:
      if (!channel->peer_end()) return broken("a second end of a stream");
      return {};
    default: {
      Error reason;
      if (Result<void> decoded = wire::decode_error(frame.head, reason); !decoded) return decoded;
      channels_.erase(id);
      scheduler_.drop_channel(id.value);
      channel->peer_reset(reason);
      return {};
    }
  }
}

Result<void> SessionCore::receive_goodbye(const wire::Frame& frame) {
  const Result<wire::Goodbye> goodbye = wire::decode_goodbye(frame.head);
  if (!goodbye) return goodbye.error();
  const Error reason = make_error(errc_from_name(goodbye->code), "", goodbye->message);
  // An agent that is shutting down, or has no room, while we come back: the session may be taken up later.
  if (phase_ == Phase::ready && !linked_ && reason.code != Errc::unknown) {
    lose_link(reason);
    return {};
  }
  // The peer has ended: nothing that we send is read any more.
  transport_->close("goodbye");
  phase_ = Phase::closed;
  stop_timers();
  end(reason);
  return {};
}

}  // namespace sandbar::mux
