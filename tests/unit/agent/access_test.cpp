// SPDX-License-Identifier: Apache-2.0
#include "agent/access.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <variant>

namespace sandbar::agent {
namespace {

using grant::Grant;
using grant::Kind;

constexpr grant::UnixTime kNow = 1'800'000'000;
constexpr grant::UnixTime kExpired = kNow + 600 + grant::kClockLeeway;
constexpr AgentIdentity kSelf{1000, 100};

Grant grant_of(Kind kind, std::uint16_t port = 0) {
  Grant grant;
  grant.kind = kind;
  grant.port = port;
  grant.subject = "me";
  grant.issued = kNow;
  grant.expires = kNow + 600;
  return grant;
}

/// What each request needs, apart from the code's own list: whoever adds a request says it twice.
const std::map<std::string, Need>& table() {
  static const std::map<std::string, Need> needs = [] {
    std::map<std::string, Need> all;
    for (const char* name : {"attach",
                             "lookup",
                             "restore",
                             "release",
                             "get_attributes",
                             "set_attributes",
                             "read_link",
                             "make_directory",
                             "make_node",
                             "make_symlink",
                             "make_link",
                             "unlink",
                             "remove_directory",
                             "rename",
                             "open",
                             "create",
                             "close",
                             "read",
                             "write",
                             "fsync",
                             "list",
                             "statfs",
                             "get_xattr",
                             "set_xattr",
                             "list_xattr",
                             "remove_xattr",
                             "lock",
                             "test_lock",
                             "allocate",
                             "seek",
                             "copy_range"})
      all[name] = Need::files;
    for (const char* name : {"spawn", "wait_process", "signal_process"}) all[name] = Need::shell;
    all["authorize"] = Need::nothing;
    return all;
  }();
  return needs;
}

template <class F, std::size_t... I>
void each_request(F&& f, std::index_sequence<I...>) {
  (f(wire::RequestBody(std::in_place_index<I>)), ...);
}
template <class F>
void each_request(F&& f) {
  each_request(std::forward<F>(f), std::make_index_sequence<std::variant_size_v<wire::RequestBody>>{});
}

void expect_missing(const Result<void>& result, const std::string& why) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::unauthorized);
  EXPECT_NE(result.error().message().find(why), std::string::npos) << result.error().message();
}

TEST(AccessMatrix, EachRequestNeedsItsKindOfGrant) {
  std::size_t seen = 0;
  each_request([&](wire::RequestBody body) {
    const std::string name = wire::request_name(body);
    const auto row = table().find(name);
    ASSERT_NE(row, table().end()) << name << ": say what it needs";
    ++seen;
    const Need need = row->second;
    const wire::Request request{{}, std::move(body)};
    EXPECT_EQ(requirement_of(request.body).need, need) << name;
    EXPECT_TRUE(Access::everything("token").check(request, kSelf, kNow).ok()) << name;
    for (const Kind kind : {Kind::files, Kind::shell, Kind::port}) {
      const Access access = Access::of(grant_of(kind, kind == Kind::port ? 80 : 0));
      const bool allowed = need == Need::nothing || (need == Need::files && kind == Kind::files) ||
                           (need == Need::shell && kind == Kind::shell);
      const auto result = access.check(request, kSelf, kNow);
      EXPECT_EQ(result.ok(), allowed) << name << " with a grant of " << grant::kind_name(kind);
      if (!allowed) expect_missing(result, need == Need::files ? "a files grant is needed" : "a shell grant is needed");
    }
    EXPECT_EQ(Access().check(request, kSelf, kNow).ok(), need == Need::nothing) << name << " with nothing";
  });
  EXPECT_EQ(seen, table().size());
}

