// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "mux/channel.h"
#include "wire/limits.h"

namespace sandbar::mux {

/// What a channel needs of its session.
class ChannelHost {
 public:
  virtual ~ChannelHost() = default;
  virtual void channel_data(wire::ChannelId id, base::Bytes data) = 0;
  virtual void channel_end(wire::ChannelId id) = 0;
  virtual void channel_reset(wire::ChannelId id, const Error& reason) = 0;
  virtual void channel_credit(wire::ChannelId id, std::size_t bytes) = 0;
  /// Both directions ended: the session forgets the channel.
  virtual void channel_done(wire::ChannelId id) = 0;
  [[nodiscard]] virtual std::size_t channel_waiting(wire::ChannelId id) const = 0;
};

/// One end of a stream: credits both ways, and what arrived before there was a handler.
class ChannelCore final : public Channel, public std::enable_shared_from_this<ChannelCore> {
 public:
  /// `credit`: the peer's window, which we may fill. A null host makes a channel that is reset already.
  ChannelCore(base::Loop& loop, std::weak_ptr<ChannelHost> host, wire::ChannelId id, std::size_t credit);

  [[nodiscard]] wire::ChannelId id() const override { return id_; }
  void set_handler(Handler* handler) override;
  [[nodiscard]] std::size_t budget() const override;
  void write(base::Bytes data) override;
  void end() override;
  void reset(const Error& reason) override;
  void consumed(std::size_t count) override;

  // From the session. False: the peer broke the rules.
  [[nodiscard]] bool peer_data(base::Bytes data);
  [[nodiscard]] bool peer_end();
  [[nodiscard]] bool peer_credit(std::uint64_t bytes);
  void peer_reset(const Error& reason);
  /// The session handed some of our bytes to the transport, or credit came: a starved user is told, in a task of its
  /// own.
  void drained();
  /// The peer's window, once its hello tells it.
  void open_window(std::size_t credit);

  bool taken = false;  ///< by the service that was told of it; the session's book-keeping

 private:
  void post_delivery();
  void deliver();
  void tell_writable();
  void finish_if_done();

  base::Loop& loop_;
  std::weak_ptr<ChannelHost> host_;
  const wire::ChannelId id_;
  Handler* handler_ = nullptr;
  bool delivering_ = false;  ///< a delivery is posted

  std::size_t peer_window_;  ///< the peer's; our credit never exceeds it
  std::size_t credit_;       ///< bytes that the peer lets us send beyond what was given to the scheduler
  bool sent_end_ = false;
  bool starved_;  ///< budget() was 0: the user is owed an on_writable

  std::deque<base::Bytes> inbox_;              ///< arrived, not given to the handler
  std::size_t window_ = wire::kChannelWindow;  ///< bytes that the peer may still send
  std::size_t taken_bytes_ = 0;                ///< consumed, not yet given back as credit
  std::size_t unconsumed_ = 0;                 ///< arrived and not consumed
  bool got_end_ = false;
  bool told_end_ = false;
  std::optional<Error> reset_;
  bool told_reset_ = false;
};

}  // namespace sandbar::mux
