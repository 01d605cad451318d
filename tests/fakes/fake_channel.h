// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/loop.h"
#include "mux/channel.h"

namespace sandbar::fakes {

/// A channel without a session: the test is its peer. Calls `changed` after each act of its user, so that a test can
/// wait for one.
class FakeChannel final : public mux::Channel, public std::enable_shared_from_this<FakeChannel> {
 public:
  explicit FakeChannel(base::Loop& loop, base::Function<void()> changed = {})
      : loop_(loop), changed_(std::move(changed)) {}

  // The peer's side.
  base::Bytes received;  ///< what the user wrote
  bool ended = false;
  std::optional<Error> reset_reason;
  std::size_t taken = 0;  ///< consumed() in all
  std::size_t credit = SIZE_MAX / 2;

  void send(base::Bytes data) {
    incoming_.push_back(std::move(data));
    deliver_later();
  }
  void send_end() {
    end_sent_ = true;
    deliver_later();
  }
  void send_reset(const Error& reason) {
    incoming_.clear();
    peer_reset_ = reason;
    deliver_later();
  }
  void give(std::size_t bytes) {
    credit += bytes;
    loop_.post([self = shared_from_this()] {
      if (self->handler_ != nullptr && self->budget() > 0) self->handler_->on_writable();
    });
  }
  [[nodiscard]] bool over() const { return ended || reset_reason.has_value(); }

  // The user's side.
  [[nodiscard]] wire::ChannelId id() const override { return wire::ChannelId(1); }
  void set_handler(Handler* handler) override {
    handler_ = handler;
    deliver_later();
  }
  [[nodiscard]] std::size_t budget() const override { return over() ? 0 : credit; }
  void write(base::Bytes data) override {
    if (reset_reason) return;
    if (ended || data.size() > credit) std::abort();
    credit -= data.size();
    received += data;
    tell();
  }
  void end() override {
    ended = true;
    tell();
  }
  void reset(const Error& reason) override {
    handler_ = nullptr;
    if (!reset_reason) reset_reason = reason;
    tell();
  }
  void consumed(std::size_t count) override {
    taken += count;
    tell();
  }

 private:
  void tell() {
    if (changed_) changed_();
  }
  void deliver_later() {
    loop_.post([self = shared_from_this()] { self->deliver(); });
  }
  void deliver() {
    while (handler_ != nullptr && !incoming_.empty()) {
      base::Bytes data = std::move(incoming_.front());
      incoming_.pop_front();
      handler_->on_data(std::move(data));
    }
    if (handler_ == nullptr || !incoming_.empty()) return;
    if (end_sent_ && !std::exchange(told_end_, true)) handler_->on_end();
    if (handler_ != nullptr && peer_reset_) std::exchange(handler_, nullptr)->on_reset(*peer_reset_);
  }

  base::Loop& loop_;
  base::Function<void()> changed_;
  Handler* handler_ = nullptr;
  std::deque<base::Bytes> incoming_;
  bool end_sent_ = false;
  bool told_end_ = false;
  std::optional<Error> peer_reset_;
};

}  // namespace sandbar::fakes
