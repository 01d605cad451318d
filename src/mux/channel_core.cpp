// SPDX-License-Identifier: Apache-2.0
#include "mux/channel_core.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace sandbar::mux {
namespace {

/// Bytes of one channel that may wait in our own scheduler: enough to keep a fast link busy, little enough that a slow
/// one does not hide megabytes from its writer.
constexpr std::size_t kMaxWaiting = 512 * 1024;

}  // namespace

ChannelCore::ChannelCore(base::Loop& loop, std::weak_ptr<ChannelHost> host, wire::ChannelId id, std::size_t credit)
    : loop_(loop), host_(std::move(host)), id_(id), peer_window_(credit), credit_(credit), starved_(credit == 0) {}

void ChannelCore::set_handler(Handler* handler) {
  handler_ = handler;
  if (handler_ != nullptr) post_delivery();
}

std::size_t ChannelCore::budget() const {
  const auto host = host_.lock();
  if (!host || sent_end_ || reset_) return 0;
  const std::size_t waiting = host->channel_waiting(id_);
  return std::min(credit_, waiting >= kMaxWaiting ? 0 : kMaxWaiting - waiting);
}

void ChannelCore::write(base::Bytes data) {
  const auto host = host_.lock();
  if (!host || reset_ || data.empty()) return;
  SANDBAR_ASSERT(!sent_end_ && data.size() <= budget());
  credit_ -= data.size();
  host->channel_data(id_, std::move(data));
  starved_ = budget() == 0;
}

void ChannelCore::end() {
  const auto host = host_.lock();
  if (!host || reset_ || sent_end_) return;
  sent_end_ = true;
  host->channel_end(id_);
  finish_if_done();
}

void ChannelCore::reset(const Error& reason) {
  handler_ = nullptr;
  inbox_.clear();
  if (reset_) return;
  reset_ = reason;
  if (const auto host = host_.lock()) host->channel_reset(id_, reason);
}

void ChannelCore::consumed(std::size_t count) {
  SANDBAR_ASSERT(count <= unconsumed_);
  unconsumed_ -= count;
  taken_bytes_ += count;
  const auto host = host_.lock();
  if (!host || reset_ || got_end_) return;
  // A quarter of the window at a time: few credit frames, and the sender never waits for the last byte.
  if (taken_bytes_ < wire::kChannelWindow / 4) return;
  window_ += taken_bytes_;
  host->channel_credit(id_, std::exchange(taken_bytes_, 0));
}

bool ChannelCore::peer_data(base::Bytes data) {
  if (got_end_ || data.size() > window_) return false;
  window_ -= data.size();
  if (reset_) return true;
  unconsumed_ += data.size();
  inbox_.push_back(std::move(data));
  deliver();
  return true;
}

bool ChannelCore::peer_end() {
  if (got_end_) return false;
  got_end_ = true;
  deliver();
  finish_if_done();
  return true;
}

bool ChannelCore::peer_credit(std::uint64_t bytes) {
  // The peer gives back what it took, so never more than its window in all.
  if (bytes == 0 || bytes > peer_window_ || credit_ + bytes > peer_window_) return false;
  credit_ += bytes;
  drained();
  return true;
}

void ChannelCore::peer_reset(const Error& reason) {
  if (reset_) return;
  reset_ = reason;
  host_.reset();
  deliver();
}

void ChannelCore::open_window(std::size_t credit) {
  peer_window_ = credit_ = credit;
  drained();
}

void ChannelCore::drained() {
  if (starved_ && handler_ != nullptr && budget() > 0) post_delivery();
}

void ChannelCore::tell_writable() {
  if (!starved_ || handler_ == nullptr || budget() == 0) return;
  starved_ = false;
  handler_->on_writable();
}

void ChannelCore::post_delivery() {
  if (delivering_) return;
  delivering_ = true;
  loop_.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->delivering_ = false;
    self->deliver();
    self->tell_writable();
  });
}

void ChannelCore::deliver() {
  // A posted delivery keeps the order: what arrives until then waits behind it.
  if (delivering_) return;
  const auto self = shared_from_this();  // a handler may drop the channel
  while (handler_ != nullptr && !inbox_.empty()) {
    base::Bytes data = std::move(inbox_.front());
    inbox_.pop_front();
    handler_->on_data(std::move(data));
  }
  if (handler_ == nullptr || !inbox_.empty()) return;
  if (got_end_ && !told_end_) {
    told_end_ = true;
    handler_->on_end();
  }
  if (handler_ != nullptr && reset_ && !told_reset_) {
    told_reset_ = true;
    std::exchange(handler_, nullptr)->on_reset(*reset_);
  }
}

void ChannelCore::finish_if_done() {
  if (!sent_end_ || !got_end_) return;
  if (const auto host = host_.lock()) host->channel_done(id_);
}

}  // namespace sandbar::mux
