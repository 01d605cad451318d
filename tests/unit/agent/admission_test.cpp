// SPDX-License-Identifier: Apache-2.0
#include "agent/admission.h"

#include <gtest/gtest.h>

#include "grant/token.h"

namespace sandbar::agent {
namespace {

using grant::Grant;
using grant::Kind;

constexpr grant::UnixTime kNow = 1'800'000'000;

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionOptions options(const std::string& token = {}, const std::string& sandbox = {}) {
    AdmissionOptions options;
    options.token = token;
    options.sandbox = sandbox;
    options.clock = [this] { return now_; };
    options.grant_keys.emplace();
    EXPECT_TRUE(options.grant_keys->add_pem(key_.public_pem()).ok());
    return options;
  }
  static Grant grant_of(Kind kind, const std::string& subject = "me", const std::string& sandbox = {}) {
    Grant grant;
    grant.kind = kind;
    grant.subject = subject;
    grant.sandbox = sandbox;
    grant.issued = kNow;
    grant.expires = kNow + 600;
    return grant;
  }
  std::string token_of(Kind kind, const std::string& subject = "me", const std::string& sandbox = {}) {
    return *grant::mint(grant_of(kind, subject, sandbox), key_);
  }
  static void expect_refused(const Error& error, const std::string& token) {
    EXPECT_EQ(error.code, Errc::unauthorized);
    EXPECT_EQ(error.message().find(token), std::string::npos);
  }

  grant::PrivateKey key_ = grant::PrivateKey::generate();
  grant::UnixTime now_ = kNow;
};

TEST_F(AdmissionTest, LetsEverybodyInWhereNothingIsAskedFor) {
  const Admission admission({});
  EXPECT_EQ(admission.admit("")->subject(), "anybody");
  EXPECT_TRUE(admission.admit("whatever")->allows_everything());
}

TEST_F(AdmissionTest, LetsInWhoHasTheSharedToken) {
  AdmissionOptions shared;
  shared.token = "shared";
  const Admission admission(std::move(shared));
  EXPECT_TRUE(admission.admit("shared")->allows_everything());
  EXPECT_EQ(admission.admit("shared")->subject(), "token");
  for (const std::string& wrong :
       {std::string(), std::string("share"), std::string("Shared"), std::string("shared "), token_of(Kind::files)}) {
    ASSERT_FALSE(admission.admit(wrong).ok()) << wrong;
    if (wrong.size() > 6) expect_refused(admission.admit(wrong).error(), wrong);
  }
}

TEST_F(AdmissionTest, WithKeysOnlyNobodyIsInWithoutAGrant) {
  const Admission admission(options());
  EXPECT_FALSE(admission.admit("").ok());
  EXPECT_FALSE(admission.admit("sbg1.").ok());
  const auto access = admission.admit(token_of(Kind::shell));
  ASSERT_TRUE(access.ok());
  EXPECT_TRUE(access->shell(now_).ok());
  EXPECT_FALSE(access->files(now_).ok());
}

TEST_F(AdmissionTest, TakesBothTogether) {
  const Admission admission(options("shared"));
  EXPECT_TRUE(admission.admit("shared")->allows_everything());
  EXPECT_FALSE(admission.admit(token_of(Kind::files))->allows_everything());
  EXPECT_FALSE(admission.admit("").ok());
}

TEST_F(AdmissionTest, ASandboxIsToBeNamed) {
  const Admission admission(options({}, "box-1"));
  EXPECT_TRUE(admission.admit(token_of(Kind::files, "me", "box-1")).ok());
  EXPECT_FALSE(admission.admit(token_of(Kind::files, "me", "box-2")).ok());
  EXPECT_FALSE(admission.admit(token_of(Kind::files)).ok()) << "one for any sandbox";
  EXPECT_TRUE(Admission(options()).admit(token_of(Kind::files, "me", "box-2")).ok()) << "an agent without a name";
}

TEST_F(AdmissionTest, GrantsEndAndKeysGo) {
  Admission admission(options());
  const std::string token = token_of(Kind::files);
  now_ += 600 + grant::kClockLeeway;
  ASSERT_FALSE(admission.admit(token).ok());
  expect_refused(admission.admit(token).error(), token);
  EXPECT_NE(admission.admit(token).error().message().find("expired"), std::string::npos);
  now_ = kNow;
  EXPECT_TRUE(admission.admit(token).ok());
  grant::KeyRing others;
  ASSERT_TRUE(others.add_pem(grant::PrivateKey::generate().public_pem()).ok());
  admission.set_grant_keys(std::move(others));
  EXPECT_FALSE(admission.admit(token).ok());
}

TEST_F(AdmissionTest, AuthorizeAddsAGrantOfTheSameSubject) {
  const Admission admission(options("shared"));
  Access access = *admission.admit(token_of(Kind::files));
  EXPECT_TRUE(admission.authorize(access, token_of(Kind::shell)).ok());
  EXPECT_TRUE(access.shell(now_).ok());
  Access mine = *admission.admit(token_of(Kind::files));
  for (const std::string& wrong :
       {token_of(Kind::shell, "you"), std::string("shared"), std::string(), std::string("sbg1.x"),
        *grant::mint(grant_of(Kind::shell), grant::PrivateKey::generate())}) {
    const auto added = admission.authorize(mine, wrong);
    ASSERT_FALSE(added.ok()) << wrong;
    if (!wrong.empty()) expect_refused(added.error(), wrong);
    EXPECT_FALSE(mine.shell(now_).ok());
  }
}

TEST_F(AdmissionTest, AuthorizeChangesNothingForWhoMayDoEverything) {
  const Admission admission(options("shared"));
  Access everything = *admission.admit("shared");
  EXPECT_TRUE(admission.authorize(everything, "shared").ok());
  EXPECT_FALSE(admission.authorize(everything, "wrong").ok());
  EXPECT_FALSE(admission.authorize(everything, token_of(Kind::files)).ok());
  EXPECT_TRUE(everything.allows_everything());
  Access anybody = *Admission({}).admit("");
  EXPECT_TRUE(Admission({}).authorize(anybody, "whatever").ok());
}

}  // namespace
}  // namespace sandbar::agent
