// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include "base/assert.h"
#include "base/synchronized.h"

namespace sandbar::base {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override { set_log_program("tool"); }
  void TearDown() override {
    set_log_program("sandbar");
    set_log_level(LogLevel::info);
  }
};

TEST_F(Log, OneLineAMessage) {
  testing::internal::CaptureStderr();
  log_info("started");
  log_error("a\nb\x1B[2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tool: started\ntool: a\\x0ab\\x1b[2J\n");
}

TEST_F(Log, Levels) {
  testing::internal::CaptureStderr();
  log_debug("hidden");
  set_log_level(LogLevel::debug);
  log_debug("shown");
  set_log_level(LogLevel::error);
  log_warning("hidden");
  log_error("shown too");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tool: shown\ntool: shown too\n");
}

TEST(Synchronized, GivesAccessToItsData) {
  Synchronized<int> number(3);
  number.with([](int& value) { ++value; });
  EXPECT_EQ(number.with([](int& value) { return value; }), 4);
}

TEST(AssertDeathTest, SaysWhatAndWhere) {
  EXPECT_DEATH(SANDBAR_ASSERT(1 + 1 == 3), "log_test.cpp:[0-9]+: assertion failed: 1 \\+ 1 == 3");
  SANDBAR_ASSERT(1 + 1 == 2);
}

}  // namespace
}  // namespace sandbar::base
