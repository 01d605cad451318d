// SPDX-License-Identifier: Apache-2.0
#include "grant/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sandbar::grant {
namespace {

// The key pair of RFC 8410, section 10.
constexpr const char* kRfcPrivate =
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char* kRfcPublic =
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
    "-----END PUBLIC KEY-----\n";
// prime256v1
constexpr const char* kOtherCurve =
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9\n"
    "q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==\n-----END PUBLIC KEY-----\n";

class Keys : public ::testing::Test {
 protected:
  Keys() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-keys.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~Keys() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text, mode_t mode = 0600) {
    std::string path = folder_ + "/key" + std::to_string(++count_);
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string folder_;
  int count_ = 0;
};

TEST_F(Keys, OfTheStandardHasItsPublicKey) {
  const auto key = PrivateKey::from_pem(kRfcPrivate);
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->public_pem(), kRfcPublic);
  EXPECT_EQ(key->id().size(), kKeyIdSize);
  KeyRing ring;
  ASSERT_TRUE(ring.add_pem(kRfcPublic).ok());
  EXPECT_TRUE(ring.knows(key->id()));
  EXPECT_TRUE(ring.verify(key->id(), "text", key->sign("text")));
  EXPECT_FALSE(ring.verify(key->id(), "other", key->sign("text")));
}

TEST_F(Keys, ThatAreMadeDifferAndComeBack) {
  const PrivateKey a = PrivateKey::generate();
  const PrivateKey b = PrivateKey::generate();
  EXPECT_NE(a.id(), b.id());
  const auto again = PrivateKey::from_pem(a.pem());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->id(), a.id());
  EXPECT_EQ(again->sign("m"), a.sign("m"));
}

TEST_F(Keys, ARingHoldsSeveral) {
  const PrivateKey a = PrivateKey::generate();
  const PrivateKey b = PrivateKey::generate();
  KeyRing ring;
  ASSERT_TRUE(ring.add_pem("# the old one\n" + a.public_pem() + "\n# the new one\n" + b.public_pem()).ok());
  EXPECT_EQ(ring.size(), 2U);
  EXPECT_TRUE(ring.verify(a.id(), "m", a.sign("m")));
  EXPECT_TRUE(ring.verify(b.id(), "m", b.sign("m")));
  EXPECT_FALSE(ring.verify(a.id(), "m", b.sign("m")));
  EXPECT_FALSE(ring.verify(PrivateKey::generate().id(), "m", a.sign("m")));
}

TEST_F(Keys, ARingRefusesWhatIsNoPublicKey) {
  KeyRing ring;
  const std::string good = PrivateKey::generate().public_pem();
  for (const std::string& bad :
       {std::string(), std::string("no key"), std::string(kOtherCurve), good + kOtherCurve, good.substr(0, 60),
        std::string("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
        std::string("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}) {
    const auto added = ring.add_pem(bad);
    ASSERT_FALSE(added.ok()) << bad;
    EXPECT_EQ(added.error().code, Errc::invalid);
    EXPECT_EQ(ring.size(), 0U);
  }
}

TEST_F(Keys, ARingSaysThatAPrivateKeyIsOne) {
  KeyRing ring;
  const auto added = ring.add_pem(kRfcPrivate);
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().message().find("private"), std::string::npos);
  EXPECT_EQ(added.error().message().find("MC4C"), std::string::npos);
}

TEST_F(Keys, ARingIsBounded) {
  KeyRing ring;
  for (std::size_t i = 0; i < kMaxKeys; ++i) ASSERT_TRUE(ring.add_pem(kRfcPublic).ok());
  EXPECT_FALSE(ring.add_pem(kRfcPublic).ok());
  EXPECT_EQ(ring.size(), kMaxKeys);
}

TEST_F(Keys, OfAFileAreItsOwnersAlone) {
  EXPECT_TRUE(PrivateKey::read_file(file(kRfcPrivate, 0600)).ok());
  EXPECT_TRUE(PrivateKey::read_file(file(kRfcPrivate, 0400)).ok());
  for (const mode_t mode : {0640, 0604, 0620, 0601}) {
    const std::string path = file(kRfcPrivate, mode);
    const auto key = PrivateKey::read_file(path);
    ASSERT_FALSE(key.ok()) << mode;
    EXPECT_NE(key.error().message().find("chmod 600 " + path), std::string::npos) << key.error().message();
  }
  // A public key may be anybody's to read.
  KeyRing ring;
  EXPECT_TRUE(ring.add_file(file(kRfcPublic, 0644)).ok());
}

TEST_F(Keys, OfAFileThatCannotBeRead) {
  EXPECT_EQ(PrivateKey::read_file(folder_ + "/none").error().os_errno, ENOENT);
  EXPECT_EQ(PrivateKey::read_file(folder_).error().os_errno, EISDIR);
  for (const std::string& text :
       {std::string(), std::string(kRfcPublic), std::string("text"), std::string(kOtherCurve)}) {
    const auto key = PrivateKey::read_file(file(text));
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_NE(key.error().message().find(folder_), std::string::npos);
  }
  KeyRing ring;
  EXPECT_EQ(ring.add_file(folder_ + "/none").error().os_errno, ENOENT);
  const auto wrong = ring.add_file(file("text"));
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find(folder_), std::string::npos);
}

TEST_F(Keys, AFileIsBounded) {
  const std::string padding(kMaxKeyFile - std::string(kRfcPublic).size(), '\n');
  KeyRing ring;
  EXPECT_TRUE(ring.add_file(file(kRfcPublic + padding)).ok());
  EXPECT_FALSE(ring.add_file(file(kRfcPublic + padding + "\n")).ok());
}

/// OpenSSL asks on the terminal by default; a test that hangs here does so.
TEST_F(Keys, AnEncryptedKeyIsRefusedWithoutAQuestion) {
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
      "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhVz2U6Qyoj+AICCAAw\n"
      "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEMWfB1bNUbJnjRvGIYpAHTgEQH0v\n"
      "-----END ENCRYPTED PRIVATE KEY-----\n";
  const auto key = PrivateKey::from_pem(encrypted);
  ASSERT_FALSE(key.ok());
  EXPECT_NE(key.error().message().find("passphrase"), std::string::npos);
}

}  // namespace
}  // namespace sandbar::grant
