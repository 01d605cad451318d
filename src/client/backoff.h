// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/loop.h"

namespace sandbar::client {

/// How long to wait before the next attempt to reach an agent: not at all at first, then from kFirst on twice as long
/// each time up to kLongest, each made shorter by up to a quarter so that many clients of one agent do not come back
/// all at once.
class Backoff {
 public:
  static constexpr base::Duration kFirst = std::chrono::milliseconds(100);
  static constexpr base::Duration kLongest = std::chrono::seconds(2);

  explicit Backoff(std::uint64_t seed) : random_(seed | 1U) {}

  base::Duration next() {
    const base::Duration wait = wait_;
    wait_ = wait_ == base::Duration::zero() ? kFirst : std::min(wait_ * 2, kLongest);
    // xorshift64 (Marsaglia 2003): spread is all that is asked of it.
    random_ ^= random_ << 13U;
    random_ ^= random_ >> 7U;
    random_ ^= random_ << 17U;
    return wait - wait / 4 * static_cast<base::Duration::rep>(random_ % 1024) / 1024;
  }
  /// It was reached, or the network is another: the next attempt is made at once, or after kFirst.
  void reset(bool at_once) { wait_ = at_once ? base::Duration::zero() : kFirst; }

 private:
  base::Duration wait_{0};
  std::uint64_t random_;
};

}  // namespace sandbar::client
