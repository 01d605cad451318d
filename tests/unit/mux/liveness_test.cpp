// SPDX-License-Identifier: Apache-2.0
#include "mux/liveness.h"

#include <gtest/gtest.h>

namespace sandbar::mux {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const base::TimePoint kStart{std::chrono::hours(1)};

TEST(Liveness, SmoothsTheRoundTrip) {
  Liveness liveness(seconds(4), seconds(13), kStart);
  const auto first = liveness.tick(kStart + seconds(4));
  liveness.pong(first.ping, kStart + seconds(4) + milliseconds(80));
  EXPECT_EQ(liveness.round_trip(), milliseconds(80));
  liveness.heard(kStart + seconds(5));
  const auto second = liveness.tick(kStart + seconds(8));
  liveness.pong(second.ping, kStart + seconds(8) + milliseconds(160));
  EXPECT_EQ(liveness.round_trip(), milliseconds(90));
}

TEST(Liveness, IgnoresPongsThatNobodyAskedFor) {
  Liveness liveness(seconds(4), seconds(13), kStart);
  liveness.pong(7, kStart + seconds(1));
  const auto tick = liveness.tick(kStart + seconds(4));
  liveness.pong(tick.ping + 1, kStart + seconds(5));
  EXPECT_EQ(liveness.round_trip(), base::Duration::zero());
}

}  // namespace
}  // namespace sandbar::mux
