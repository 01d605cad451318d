// SPDX-License-Identifier: Apache-2.0
#include "grant/token.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/text.h"
#include "wire/grant_heads.h"

namespace sandbar::grant {
namespace {

constexpr UnixTime kNow = 1'800'000'000;

std::string base64url(std::string_view bytes) {
  std::string text = base::base64_encode(bytes);
  while (!text.empty() && text.back() == '=') text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

class Token : public ::testing::Test {
 protected:
  Token() { EXPECT_TRUE(ring_.add_pem(key_.public_pem()).ok()); }

  static Grant files() {
    Grant grant;
    grant.subject = "me";
    grant.issued = kNow;
    grant.expires = kNow + 600;
    return grant;
  }
  /// Whatever the JSON says, signed as it should be.
  [[nodiscard]] std::string signed_json(const std::string& json) const {
    std::string token = std::string(kTokenPrefix) + key_.id() + "." + base64url(json);
    return token + "." + base64url(key_.sign(token));
  }
  void expect_refused(const std::string& token, const std::string& why, UnixTime now = kNow) const {
    const auto grant = verify(token, ring_, now);
    ASSERT_FALSE(grant.ok()) << token.substr(0, 200);
    EXPECT_EQ(grant.error().code, Errc::unauthorized);
    EXPECT_NE(grant.error().message().find(why), std::string::npos) << grant.error().message();
    if (token.size() > 40) {
      EXPECT_EQ(grant.error().message().find(token.substr(token.size() / 2, 20)), std::string::npos) << "it is told";
    }
  }

  PrivateKey key_ = PrivateKey::generate();
  KeyRing ring_;
};

TEST_F(Token, ComesBack) {
  Grant grant = files();
  grant.kind = Kind::port;
  grant.port = 8080;
  grant.sandbox = "box-1";
  grant.uids = {{0, 1000}};
  grant.gids = {{100}};
  const auto token = mint(grant, key_);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->substr(0, 22), "sbg1." + key_.id() + ".");
  EXPECT_EQ(token->find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."),
            std::string::npos);
  const auto back = verify(*token, ring_, kNow);
  ASSERT_TRUE(back.ok()) << back.error().message();
  grant.key_id = key_.id();
  EXPECT_EQ(*back, grant);
  for (const Kind kind : {Kind::files, Kind::shell}) {
    Grant other = files();
    other.kind = kind;
    EXPECT_EQ(verify(*mint(other, key_), ring_, kNow)->kind, kind);
  }
}

/// Signed by `openssl pkeyutl -sign -rawin` with the key of RFC 8410: whoever signs need not be us.
TEST_F(Token, OfAnotherProgramIsTaken) {
  KeyRing ring;
  ASSERT_TRUE(ring.add_pem("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                           "-----END PUBLIC KEY-----\n")
                  .ok());
  const auto grant = verify(
      "sbg1.e744c0791320c328."
      "eyJraW5kIjoiZmlsZXMiLCJzdWJqZWN0IjoibWUiLCJpc3N1ZWQiOjE4MDAwMDAwMDAsImV4cGlyZXMiOjE4MDAwMDA2MDB9."
      "cstfxB60-m2AQ4MRk6TXOcNQmxf_30w3qhMPNdhwjq7jXDuqoiVX6wiUF7w9m2eiZMSfO4v3r-grVRpWP6CIDQ",
      ring, kNow);
  ASSERT_TRUE(grant.ok()) << grant.error().message();
  Grant expected = files();
  expected.key_id = "e744c0791320c328";
  EXPECT_EQ(*grant, expected);
}

TEST_F(Token, IsNotMintedFromWrongFields) {
  const auto wrong = [this](const std::function<void(Grant&)>& change) {
    Grant grant = files();
    change(grant);
    const auto token = mint(grant, key_);
    ASSERT_FALSE(token.ok());
    EXPECT_EQ(token.error().code, Errc::invalid);
  };
  wrong([](Grant& g) { g.kind = Kind::port; });
  wrong([](Grant& g) { g.port = 80; });
  wrong([](Grant& g) { g.subject = ""; });
  wrong([](Grant& g) { g.subject = "a b"; });
  wrong([](Grant& g) { g.subject = "a\n"; });
  wrong([](Grant& g) { g.subject = "\xC3\xA4"; });
  wrong([](Grant& g) { g.subject = std::string(wire::kMaxGrantName + 1, 'a'); });
  wrong([](Grant& g) { g.sandbox = "a b"; });
  wrong([](Grant& g) { g.sandbox = std::string(wire::kMaxGrantName + 1, 'a'); });
  wrong([](Grant& g) { g.uids = std::vector<std::uint32_t>(); });
  wrong([](Grant& g) { g.uids = std::vector<std::uint32_t>(wire::kMaxGrantIds + 1, 7); });
  wrong([](Grant& g) { g.gids = std::vector<std::uint32_t>(wire::kMaxGrantIds + 1, 7); });
  wrong([](Grant& g) { g.issued = -1; });
  wrong([](Grant& g) { g.expires = g.issued; });
  wrong([](Grant& g) { g.expires = g.issued + kMaxLife + 1; });
  Grant most = files();
  most.subject = std::string(wire::kMaxGrantName, 's');
  most.sandbox = std::string(wire::kMaxGrantName, 'b');
  most.uids = std::vector<std::uint32_t>(wire::kMaxGrantIds, 4294967294U);
  most.gids = most.uids;
  most.expires = most.issued + kMaxLife;
  const auto token = mint(most, key_);
  ASSERT_TRUE(token.ok());
  EXPECT_LE(token->size(), wire::kMaxToken);
  EXPECT_TRUE(verify(*token, ring_, kNow).ok());
}

TEST_F(Token, EndsAtItsTime) {
  const std::string token = *mint(files(), key_);
  EXPECT_TRUE(verify(token, ring_, kNow - kClockLeeway).ok());
  expect_refused(token, "not valid yet", kNow - kClockLeeway - 1);
  EXPECT_TRUE(verify(token, ring_, kNow + 600 + kClockLeeway - 1).ok());
  expect_refused(token, "expired", kNow + 600 + kClockLeeway);
}

TEST_F(Token, NeedsAKeyThatIsTrusted) {
  const PrivateKey other = PrivateKey::generate();
  const std::string token = *mint(files(), other);
  expect_refused(token, "does not trust");
  // Another's token that names our key.
  std::string forged = token;
  forged.replace(kTokenPrefix.size(), kKeyIdSize, key_.id());
  expect_refused(forged, "signature is wrong");
  ASSERT_TRUE(ring_.add_pem(other.public_pem()).ok());
  EXPECT_TRUE(verify(token, ring_, kNow).ok());
  EXPECT_TRUE(verify(*mint(files(), key_), ring_, kNow).ok()) << "the old key stays while its grants live";
}

TEST_F(Token, EachChangedCharacterIsSeen) {
  const std::string token = *mint(files(), key_);
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(verify(changed, ring_, kNow).ok()) << i;
  }
}

TEST_F(Token, EachTruncationAndGrowthIsSeen) {
  const std::string token = *mint(files(), key_);
  for (std::size_t size = 0; size < token.size(); ++size) EXPECT_FALSE(verify(token.substr(0, size), ring_, kNow).ok());
  for (const char* more : {"A", ".", "=", "\n", " ", "."}) EXPECT_FALSE(verify(token + more, ring_, kNow).ok());
  EXPECT_FALSE(verify(" " + token, ring_, kNow).ok());
  expect_refused(token + std::string(wire::kMaxToken, 'A'), "larger than 4096");
  expect_refused(std::string(10'000'000, '.'), "larger than 4096");
  expect_refused(std::string("sbg1.") + std::string(wire::kMaxToken - 5, '.'), "malformed");
}

TEST_F(Token, OfAnotherFormIsRefused) {
  for (const char* text : {"", "sbg2.x", "shared-token", "eyJhbGciOiJub25lIn0.e30.", "SBG1."})
    expect_refused(text, "not a grant");
}

TEST_F(Token, RefusesWrongFieldsThatAreSigned) {
  const std::string rest = R"("subject":"s","issued":1800000000,"expires":1800000600)";
  EXPECT_TRUE(verify(signed_json(R"({"kind":"files",)" + rest + "}"), ring_, kNow).ok());
  EXPECT_TRUE(verify(signed_json(R"({"kind":"files","newer":1,)" + rest + "}"), ring_, kNow).ok());
  expect_refused(signed_json(R"({"kind":"everything",)" + rest + "}"), "kind");
  expect_refused(signed_json(R"({"kind":"port",)" + rest + "}"), "port");
  expect_refused(signed_json(R"({"kind":"port","port":65536,)" + rest + "}"), "out of range");
  expect_refused(signed_json(R"({"kind":"files","port":1,)" + rest + "}"), "port");
  expect_refused(signed_json(R"({"kind":"files","uids":[],)" + rest + "}"), "user");
  expect_refused(signed_json(R"({"kind":"files","uids":"all",)" + rest + "}"), "uids");
  expect_refused(signed_json(R"({"kind":"files","kind":"shell",)" + rest + "}"), "twice");
  expect_refused(signed_json(R"({"kind":"files","subject":"","issued":1800000000,"expires":1800000600})"), "subject");
  expect_refused(signed_json(R"({"kind":"files","subject":"s","issued":1800000000,"expires":18446744073709551615})"),
                 "out of range");
  expect_refused(signed_json(R"({"kind":"files","subject":"s","issued":1800000000,"expires":1900000000})"), "30 days");
  expect_refused(signed_json("not json"), "malformed");
  expect_refused(signed_json("{}"), "malformed");
  expect_refused(signed_json(""), "malformed");
  // Another text for the same bytes (a bit set behind the last byte) would be another token of the same grant.
  std::string token = std::string(kTokenPrefix) + key_.id() + ".e31";
  expect_refused(token + "." + base64url(key_.sign(token)), "malformed");
}

}  // namespace
}  // namespace sandbar::grant
