// SPDX-License-Identifier: Apache-2.0
#include "base/strong_id.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace sandbar::base {
namespace {

struct AppleTag;
struct PearTag;
using Apple = StrongId<AppleTag>;
using Pear = StrongId<PearTag>;

static_assert(!std::is_convertible_v<Apple, Pear> && !std::is_convertible_v<std::uint64_t, Apple> &&
              !std::is_convertible_v<Apple, std::uint64_t>);
static_assert(std::is_same_v<StrongId<AppleTag, std::uint32_t>::rep, std::uint32_t>);

TEST(StrongId, ZeroIsNone) {
  EXPECT_FALSE(Apple());
  EXPECT_FALSE(Apple(0));
  EXPECT_TRUE(Apple(1));
}

TEST(StrongId, ComparesAndHashes) {
  EXPECT_EQ(Apple(3), Apple(3));
  EXPECT_LT(Apple(3), Apple(4));
  const std::unordered_set<Apple> set{Apple(1), Apple(2), Apple(1)};
  EXPECT_EQ(set.size(), 2U);
}

}  // namespace
}  // namespace sandbar::base
