// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sandbar::base {
namespace {

class ReadFile : public ::testing::Test {
 protected:
  ReadFile() {
    std::string name = ::testing::TempDir() + "sandbar_read_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ReadFile() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/f";
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  std::string folder_;
};

TEST_F(ReadFile, OneByteMoreThanAllowedShows) {
  const std::string path = file("12345");
  for (const std::size_t most : {3U, 4U, 5U, 6U}) {
    const auto fd = open_to_read(path, true, "read it");
    ASSERT_TRUE(fd.ok());
    EXPECT_EQ(read_up_to(fd->get(), most, "read it")->size(), std::min<std::size_t>(5, most + 1));
  }
  const auto failed = read_up_to(-1, 10, "read it");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().os_errno, EBADF);
  EXPECT_EQ(failed.error().operation, "read it");
}

TEST_F(ReadFile, ASecretIsItsOwnersAlone) {
  for (const mode_t mode : {0604U, 0602U, 0601U, 0640U, 0620U, 0610U}) {
    const std::string path = file("x", mode);
    const auto refused = open_to_read(path, true, "read it");
    ASSERT_FALSE(refused.ok()) << mode;
    EXPECT_EQ(refused.error().code, Errc::invalid);
    EXPECT_NE(refused.error().message().find("chmod 600 " + path), std::string::npos) << refused.error().message();
    EXPECT_TRUE(open_to_read(path, false, "read it").ok());
  }
  EXPECT_TRUE(open_to_read(file("x", 0400), true, "read it").ok());
}

TEST_F(ReadFile, WhatIsNoFile) {
  EXPECT_EQ(open_to_read(folder_, false, "read it").error().os_errno, EISDIR);
  EXPECT_EQ(open_to_read(folder_ + "/none", false, "read it").error().os_errno, ENOENT);
  EXPECT_EQ(open_regular(folder_ + "/none", "no file", "read it").error().os_errno, ENOENT);
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {folder_, fifo}) {
    const auto refused = open_regular(path, "no file", "read it");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::invalid);
    EXPECT_EQ(refused.error().detail, "no file");
  }
  EXPECT_TRUE(open_regular(file("x"), "no file", "read it").ok());
}

}  // namespace
}  // namespace sandbar::base
