// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/bytes.h"
#include "sandbar/error.h"
#include "wire/ids.h"

namespace sandbar::mux {

/// A byte stream both ways with credits: at most a window (wire::kChannelWindow) is on its way before the reader takes
/// some, so a slow reader stops its own sender and nothing else. On the loop's thread; shared by its session and its
/// user.
class Channel {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    /// Bytes in order. Call consumed() when they are out of the way: that lets the peer send more.
    virtual void on_data(base::Bytes data) = 0;
    /// The peer ended its direction; nothing was lost. Ours stays open.
    virtual void on_end() = 0;
    /// Over both ways, what was on the way is lost; the last call.
    virtual void on_reset(const Error& reason) = 0;
    /// budget() is not 0 any more.
    virtual void on_writable() = 0;
  };

  virtual ~Channel() = default;
  [[nodiscard]] virtual wire::ChannelId id() const = 0;
  /// Receives what came before and comes later; never inside this call. Null: kept until the next handler (bounded by
  /// the window).
  virtual void set_handler(Handler* handler) = 0;

  /// Bytes that write() may be given now: the peer's credit less what is queued here; 0 after end() or a reset.
  [[nodiscard]] virtual std::size_t budget() const = 0;
  /// Queues at most budget() bytes (more is our bug). Ignored after a reset.
  virtual void write(base::Bytes data) = 0;
  /// No more from us; what is queued still goes out.
  virtual void end() = 0;
  /// Both ways over at once. The peer's handler gets the reason, ours gets nothing any more.
  virtual void reset(const Error& reason) = 0;
  /// The handler is done with `count` bytes.
  virtual void consumed(std::size_t count) = 0;
};

}  // namespace sandbar::mux
