// SPDX-License-Identifier: Apache-2.0
#include "base/range_map.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace sandbar::base {
namespace {

using Map = RangeMap<char>;

TEST(RangeMap, ReplacesSplitsAndMelts) {
  Map map;
  map.set(10, 20, 'r');
  map.set(20, 25, 'r');
  map.set(30, 40, 'w');
  EXPECT_EQ(map.all(), (std::vector<Map::Range>{{10, 25, 'r'}, {30, 40, 'w'}}));
  map.set(25, 30, 'w');
  EXPECT_EQ(map.all(), (std::vector<Map::Range>{{10, 25, 'r'}, {25, 40, 'w'}})) << "touching, of two kinds";
  map.set(12, 14, 'w');
  EXPECT_EQ(map.all(), (std::vector<Map::Range>{{10, 12, 'r'}, {12, 14, 'w'}, {14, 25, 'r'}, {25, 40, 'w'}}));
  map.set(11, 30, 'w');
  EXPECT_EQ(map.all(), (std::vector<Map::Range>{{10, 11, 'r'}, {11, 40, 'w'}}));
  map.clear(20, 22);
  EXPECT_EQ(map.all(), (std::vector<Map::Range>{{10, 11, 'r'}, {11, 20, 'w'}, {22, 40, 'w'}}));
  map.set(20, 22, 'w');
  EXPECT_EQ(map.size(), 2U);
  map.set(5, 5, 'w');
  map.set(6, 5, 'w');
  map.clear(0, 100);
  EXPECT_TRUE(map.empty());
}

TEST(RangeMap, TellsPartsAndGaps) {
  Map map;
  EXPECT_EQ(map.parts(3, 5), (std::vector<Map::Part>{{3, 5, std::nullopt}}));
  map.set(10, 20, 'r');
  map.set(20, 30, 'w');
  EXPECT_EQ(map.parts(5, 40),
            (std::vector<Map::Part>{{5, 10, std::nullopt}, {10, 20, 'r'}, {20, 30, 'w'}, {30, 40, std::nullopt}}));
  EXPECT_EQ(map.parts(12, 25), (std::vector<Map::Part>{{12, 20, 'r'}, {20, 25, 'w'}}));
  EXPECT_EQ(map.parts(30, 31), (std::vector<Map::Part>{{30, 31, std::nullopt}}));
  EXPECT_TRUE(map.parts(15, 15).empty());
  const auto any = [](char) { return true; };
  const auto write = [](char value) { return value == 'w'; };
  EXPECT_EQ(map.find(15, 25, any)->start, 10U);
  EXPECT_EQ(map.find(15, 25, write)->start, 20U);
  EXPECT_FALSE(map.find(15, 20, write));
  EXPECT_FALSE(map.find(30, 99, any));
}

// Against one value a number.
TEST(RangeMap, AsAPlainArray) {
  std::mt19937 random(7);
  constexpr std::size_t kSize = 24;
  Map map;
  std::array<std::optional<char>, kSize> plain{};
  for (int step = 0; step < 20000; ++step) {
    const std::size_t start = random() % (kSize + 1);
    const std::size_t end = random() % (kSize + 1);
    const std::array<std::optional<char>, 3> values{std::nullopt, 'r', 'w'};
    const std::optional<char> value = values[random() % 3];
    value ? map.set(start, end, *value) : map.clear(start, end);
    for (std::size_t i = start; i < end; ++i) plain[i] = value;
    std::size_t at = 0;
    std::optional<char> before = 'x';
    for (const Map::Part& part : map.parts(0, kSize)) {
      ASSERT_EQ(part.start, at);
      ASSERT_LT(part.start, part.end);
      ASSERT_NE(part.value, before) << "not melted at " << at;
      before = part.value;
      for (; at < part.end; ++at) ASSERT_EQ(plain[at], part.value) << at << " after step " << step;
    }
    ASSERT_EQ(at, kSize);
  }
}

}  // namespace
}  // namespace sandbar::base
