// SPDX-License-Identifier: Apache-2.0
#include "base/duration.h"

#include <gtest/gtest.h>

namespace sandbar::base {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Duration, WithAUnitOrInSeconds) {
  EXPECT_EQ(parse_duration("0"), seconds(0));
  EXPECT_EQ(parse_duration("90"), seconds(90));
  EXPECT_EQ(parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(parse_duration("3s"), seconds(3));
  EXPECT_EQ(parse_duration("10m"), minutes(10));
  EXPECT_EQ(parse_duration("2h"), hours(2));
  EXPECT_EQ(parse_duration("7d"), hours(168));
  EXPECT_EQ(parse_duration("36525d"), hours(24) * 36525);
}

TEST(Duration, NothingElse) {
  for (const char* text : {"", "s", "-1", "+1", " 1", "1 ", "1 s", "1.5s", "1S", "1y", "1sm", "0x10", "36526d",
                           "18446744073709551615", "18446744073709551616", "99999999999999999999h"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

}  // namespace
}  // namespace sandbar::base
