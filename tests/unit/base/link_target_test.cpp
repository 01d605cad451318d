// SPDX-License-Identifier: Apache-2.0
#include "base/link_target.h"

#include <gtest/gtest.h>

namespace sandbar::base {
namespace {

TEST(LinkTarget, OnlyLeadingDotsWithinTheDepthStay) {
  for (const char* target : {"a", "a/b", "./a", "a/", "a//b/.", "", ".", "..a", "a/..b/c", ".../x"}) {
    EXPECT_TRUE(stays_below(target, 0)) << target;
    EXPECT_TRUE(stays_below(target, 3)) << target;
  }
  for (const char* target : {"..", "../", "../a", "./../a", ".//..//a/b"}) {
    EXPECT_FALSE(stays_below(target, 0)) << target;
    EXPECT_TRUE(stays_below(target, 1)) << target;
  }
  EXPECT_TRUE(stays_below("../../a", 2));
  EXPECT_FALSE(stays_below("../../a", 1));
  // The name before ".." can become a link to anywhere.
  for (const char* target : {"a/..", "a/../b", "../a/../b", "a/b/../../c", "a/./.."})
    EXPECT_FALSE(stays_below(target, 9)) << target;
  for (const char* target : {"/", "/a", "//a", "/..", "/../a"}) EXPECT_FALSE(stays_below(target, 9)) << target;
}

TEST(LinkTarget, ClimbsToTheTopAndDownAgain) {
  EXPECT_EQ(climb(0, ""), ".");
  EXPECT_EQ(climb(0, "a/b"), "a/b");
  EXPECT_EQ(climb(1, ""), "..");
  EXPECT_EQ(climb(2, ""), "../..");
  EXPECT_EQ(climb(2, "a/"), "../../a/");
}

TEST(LinkTarget, ConfinedOnesStay) {
  const struct {
    const char* target;
    std::size_t depth;
    const char* confined;
  } cases[] = {
      {"/", 0, "."},
      {"/", 2, "../.."},
      {"/etc/passwd", 0, "etc/passwd"},
      {"/etc/passwd", 1, "../etc/passwd"},
      {"..", 0, "."},
      {"../..", 1, ".."},
      {"../../x", 1, "../x"},
      {"a/../b", 1, "b"},
      {"a/../../b", 1, "../b"},
      {"a/../../../b", 1, "../b"},
      {"/../../b", 1, "../b"},
      {"/a/../../b/", 1, "../b/"},
      {"a/b/..", 0, "a/"},
      {"a/..", 0, "."},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(confine(one.target, one.depth), one.confined) << one.target << " at " << one.depth;
    EXPECT_TRUE(stays_below(confine(one.target, one.depth), one.depth)) << one.target;
  }
}

TEST(LinkTarget, KnowsWhereADirectoryIsWanted) {
  for (const char* target : {"", "/", "a/", "a/.", "..", "a/..", "."}) EXPECT_TRUE(wants_directory(target)) << target;
  for (const char* target : {"a", "a/b", "..b", "a/.b", "/x"}) EXPECT_FALSE(wants_directory(target)) << target;
}

}  // namespace
}  // namespace sandbar::base
