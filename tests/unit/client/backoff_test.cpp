// SPDX-License-Identifier: Apache-2.0
#include "client/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace sandbar::client {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, GrowsFromNothingToItsBound) {
  Backoff backoff(7);
  EXPECT_EQ(backoff.next(), base::Duration::zero());
  base::Duration full = Backoff::kFirst;
  for (int i = 0; i < 20; ++i) {
    const base::Duration wait = backoff.next();
    EXPECT_LE(wait, full);
    EXPECT_GE(wait, full - full / 4);
    full = std::min(full * 2, Backoff::kLongest);
  }
}

TEST(Backoff, BeginsAgainAtOnceOrWithAPause) {
  Backoff backoff(7);
  for (int i = 0; i < 10; ++i) backoff.next();
  backoff.reset(true);
  EXPECT_EQ(backoff.next(), base::Duration::zero());
  for (int i = 0; i < 10; ++i) backoff.next();
  backoff.reset(false);
  const base::Duration wait = backoff.next();
  EXPECT_LE(wait, Backoff::kFirst);
  EXPECT_GE(wait, Backoff::kFirst - Backoff::kFirst / 4);
}

TEST(Backoff, ClientsDoNotComeBackAllAtOnce) {
  std::set<base::Duration> waits;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Backoff backoff(seed * 0x9E3779B97F4A7C15U);
    backoff.next();
    waits.insert(backoff.next());
  }
  EXPECT_GT(waits.size(), 50U);
}

}  // namespace
}  // namespace sandbar::client
