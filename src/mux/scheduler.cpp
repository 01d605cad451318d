// SPDX-License-Identifier: Apache-2.0
#include "mux/scheduler.h"

#include <algorithm>
#include <utility>

#include "wire/limits.h"

namespace sandbar::mux {

using wire::FrameType;

void Scheduler::push_control(OutFrame frame) { control_.push_back(std::move(frame)); }

void Scheduler::push_message(OutFrame message) {
  const std::size_t size = message.head.size() + message.body.size();
  bytes_ += size;
  if (message.type == FrameType::response) response_bytes_ += size;
  (size <= kSmall ? small_ : bulk_).push_back(Item{Message{std::move(message)}, 0});
}

bool Scheduler::mark_cancel(std::deque<Item>& queue, std::uint64_t request) {
  for (Item& item : queue) {
    if (!item.message || item.message->frame.type != FrameType::request || item.message->frame.channel != request)
      continue;
    item.message->cancel_after = true;
    return true;
  }
  return false;
}

void Scheduler::push_cancel(std::uint64_t request) {
  // The request itself is still sent: it may carry a mutation's number, and the agent waits for each number.
  if (mark_cancel(small_, request) || mark_cancel(bulk_, request)) return;
  push_control({FrameType::cancel, 0, request, {}, {}});
}

void Scheduler::queue_stream(std::uint64_t channel, Stream& stream) {
  if (stream.queued) return;
  stream.queued = true;
  (stream.bytes <= kSmall ? small_ : bulk_).push_back(Item{std::nullopt, channel});
}

void Scheduler::push_data(std::uint64_t channel, base::Bytes data) {
  if (data.empty()) return;
  Stream& stream = streams_[channel];
  bytes_ += data.size();
  stream.bytes += data.size();
  stream.chunks.push_back(std::move(data));
  queue_stream(channel, stream);
}

void Scheduler::push_end(std::uint64_t channel) {
  Stream& stream = streams_[channel];
  stream.end = true;
  queue_stream(channel, stream);
}

void Scheduler::drop_channel(std::uint64_t channel) {
  bytes_ -= waiting(channel);
  streams_.erase(channel);
}

std::size_t Scheduler::waiting(std::uint64_t channel) const {
  const auto it = streams_.find(channel);
  return it == streams_.end() ? 0 : it->second.bytes;
}

bool Scheduler::empty() const { return control_.empty() && small_.empty() && bulk_.empty(); }

std::optional<OutFrame> Scheduler::next(std::size_t fragment, bool bulk) {
  if (!control_.empty()) {
    OutFrame frame = std::move(control_.front());
    control_.pop_front();
    return frame;
  }
  while (!small_.empty() || (bulk && !bulk_.empty())) {
    if (!bulk && !small_.front().message && waiting(small_.front().channel) > kSmall) {
      // A stream that had little to say when it queued up.
      bulk_.push_back(std::move(small_.front()));
      small_.pop_front();
      continue;
    }
    const bool bulk_turn = bulk && (small_.empty() || (!bulk_.empty() && small_run_ >= kSmallRun));
    std::optional<OutFrame> frame = take(bulk_turn ? bulk_ : small_, fragment);
    if (!frame) continue;  // a channel that was dropped
    small_run_ = bulk_turn ? 0 : small_run_ + frame->head.size() + frame->body.size();
    return frame;
  }
  return std::nullopt;
}

std::optional<OutFrame> Scheduler::take(std::deque<Item>& queue, std::size_t fragment) {
  Item item = std::move(queue.front());
  queue.pop_front();
  if (!item.message) return take_stream(item.channel, fragment);
  OutFrame frame = take_message(*item.message, fragment);
  if ((frame.flags & wire::kMore) != 0) {
    bulk_.push_back(std::move(item));
  } else if (item.message->cancel_after) {
    push_control({FrameType::cancel, 0, frame.channel, {}, {}});
  }
  return frame;
}

OutFrame Scheduler::take_message(Message& message, std::size_t fragment) {
  OutFrame& whole = message.frame;
  OutFrame frame{whole.type, whole.flags, whole.channel, std::exchange(whole.head, {}), {}};
  const std::size_t left = whole.body.size() - message.sent;
  const std::size_t count = std::min(left, fragment);
  if (count == whole.body.size()) {
    frame.body = std::move(whole.body);
  } else {
    frame.body.assign(whole.body, message.sent, count);
    message.sent += count;
    if (count < left) frame.flags |= wire::kMore;
  }
  bytes_ -= frame.head.size() + frame.body.size();
  if (frame.type == FrameType::response) response_bytes_ -= frame.head.size() + frame.body.size();
  return frame;
}

std::optional<OutFrame> Scheduler::take_stream(std::uint64_t channel, std::size_t fragment) {
  const auto it = streams_.find(channel);
  if (it == streams_.end()) return std::nullopt;
  Stream& stream = it->second;
  stream.queued = false;
  if (stream.bytes == 0) {
    // Only the end is left to say; its frame closes the stream here.
    streams_.erase(it);
    return OutFrame{FrameType::end, 0, channel, {}, {}};
  }
  OutFrame frame{FrameType::data, 0, channel, {}, {}};
  while (!stream.chunks.empty() && frame.body.size() < fragment) {
    base::Bytes& front = stream.chunks.front();
    const std::size_t left = front.size() - stream.front_sent;
    const std::size_t count = std::min(left, fragment - frame.body.size());
    stream.bytes -= count;
    bytes_ -= count;
    if (frame.body.empty() && count == front.size()) {
      frame.body = std::move(front);
    } else {
      frame.body.append(front, stream.front_sent, count);
    }
    stream.front_sent += count;
    if (count == left) {
      stream.chunks.pop_front();
      stream.front_sent = 0;
    }
  }
  if (stream.bytes > 0 || stream.end) {
    queue_stream(channel, stream);
  } else {
    streams_.erase(it);
  }
  return frame;
}

void FragmentSizer::sent(std::size_t bytes, base::TimePoint now, bool blocked) {
  if (!blocked_) {
    // A rate means something only while the link, not our own speed, is what holds us up.
    bytes_ = 0;
    since_ = now;
  }
  bytes_ += bytes;
  blocked_ = blocked;
}

void FragmentSizer::writable(base::TimePoint now) {
  if (!blocked_ || now <= since_) return;
  // Short samples say more about the kernel's buffer than about the link.
  const std::chrono::duration<double> took = now - since_;
  if (bytes_ < 256 * 1024 && took < std::chrono::milliseconds(50)) return;
  const double sample = static_cast<double>(bytes_) / took.count();
  rate_ = rate_ == 0 ? sample : rate_ * 0.75 + sample * 0.25;
  const std::chrono::duration<double> allowed = kFragmentTime;
  const double wanted = std::clamp(rate_ * allowed.count(), double{wire::kMinFragment}, double{wire::kMaxFragment});
  fragment_ = static_cast<std::size_t>(wanted);
  bytes_ = 0;
  since_ = now;
}

}  // namespace sandbar::mux
