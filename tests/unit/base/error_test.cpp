// SPDX-License-Identifier: Apache-2.0
#include "sandbar/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace sandbar {
namespace {

TEST(Errc, NamesAreStableAndReadBack) {
  const std::pair<Errc, const char*> all[] = {
      {Errc::os, "os"},
      {Errc::invalid, "invalid"},
      {Errc::timeout, "timeout"},
      {Errc::cancelled, "cancelled"},
      {Errc::disconnected, "disconnected"},
      {Errc::unauthorized, "unauthorized"},
      {Errc::protocol, "protocol"},
      {Errc::unsupported, "unsupported"},
      {Errc::limit, "limit"},
      {Errc::unknown, "unknown"},
      {Errc::internal, "internal"},
  };
  for (const auto& [code, name] : all) {
    EXPECT_EQ(errc_name(code), name);
    EXPECT_EQ(errc_from_name(name), code);
  }
}

TEST(Errc, NamesOfNewerVersionsAreInternal) {
  for (const char* name : {"", "OS", "os ", "of tomorrow"}) EXPECT_EQ(errc_from_name(name), Errc::internal) << name;
  EXPECT_EQ(errc_name(static_cast<Errc>(1000)), "internal");
}

TEST(Error, Message) {
  EXPECT_EQ(make_error(Errc::limit, "open a file", "too many").message(), "open a file: too many");
  EXPECT_EQ(make_error(Errc::limit, "open a file").message(), "open a file: limit");
  EXPECT_EQ(make_error(Errc::limit, "", "too many").message(), "too many");
  EXPECT_EQ(make_error(Errc::limit, "").message(), "limit");
}

TEST(Error, MessageOfASystemCall) {
  const Error error = os_error(ENOENT, "open x");
  EXPECT_EQ(error.code, Errc::os);
  EXPECT_EQ(error.os_errno, ENOENT);
  EXPECT_EQ(error.message(), "open x: No such file or directory");
  EXPECT_EQ(os_error(EACCES, "open", "x").message(), "open: x: Permission denied");
  EXPECT_EQ(os_error(4000, "open").message(), "open: error 4000");
}

}  // namespace
}  // namespace sandbar