TEST(AccessMatrix, AnExpiredGrantAllowsGivingBackOnly) {
  each_request([](wire::RequestBody body) {
    const std::string name = wire::request_name(body);
    const Need need = table().at(name);
    const bool gives_back = name == "release" || name == "close";
    const wire::Request request{{}, std::move(body)};
    const Access files = Access::of(grant_of(Kind::files));
    EXPECT_TRUE(need != Need::files || files.check(request, kSelf, kExpired - 1).ok()) << name;
    const auto result = files.check(request, kSelf, kExpired);
    EXPECT_EQ(result.ok(), need == Need::nothing || gives_back) << name;
    if (need == Need::files && !gives_back) expect_missing(result, "files grant has expired");
    if (need == Need::shell) expect_missing(result, "a shell grant is needed");
    const Access shell = Access::of(grant_of(Kind::shell));
    if (need == Need::shell) expect_missing(shell.check(request, kSelf, kExpired), "shell grant has expired");
  });
}

TEST(Access, AnUnlockGoesWithAnExpiredGrantALockDoesNot) {
  const Access access = Access::of(grant_of(Kind::files));
  wire::Lock lock;
  lock.type = wire::LockType::unlock;
  EXPECT_TRUE(access.check({{}, lock}, kSelf, kExpired).ok());
  lock.type = wire::LockType::write;
  EXPECT_FALSE(access.check({{}, lock}, kSelf, kExpired).ok());
}

TEST(Access, NamesWhatThereIsAndWhatIsMissing) {
  Access access = Access::of(grant_of(Kind::files));
  EXPECT_EQ(access.shell(kNow).error().message(), "this session's grants allow files only; a shell grant is needed");
  ASSERT_TRUE(access.add(grant_of(Kind::port, 80), kNow).ok());
  ASSERT_TRUE(access.add(grant_of(Kind::port, 81), kNow).ok());
  EXPECT_EQ(access.port(82, kNow).error().message(),
            "this session's grants allow files, port 80 and port 81 only; a port 82 grant is needed");
}

TEST(Access, APortGrantOpensItsPortOnly) {
  const Access access = Access::of(grant_of(Kind::port, 80));
  EXPECT_TRUE(access.port(80, kNow).ok());
  EXPECT_FALSE(access.port(81, kNow).ok());
  EXPECT_FALSE(access.files(kNow).ok());
  EXPECT_FALSE(access.shell(kNow).ok());
  expect_missing(access.port(80, kExpired), "port 80 grant has expired");
  EXPECT_FALSE(Access::of(grant_of(Kind::shell)).port(80, kNow).ok());
  EXPECT_TRUE(Access::everything("token").port(80, kNow).ok());
}

TEST(Access, TakesFurtherGrantsOfItsSubject) {
  Access access = Access::of(grant_of(Kind::files));
  EXPECT_EQ(access.subject(), "grant/me");
  ASSERT_TRUE(access.add(grant_of(Kind::shell), kNow).ok());
  EXPECT_TRUE(access.files(kNow).ok());
  EXPECT_TRUE(access.shell(kNow).ok());
  Grant other = grant_of(Kind::port, 80);
  other.subject = "you";
  expect_missing(access.add(other, kNow), "another subject");
  EXPECT_FALSE(access.port(80, kNow).ok());
}

/// A grant's subject is the signer's to choose: none may be that of whoever has the shared token.
TEST(Access, NoSubjectOfAGrantIsThatOfTheToken) {
  Grant grant = grant_of(Kind::files);
  grant.subject = "token";
  EXPECT_NE(Access::of(grant).subject(), "token");
  Access everything = Access::everything("token");
  EXPECT_FALSE(everything.add(grant, kNow).ok());
}

TEST(Access, ARenewedGrantTakesThePlaceOfTheOld) {
  Access access = Access::of(grant_of(Kind::files));
  Grant renewed = grant_of(Kind::files);
  for (std::size_t i = 0; i < 3 * kMaxSessionGrants; ++i) {
    renewed.expires += 60;
    ASSERT_TRUE(access.add(renewed, kNow).ok()) << i;
  }
  EXPECT_TRUE(access.files(renewed.expires).ok());
}

