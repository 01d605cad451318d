// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/loop.h"

namespace sandbar::mux {

/// Tells from what is heard whether the peer lives, and how far away it is. The owner calls tick() every interval and
/// sends a ping with the value it gives.
class Liveness {
 public:
  Liveness(base::Duration interval, base::Duration dead_after, base::TimePoint now)
      : interval_(interval), dead_after_(dead_after), last_tick_(now), last_heard_(now) {}

  /// A new connection: what was measured stays.
  void restart(base::TimePoint now) {
    last_tick_ = last_heard_ = now;
    ping_sent_.reset();
  }
  /// Anything arrived.
  void heard(base::TimePoint now) { last_heard_ = now; }
  /// The pong of ping `value`.
  void pong(std::uint64_t value, base::TimePoint now);

  struct Tick {
    bool dead = false;
    std::uint64_t ping = 0;  ///< to send when not dead
  };
  /// A tick that comes much too late means that this process was stopped, not the peer: what the peer sent meanwhile
  /// is still unread, so the peer gets a full period again.
  Tick tick(base::TimePoint now);

  /// Smoothed (1/8 of each new sample, as RFC 6298); 0 before the first.
  [[nodiscard]] base::Duration round_trip() const { return round_trip_; }

 private:
  base::Duration interval_;
  base::Duration dead_after_;
  base::TimePoint last_tick_;
  base::TimePoint last_heard_;
  std::uint64_t last_ping_ = 0;
  std::optional<base::TimePoint> ping_sent_;  ///< of last_ping_, while unanswered
  base::Duration round_trip_{0};
};

}  // namespace sandbar::mux
