// SPDX-License-Identifier: Apache-2.0
#include "fuse/mount.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace sandbar::fuse {
namespace {

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST(MountArguments, AreSafeAlways) {
  const auto words = mount_arguments({.mount_point = "/m", .source = "ws://h"});
  for (const char* word : {"-odefault_permissions", "-onosuid", "-onodev", "-ofsname=ws://h", "-osubtype=sandbox"})
    EXPECT_TRUE(has(words, word)) << word;
  EXPECT_FALSE(has(words, "-oallow_other"));
}

TEST(MountArguments, HoldWhatWasAskedFor) {
  const auto words =
      mount_arguments({.mount_point = "/m", .source = "s", .allow_other = true, .max_read = 8192, .flags = {"ro"}});
  EXPECT_TRUE(has(words, "-oallow_other"));
  EXPECT_TRUE(has(words, "-omax_read=8192"));
  EXPECT_TRUE(has(words, "-oro"));
}

TEST(MountArguments, EscapeTheSource) {
  EXPECT_TRUE(has(mount_arguments({.mount_point = "/m", .source = R"(exec:a,b\c)"}), R"(-ofsname=exec:a\,b\\c)"));
}

TEST(MountArguments, CutALongSource) {
  const auto words = mount_arguments({.mount_point = "/m", .source = std::string(5000, 'x')});
  EXPECT_TRUE(has(words, "-ofsname=" + std::string(1024, 'x')));
}

TEST(OneLine, JoinsAndStripsPrefixes) {
  EXPECT_EQ("", one_line(""));
  EXPECT_EQ("mount failed: Permission denied", one_line("fusermount3: mount failed: Permission denied\n"));
  EXPECT_EQ("a; b", one_line("fuse: a\n\nfusermount3: b"));
}

TEST(StderrCapture, TakesWhatIsWrittenAndGivesStderrBack) {
  const int before = ::dup(STDERR_FILENO);
  {
    const StderrCapture capture;
    ASSERT_EQ(9, ::write(STDERR_FILENO, "fuse: no\n", 9));
    EXPECT_EQ("no", capture.text());
  }
  struct stat a {};
  struct stat b {};
  ASSERT_EQ(0, ::fstat(before, &a));
  ASSERT_EQ(0, ::fstat(STDERR_FILENO, &b));
  EXPECT_EQ(a.st_ino, b.st_ino);
  ::close(before);
}

}  // namespace
}  // namespace sandbar::fuse
