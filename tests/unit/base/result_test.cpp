// SPDX-License-Identifier: Apache-2.0
#include "sandbar/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace sandbar {
namespace {

Error some_error() { return make_error(Errc::limit, "count", "too many"); }

TEST(Result, HoldsAValue) {
  Result<std::string> result = std::string("text");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(*result, "text");
  EXPECT_EQ(result->size(), 4U);
  result.value() += "s";
  const Result<std::string>& same = result;
  EXPECT_EQ(same.value(), "texts");
  EXPECT_EQ(*same, "texts");
  EXPECT_EQ(same->size(), 5U);
}

TEST(Result, HoldsAnError) {
  Result<std::string> result = some_error();
  ASSERT_FALSE(result.ok());
  EXPECT_FALSE(static_cast<bool>(result));
  EXPECT_EQ(result.error().code, Errc::limit);
  const Result<std::string>& same = result;
  EXPECT_EQ(same.error().detail, "too many");
  const Error moved = std::move(result).error();
  EXPECT_EQ(moved.operation, "count");
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
  Result<std::unique_ptr<int>> other = std::make_unique<int>(8);
  EXPECT_EQ(*std::unique_ptr<int>(*std::move(other)), 8);
}

TEST(Result, OfNothing) {
  Result<void> good;
  EXPECT_TRUE(good.ok());
  Result<void> bad = some_error();
  EXPECT_FALSE(bad.ok());
  const Result<void>& same = bad;
  EXPECT_EQ(same.error().code, Errc::limit);
  EXPECT_EQ(bad.error().code, Errc::limit);
  EXPECT_EQ(std::move(bad).error().detail, "too many");
}

TEST(ResultDeathTest, TheSideThatIsNotThereAborts) {
  Result<int> value = 1;
  Result<int> error = some_error();
  Result<void> nothing;
  EXPECT_DEATH(static_cast<void>(value.error()), "");
  EXPECT_DEATH(static_cast<void>(error.value()), "");
  EXPECT_DEATH(static_cast<void>(*error), "");
  EXPECT_DEATH(static_cast<void>(nothing.error()), "");
}

}  // namespace
}  // namespace sandbar
