// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace sandbar::base {
namespace {

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWhatItOwns) {
  const int fd = open_null();
  ASSERT_GE(fd, 0);
  {
    UniqueFd owner(fd);
    EXPECT_TRUE(owner);
    EXPECT_EQ(owner.get(), fd);
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, NoneAndReleased) {
  EXPECT_FALSE(UniqueFd());
  UniqueFd owner(open_null());
  const int fd = owner.release();
  EXPECT_FALSE(owner);
  EXPECT_TRUE(is_open(fd));
  owner.reset(fd);
  owner.reset();
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, Moves) {
  UniqueFd first(open_null());
  const int fd = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is promised
  UniqueFd third(open_null());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), fd);
  EXPECT_FALSE(is_open(replaced));
  UniqueFd& same = third;
  third = std::move(same);
  EXPECT_TRUE(is_open(fd));
}

}  // namespace
}  // namespace sandbar::base
