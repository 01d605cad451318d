// SPDX-License-Identifier: Apache-2.0
#include "base/function.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace sandbar::base {
namespace {

int twice(int number) { return 2 * number; }

TEST(Function, EmptyOnes) {
  Function<void()> none;
  EXPECT_FALSE(none);
  Function<void()> null = nullptr;
  EXPECT_FALSE(null);
  Task some = [] {};
  EXPECT_TRUE(some);
  some = nullptr;
  EXPECT_FALSE(some);
}

TEST(Function, CallsFunctionsAndLambdas) {
  Function<int(int)> function = twice;
  EXPECT_EQ(function(4), 8);
  int calls = 0;
  Function<int(int)> counting = [&calls](int number) { return number + ++calls; };
  EXPECT_EQ(counting(10), 11);
  EXPECT_EQ(counting(10), 12);
}

TEST(Function, OwnsStateThatCannotBeCopied) {
  auto number = std::make_unique<int>(7);
  Function<int()> first = [number = std::move(number)] { return (*number)++; };
  Function<int()> second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is promised
  EXPECT_EQ(second(), 7);
  EXPECT_EQ(second(), 8);
}

TEST(Function, PassesArgumentsOnWithoutCopies) {
  Function<std::unique_ptr<int>(std::unique_ptr<int>, const std::string&)> function = [](std::unique_ptr<int> number,
                                                                                         const std::string& text) {
    *number += static_cast<int>(text.size());
    return number;
  };
  EXPECT_EQ(*function(std::make_unique<int>(1), "abc"), 4);
  int changed = 0;
  Function<void(int&)> change = [](int& number) { number = 5; };
  change(changed);
  EXPECT_EQ(changed, 5);
}

TEST(Function, DestroysItsStateOnce) {
  auto state = std::make_shared<int>(1);
  {
    Task task = [state] {};
    EXPECT_EQ(state.use_count(), 2);
    Task moved = std::move(task);
    EXPECT_EQ(state.use_count(), 2);
  }
  EXPECT_EQ(state.use_count(), 1);
}

}  // namespace
}  // namespace sandbar::base
