// SPDX-License-Identifier: Apache-2.0
#include "mux/liveness.h"

namespace sandbar::mux {

void Liveness::pong(std::uint64_t value, base::TimePoint now) {
  if (value != last_ping_ || !ping_sent_) return;
  const base::Duration sample = now - *ping_sent_;
  round_trip_ = round_trip_ == base::Duration::zero() ? sample : round_trip_ + (sample - round_trip_) / 8;
  ping_sent_.reset();
}

Liveness::Tick Liveness::tick(base::TimePoint now) {
  const bool we_were_stopped = now - last_tick_ > interval_ * 2;
  last_tick_ = now;
  if (we_were_stopped) last_heard_ = now;
  if (now - last_heard_ >= dead_after_) return {true, 0};
  ping_sent_ = now;
  return {false, ++last_ping_};
}

}  // namespace sandbar::mux
