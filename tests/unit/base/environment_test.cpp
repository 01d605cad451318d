// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/sha256.h"
#include "base/text.h"

namespace sandbar::base {
namespace {

std::multiset<std::string> entries(const ChildEnvironment& environment) {
  std::multiset<std::string> all;
  for (char* const* entry = environment.data(); *entry != nullptr; ++entry) all.emplace(*entry);
  return all;
}

TEST(ChildEnvironment, HasOursWithoutTheToken) {
  ::setenv("SANDBOX_TOKEN", "secret", 1);
  ::setenv("SANDBOX_TOKENS", "no secret", 1);
  ::setenv("SANDBAR_TEST", "ours", 1);
  const ChildEnvironment environment;
  EXPECT_EQ(entries(environment).count("SANDBAR_TEST=ours"), 1U);
  EXPECT_EQ(entries(environment).count("SANDBOX_TOKENS=no secret"), 1U);
  EXPECT_EQ(entries(environment).count("SANDBOX_TOKEN=secret"), 0U);
  ::unsetenv("SANDBOX_TOKEN");
}

TEST(ChildEnvironment, ReplacesWhatIsAdded) {
  ::setenv("SANDBAR_TEST", "ours", 1);
  const ChildEnvironment environment({"SANDBAR_TEST=theirs", "SANDBAR_NEW="});
  EXPECT_EQ(entries(environment).count("SANDBAR_TEST=ours"), 0U);
  EXPECT_EQ(entries(environment).count("SANDBAR_TEST=theirs"), 1U);
  EXPECT_EQ(entries(environment).count("SANDBAR_NEW="), 1U);
}

/// The two vectors of FIPS 180-4.
TEST(Sha256, IsTheStandards) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace sandbar::base
