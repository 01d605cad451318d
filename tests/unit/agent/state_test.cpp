// SPDX-License-Identifier: Apache-2.0
#include "agent/state.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sandbar::agent {
namespace {

class StateTest : public ::testing::Test {
 protected:
  StateTest() {
    std::string name = ::testing::TempDir() + "sandbar_state_XXXXXX";
    parent_ = ::mkdtemp(name.data());
    folder_ = parent_ / "state";
  }
  ~StateTest() override { std::filesystem::remove_all(parent_); }

  Result<State> open() { return State::open(folder_.string()); }
  void write(const std::string& text) { std::ofstream(folder_ / "agent") << text; }
  std::string read() {
    std::string text;
    std::getline(std::ifstream(folder_ / "agent"), text, '\0');
    return text;
  }

  std::filesystem::path parent_, folder_;
};

TEST_F(StateTest, WithoutAFolderEachIsNew) {
  const State a = State::temporary();
  const State b = State::temporary();
  EXPECT_EQ(a.id().size(), 32U);
  EXPECT_NE(a.id(), b.id());
  EXPECT_EQ(a.epoch(), 1U);
}

TEST_F(StateTest, TheIdStaysAndTheEpochGrows) {
  std::string id;
  for (std::uint64_t start = 1; start <= 3; ++start) {
    auto state = open();
    ASSERT_TRUE(state.ok()) << state.error().message();
    EXPECT_EQ(state->epoch(), start);
    if (start > 1) {
      EXPECT_EQ(state->id(), id);
    }
    id = state->id();
    EXPECT_EQ(read(), "id " + id + "\nepoch " + std::to_string(start) + "\n");
  }
  struct stat attributes {};
  ASSERT_EQ(::stat(folder_.c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 07777, 0700U);
}

TEST_F(StateTest, TwoAgentsDoNotShareOne) {
  auto first = open();
  ASSERT_TRUE(first.ok());
  auto second = open();
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find("another agent"), std::string::npos);
  first = State::temporary();
  EXPECT_TRUE(open().ok()) << "given back";
}

TEST_F(StateTest, AStartThatWasCutShortLeavesTheOldRecord) {
  const std::string id = open()->id();
  std::ofstream(folder_ / "agent.new") << "id half a rec";
  auto state = open();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->id(), id);
  EXPECT_EQ(state->epoch(), 2U);
}

TEST_F(StateTest, ADamagedRecordIsNotGuessedAt) {
  ASSERT_TRUE(open().ok());
  const std::string id(32, 'a');
  for (const std::string& text :
       {std::string(), std::string("x"), "id " + id + "\n", "id " + id + "\nepoch \n", "id " + id + "\nepoch 0\n",
        "id " + id + "\nepoch -1\n", "id " + id + "\nepoch 1", "id " + id + "\nepoch 1\nmore",
        "id " + id + "\nepoch 1 \n", "id " + std::string(32, 'A') + "\nepoch 1\n", "id " + id + "a\nepoch 1\n",
        "id " + id + "\nepoch 18446744073709551616\n", "id " + id + "\nepoch 18446744073709551615\n",
        std::string(100000, 'x')}) {
    write(text);
    auto state = open();
    ASSERT_FALSE(state.ok()) << text.substr(0, 80);
    EXPECT_NE(state.error().message().find("damaged"), std::string::npos);
    EXPECT_EQ(read(), text) << "left as it is";
  }
  write("id " + id + "\nepoch 18446744073709551614\n");
  EXPECT_EQ(open()->epoch(), UINT64_MAX);
}

TEST_F(StateTest, BadFoldersAreNamed) {
  EXPECT_NE(State::open((parent_ / "a/b").string()).error().message().find("a/b"), std::string::npos);
  std::ofstream(parent_ / "file") << "text";
  EXPECT_EQ(State::open((parent_ / "file").string()).error().os_errno, ENOTDIR);
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  EXPECT_NE(open().error().message().find("chmod 700"), std::string::npos);
}

TEST_F(StateTest, ALinkInItsPlaceIsNotFollowed) {
  ASSERT_TRUE(open().ok());
  std::filesystem::remove(folder_ / "agent");
  std::ofstream(parent_ / "elsewhere") << "keep";
  std::filesystem::create_symlink(parent_ / "elsewhere", folder_ / "agent.new");
  EXPECT_FALSE(open().ok());
  std::string text;
  std::getline(std::ifstream(parent_ / "elsewhere"), text);
  EXPECT_EQ(text, "keep");
}

}  // namespace
}  // namespace sandbar::agent
