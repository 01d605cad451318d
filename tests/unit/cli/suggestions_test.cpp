// SPDX-License-Identifier: Apache-2.0
#include "cli/suggestions.h"

#include <gtest/gtest.h>

namespace sandbar::cli {
namespace {

TEST(EditDistance, CountsEachKindOfSlipOnce) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("agent", "agent"), 0U);
  EXPECT_EQ(edit_distance("agnt", "agent"), 1U);
  EXPECT_EQ(edit_distance("aagent", "agent"), 1U);
  EXPECT_EQ(edit_distance("agemt", "agent"), 1U);
  EXPECT_EQ(edit_distance("agnet", "agent"), 1U) << "neighbours swapped";
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Nearest, FindsTheNearestOfSeveral) {
  const std::vector<std::string> names = {"--token-file", "--foreground", "--version", "-f"};
  EXPECT_EQ(nearest("--tokenfile", names), "--token-file");
  EXPECT_EQ(nearest("--foregruond", names), "--foreground");
  EXPECT_EQ(nearest("--versino", names), "--version");
}

TEST(Nearest, CompletesWhatOnlyOneNameBeginsWith) {
  EXPECT_EQ(nearest("--tok", {"--token-file", "--state"}), "--token-file");
  EXPECT_EQ(nearest("--s", {"--state", "--stdio"}), "") << "two names begin so";
}

TEST(Nearest, NamesNothingThatIsFar) {
  EXPECT_EQ(nearest("--recursive", {"--token-file", "--state"}), "");
  EXPECT_EQ(nearest("x", {"f", "h"}), "") << "one letter is near to any other";
  EXPECT_EQ(nearest("-x", {"-f"}), "-f") << "but a short option is shown the one there is";
  EXPECT_EQ(nearest("", {"a"}), "");
  EXPECT_EQ(nearest(std::string(100000, 'a'), {"a"}), "") << "and is not compared for long";
}

}  // namespace
}  // namespace sandbar::cli
