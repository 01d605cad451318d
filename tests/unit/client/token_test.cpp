// SPDX-License-Identifier: Apache-2.0
#include "client/token.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sandbar::client {
namespace {

class TokenTest : public ::testing::Test {
 protected:
  TokenTest() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-token.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~TokenTest() override {
    std::filesystem::remove_all(folder_);
    ::unsetenv("SANDBOX_TOKEN");
  }

  std::string file(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/token";
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  static void expect_refused(const std::string& path, const std::string& says) {
    const auto token = read_token_file(path);
    ASSERT_FALSE(token.ok()) << says;
    EXPECT_EQ(token.error().code, Errc::invalid);
    EXPECT_NE(token.error().message().find(says), std::string::npos) << token.error().message();
    EXPECT_NE(token.error().message().find(path), std::string::npos) << token.error().message();
    EXPECT_EQ(token.error().message().find("secret"), std::string::npos) << "the token is in the message";
  }

  std::string folder_;
};

TEST_F(TokenTest, IsTheTextWithoutTheWhiteSpaceAround) {
  for (const char* text : {"secret", "secret\n", " \t secret\r\n\n"}) {
    const auto token = read_token_file(file(text));
    ASSERT_TRUE(token.ok()) << token.error().message();
    EXPECT_EQ(*token, "secret");
  }
}

TEST_F(TokenTest, AFileThatOthersHaveRightsOnIsRefused) {
  for (const mode_t mode : {0640, 0604, 0660, 0602, 0644, 0777}) expect_refused(file("secret", mode), "chmod 600");
  EXPECT_TRUE(read_token_file(file("secret", 0400)).ok());
  EXPECT_TRUE(read_token_file(file("secret", 0700)).ok());
}

TEST_F(TokenTest, WhatIsNoTokenIsRefused) {
  expect_refused(file(""), "empty");
  expect_refused(file(" \n"), "empty");
  expect_refused(file("secret one"), "white space");
  expect_refused(file("secret\r\nX-Other: y"), "white space");
  expect_refused(file(std::string("secret\0x", 8)), "characters");
  expect_refused(file("secret\xc3\xa4"), "characters");
}

TEST_F(TokenTest, SizeIsBounded) {
  EXPECT_TRUE(read_token_file(file(std::string(8192, 'x'))).ok());
  expect_refused(file(std::string(8193, 'x')), "8 KiB");
}

TEST_F(TokenTest, AMissingFileAndADirectoryAreErrors) {
  EXPECT_EQ(read_token_file(folder_ + "/none").error().os_errno, ENOENT);
  EXPECT_EQ(read_token_file(folder_).error().os_errno, EISDIR);
}

TEST_F(TokenTest, APipeIsReadToItsEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "secret\n", 7), 7);
  ::close(ends[1]);
  const auto token = read_token_file("/proc/self/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  ASSERT_TRUE(token.ok()) << token.error().message();
  EXPECT_EQ(*token, "secret");
}

TEST_F(TokenTest, TheFileComesBeforeTheEnvironment) {
  ::setenv("SANDBOX_TOKEN", "other", 1);
  EXPECT_EQ(*find_token(file("secret")), "secret");
  EXPECT_EQ(*find_token(""), "other");
  ::unsetenv("SANDBOX_TOKEN");
  EXPECT_EQ(*find_token(""), "");
}

TEST_F(TokenTest, TheEnvironmentsIsCheckedToo) {
  ::setenv("SANDBOX_TOKEN", "secret\r\nX: y", 1);
  const auto token = find_token("");
  ASSERT_FALSE(token.ok());
  EXPECT_EQ(token.error().message().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace sandbar::client