TEST(Access, HoldsABoundedNumberAndMakesRoomOfExpiredOnes) {
  Access access = Access::of(grant_of(Kind::files));
  std::uint16_t port = 1;
  for (; port < kMaxSessionGrants; ++port) ASSERT_TRUE(access.add(grant_of(Kind::port, port), kNow).ok());
  const auto beyond = access.add(grant_of(Kind::port, port), kNow);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, Errc::limit);
  Grant later = grant_of(Kind::port, port);
  later.expires = kExpired + 600;
  ASSERT_TRUE(access.add(later, kExpired).ok());
  EXPECT_TRUE(access.port(port, kExpired).ok());
}

wire::Request lookup_by(std::uint32_t uid, std::uint32_t gid, std::vector<std::uint32_t> groups = {}) {
  return {{wire::Caller{uid, gid, std::move(groups), 0}, {}, {}}, wire::Lookup{}};
}

TEST(Access, ActsAsAnybodyWhereTheGrantNamesNobody) {
  const Access access = Access::of(grant_of(Kind::files));
  EXPECT_TRUE(access.check(lookup_by(0, 0, {4, 27}), kSelf, kNow).ok());
}

TEST(Access, ActsAsTheUsersOfItsGrantOnly) {
  Grant grant = grant_of(Kind::files);
  grant.uids = {{1001, 1002}};
  const Access access = Access::of(grant);
  EXPECT_TRUE(access.check(lookup_by(1001, 1001), kSelf, kNow).ok());
  EXPECT_TRUE(access.check(lookup_by(1002, 1001, {1001, 1002}), kSelf, kNow).ok());
  for (const std::uint32_t uid : {0U, 1000U, 1003U}) EXPECT_FALSE(access.check(lookup_by(uid, 1001), kSelf, kNow).ok());
  // Nor with the rights of a group that the user is not in.
  EXPECT_FALSE(access.check(lookup_by(1001, 0), kSelf, kNow).ok());
  EXPECT_FALSE(access.check(lookup_by(1001, 1001, {1001, 0}), kSelf, kNow).ok());
  EXPECT_FALSE(access.check(lookup_by(1001, 100), kSelf, kNow).ok()) << "the agent's group is for the agent's user";
  // Without a caller the agent's own user acts.
  expect_missing(access.check({{}, wire::Lookup{}}, kSelf, kNow), "uid 1000, gid 100");
}

TEST(Access, TheAgentsOwnUserComesWithItsGroup) {
  Grant grant = grant_of(Kind::files);
  grant.uids = {{1000}};
  const Access access = Access::of(grant);
  EXPECT_TRUE(access.check({{}, wire::Lookup{}}, kSelf, kNow).ok());
  EXPECT_TRUE(access.check(lookup_by(1000, 100), kSelf, kNow).ok());
  EXPECT_FALSE(access.check(lookup_by(1000, 27), kSelf, kNow).ok());
}

TEST(Access, GroupsCanBeNamed) {
  Grant grant = grant_of(Kind::files);
  grant.uids = {{1001}};
  grant.gids = {{50, 60}};
  const Access access = Access::of(grant);
  EXPECT_TRUE(access.check(lookup_by(1001, 50, {60}), kSelf, kNow).ok());
  EXPECT_FALSE(access.check(lookup_by(1001, 1001), kSelf, kNow).ok());
}

/// Two grants do not add up to what neither allows.
TEST(Access, UserAndGroupsAreOfOneGrant) {
  Grant first = grant_of(Kind::files);
  first.uids = {{1}};
  Grant second = grant_of(Kind::files);
  second.uids = {{2}};
  Access access = Access::of(first);
  ASSERT_TRUE(access.add(second, kNow).ok());
  EXPECT_TRUE(access.check(lookup_by(1, 1), kSelf, kNow).ok());
  EXPECT_TRUE(access.check(lookup_by(2, 2), kSelf, kNow).ok());
  EXPECT_FALSE(access.check(lookup_by(1, 2), kSelf, kNow).ok());
  // Nor do kinds: a shell grant for root is none for root's files.
  Grant shell = grant_of(Kind::shell);
  ASSERT_TRUE(access.add(shell, kNow).ok());
  EXPECT_FALSE(access.check(lookup_by(0, 0), kSelf, kNow).ok());
}

}  // namespace
}  // namespace sandbar::agent
