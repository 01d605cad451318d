// SPDX-License-Identifier: Apache-2.0
#include "mount_options.h"

#include <gtest/gtest.h>

#include <ostream>

namespace sandbar::tools {
namespace {

Result<MountRequest> parse(std::string_view text, bool sloppy = false) {
  MountRequest request;
  if (auto parsed = parse_mount_options(text, sloppy, request); !parsed) return parsed.error();
  return request;
}

TEST(MountOptions, NothingIsTheDefault) {
  const auto request = parse("");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(60U, request->timeout_seconds);
  EXPECT_EQ(vfs::IdMapMode::user, request->id_map);
  EXPECT_FALSE(request->nonempty);
  EXPECT_FALSE(request->allow_other);
  EXPECT_FALSE(request->read_only);
  EXPECT_EQ(0U, request->max_read);
  EXPECT_TRUE(request->flags.empty());
  EXPECT_TRUE(request->token_file.empty());
}

TEST(MountOptions, AGrantCommandHasCommasAndEqualSigns) {
  const auto request = parse(R"(grant_command=mint --for=a\,b | tail -n 1,ro)");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ("mint --for=a,b | tail -n 1", request->grant_command);
  EXPECT_TRUE(request->read_only);
}

TEST(MountOptions, AllOfThem) {
  const auto request =
      parse("token_file=/a b/t,timeout=5,idmap=none,nonempty,allow_other,max_read=65536,ro,noexec,noatime,dirsync");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ("/a b/t", request->token_file);
  EXPECT_EQ(5U, request->timeout_seconds);
  EXPECT_EQ(vfs::IdMapMode::none, request->id_map);
  EXPECT_TRUE(request->nonempty);
  EXPECT_TRUE(request->allow_other);
  EXPECT_TRUE(request->read_only);
  EXPECT_EQ(65536U, request->max_read);
  EXPECT_EQ((std::vector<std::string>{"ro", "noexec", "noatime", "dirsync"}), request->flags);
}

TEST(MountOptions, TheLastWins) {
  const auto request = parse("ro,timeout=1,idmap=/m,rw,timeout=2,idmap=user");
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->read_only);
  EXPECT_EQ(2U, request->timeout_seconds);
  EXPECT_EQ(vfs::IdMapMode::user, request->id_map);
  EXPECT_EQ("", request->id_map_file);
  EXPECT_EQ((std::vector<std::string>{"ro", "rw"}), request->flags) << "the kernel takes the last one too";
}

TEST(MountOptions, AMapFileIsToldByItsSlash) {
  const auto request = parse("idmap=none,idmap=./map");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(vfs::IdMapMode::ranges, request->id_map);
  EXPECT_EQ("./map", request->id_map_file);
}

TEST(MountOptions, SeveralTextsAddUp) {
  MountRequest request;
  ASSERT_TRUE(parse_mount_options("ro", false, request).ok());
  ASSERT_TRUE(parse_mount_options("timeout=9", false, request).ok());
  EXPECT_TRUE(request.read_only);
  EXPECT_EQ(9U, request.timeout_seconds);
}

TEST(MountOptions, BackslashesKeepCommas) {
  const auto request = parse(R"(token_file=/a\,b\\c\d=e,ro)");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(R"(/a,b\c\d=e)", request->token_file);
  EXPECT_TRUE(request->read_only);
}

TEST(MountOptions, WhomToTrust) {
  const auto request = parse("ca_file=/a b.pem,insecure");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ("/a b.pem", request->ca_file);
  EXPECT_TRUE(request->insecure);
  EXPECT_FALSE(parse("ro")->insecure);
}

TEST(MountOptions, EmptyOnesAreNone) {
  EXPECT_TRUE(parse(",,ro,,").ok());
  EXPECT_FALSE(parse("=x").ok());
}

TEST(MountOptions, WhatMountAndFstabSayForThemselvesIsTaken) {
  const auto request =
      parse("defaults,noauto,user,user=jo,users,_netdev,nofail,nosuid,nodev,relatime,x-systemd.automount,comment=hm");
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->flags.empty());
}

TEST(MountOptions, SloppyLeavesUnknownOnesOut) {
  EXPECT_TRUE(parse("frobnicate,ro", true).ok());
  EXPECT_FALSE(parse("frobnicate,ro", false).ok());
}

struct Bad {
  const char* text;
  const char* says;
};
std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.text; }

class BadMountOptions : public testing::TestWithParam<Bad> {};

TEST_P(BadMountOptions, SayWhatIsWrong) {
  const auto request = parse(GetParam().text);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(Errc::invalid, request.error().code);
  EXPECT_NE(std::string::npos, request.error().message().find(GetParam().says)) << request.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadMountOptions,
    testing::Values(
        Bad{"alow_other", "did you mean allow_other?"}, Bad{"tokenfile=x", "did you mean token_file?"},
        Bad{"zzzzzzzz", "no mount option zzzzzzzz"}, Bad{"no\nsuch", "no\\x0asuch"}, Bad{"timeout", "needs a value"},
        Bad{"timeout=", "needs a value"}, Bad{"timeout=0", "between 1 and 86400"},
        Bad{"timeout=86401", "between 1 and 86400"}, Bad{"timeout=-1", "between 1 and 86400"},
        Bad{"timeout=1s", "between 1 and 86400"}, Bad{"timeout=99999999999999999999", "between 1 and 86400"},
        Bad{"max_read=4095", "between 4096 and 1048576"}, Bad{"max_read=1048577", "between 4096 and 1048576"},
        Bad{"max_read=4097", "multiple of 4096"}, Bad{"idmap=file", "(./file)"}, Bad{"token_file=", "needs a value"},
        Bad{"grant_command=", "needs a value"}, Bad{"ro=1", "ro has no value"}, Bad{"allow_other=yes", "has no value"},
        Bad{"insecure=1", "has no value"}, Bad{"ca_file", "needs a value"}, Bad{"cafile=x", "did you mean ca_file?"},
        Bad{"suid", "always nosuid"}, Bad{"dev", "always nosuid"}, Bad{"remount", "unmount, then mount again"},
        Bad{"fsname=x", "sets it itself"}));

TEST(MountOptions, BoundsAreInside) {
  EXPECT_EQ(1U, parse("timeout=1")->timeout_seconds);
  EXPECT_EQ(86400U, parse("timeout=86400")->timeout_seconds);
  EXPECT_EQ(4096U, parse("max_read=4096")->max_read);
  EXPECT_EQ(1048576U, parse("max_read=1048576")->max_read);
}

}  // namespace
}  // namespace sandbar::tools
