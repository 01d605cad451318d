// SPDX-License-Identifier: Apache-2.0
// `sandboxd keygen` and `sandboxd grant`.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "grant/token.h"
#include "sandboxd_grant.h"
#include "sandboxd_main.h"

namespace sandbar::tools {
namespace {

namespace fs = std::filesystem;

class GrantToolTest : public ::testing::Test {
 protected:
  GrantToolTest() {
    std::string name = (fs::temp_directory_path() / "sandbar-granttool.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~GrantToolTest() override { fs::remove_all(folder_); }

  int run(std::vector<std::string> words) {
    words.insert(words.begin(), "sandboxd");
    std::vector<const char*> argv;
    for (const auto& word : words) argv.push_back(word.c_str());
    out_.str("");
    err_.str("");
    return sandboxd_main(static_cast<int>(argv.size()), argv.data(), {in_, out_, err_});
  }
  void keygen() { ASSERT_EQ(run({"keygen", "--key", key()}), 0) << err_.str(); }
  [[nodiscard]] std::string key() const { return folder_ + "/grants.key"; }
  [[nodiscard]] static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  [[nodiscard]] static mode_t mode_of(const std::string& path) {
    struct stat attributes {};
    return ::stat(path.c_str(), &attributes) == 0 ? attributes.st_mode & 07777 : 0;
  }
  /// The grant of what was printed.
  Result<grant::Grant> printed() {
    grant::KeyRing ring;
    EXPECT_TRUE(ring.add_file(key() + ".pub").ok());
    std::string token = out_.str();
    if (!token.empty() && token.back() == '\n') token.pop_back();
    return grant::verify(token, ring, grant::unix_now());
  }

  std::string folder_;
  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(GrantToolTest, KeygenMakesAPair) {
  ::umask(0);
  keygen();
  EXPECT_EQ(mode_of(key()), 0600U);
  EXPECT_EQ(mode_of(key() + ".pub"), 0644U);
  EXPECT_EQ(out_.str().find("PRIVATE"), std::string::npos);
  const auto made = grant::PrivateKey::read_file(key());
  ASSERT_TRUE(made.ok());
  EXPECT_NE(out_.str().find(made->id()), std::string::npos);
  EXPECT_EQ(read(key() + ".pub"), made->public_pem());
}

TEST_F(GrantToolTest, KeygenOverwritesNothing) {
  keygen();
  const std::string before = read(key());
  EXPECT_EQ(run({"keygen", "--key", key()}), 1);
  EXPECT_NE(err_.str().find("exists already"), std::string::npos);
  EXPECT_EQ(read(key()), before);
  // Where only one of the two is in the way, the other is not left.
  fs::remove(key() + ".pub");
  EXPECT_EQ(run({"keygen", "--key", key()}), 1);
  EXPECT_FALSE(fs::exists(key() + ".pub"));
  EXPECT_EQ(read(key()), before);
  std::ofstream(folder_ + "/other.pub") << "mine";
  EXPECT_EQ(run({"keygen", "--key", folder_ + "/other"}), 1);
  EXPECT_FALSE(fs::exists(folder_ + "/other"));
  EXPECT_EQ(read(folder_ + "/other.pub"), "mine");
  // Nor does it write through a link.
  fs::create_symlink(folder_ + "/target", folder_ + "/link");
  EXPECT_EQ(run({"keygen", "--key", folder_ + "/link"}), 1);
  EXPECT_FALSE(fs::exists(folder_ + "/target"));
}

TEST_F(GrantToolTest, GrantPrintsAToken) {
  keygen();
  ASSERT_EQ(run({"grant", "--key", key(), "--kind", "port", "--port", "8080", "--sandbox", "box", "--subject", "ci",
                 "--uid", "1000", "--uid", "0", "--gid", "100", "--ttl", "2h"}),
            0)
      << err_.str();
  const auto grant = printed();
  ASSERT_TRUE(grant.ok()) << grant.error().message();
  EXPECT_EQ(grant->kind, grant::Kind::port);
  EXPECT_EQ(grant->port, 8080);
  EXPECT_EQ(grant->sandbox, "box");
  EXPECT_EQ(grant->subject, "ci");
  EXPECT_EQ(grant->uids, (std::vector<std::uint32_t>{1000, 0}));
  EXPECT_EQ(grant->gids, (std::vector<std::uint32_t>{100}));
  EXPECT_EQ(grant->expires - grant->issued, 7200);
}

TEST_F(GrantToolTest, GrantHasDefaults) {
  keygen();
  ASSERT_EQ(run({"grant", "--key", key(), "--kind", "files"}), 0) << err_.str();
  const auto grant = printed();
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant->expires - grant->issued, 600);
  EXPECT_FALSE(grant->subject.empty());
  EXPECT_EQ(grant->sandbox, "");
  EXPECT_EQ(grant->uids, std::nullopt);
}

TEST_F(GrantToolTest, GrantSpeaksJson) {
  keygen();
  ASSERT_EQ(run({"grant", "--key", key(), "--kind", "shell", "-o", "json"}), 0) << err_.str();
  const std::string json = out_.str();
  const auto made = grant::PrivateKey::read_file(key());
  EXPECT_EQ(json.find(R"({"token":"sbg1.)" + made->id() + "."), 0U) << json;
  EXPECT_NE(json.find(R"("expires_at":)"), std::string::npos);
  EXPECT_NE(json.find(R"("key_id":")" + made->id() + "\"}\n"), std::string::npos);
  EXPECT_EQ(run({"grant", "--key", folder_ + "/none", "--kind", "shell", "-o", "json"}), 1);
  EXPECT_EQ(out_.str().find(R"({"error":)"), 0U);
}

TEST_F(GrantToolTest, GrantRefusesWrongUsage) {
  keygen();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--kind", "files"},
                                             {"--key", key()},
                                             {"--key", key(), "--kind", "everything"},
                                             {"--key", key(), "--kind", "port"},
                                             {"--key", key(), "--kind", "port", "--port", "0"},
                                             {"--key", key(), "--kind", "port", "--port", "65536"},
                                             {"--key", key(), "--kind", "files", "--port", "80"},
                                             {"--key", key(), "--kind", "files", "--uid", "root"},
                                             {"--key", key(), "--kind", "files", "--uid", "4294967295"},
                                             {"--key", key(), "--kind", "files", "--uid", "-1"},
                                             {"--key", key(), "--kind", "files", "--gid", "x"},
                                             {"--key", key(), "--kind", "files", "--subject", ""},
                                             {"--key", key(), "--kind", "files", "--subject", "a b"},
                                             {"--key", key(), "--kind", "files", "--sandbox", "a b"},
                                             {"--key", key(), "--kind", "files", "--ttl", "31d"},
                                             {"--key", key(), "--kind", "files", "--ttl", "0"}}) {
    std::vector<std::string> all{"grant"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run(all), 2) << ::testing::PrintToString(words);
    EXPECT_EQ(out_.str(), "");
    EXPECT_NE(err_.str(), "");
  }
}

TEST_F(GrantToolTest, AKeyThatOthersCanReadIsRefused) {
  keygen();
  ::chmod(key().c_str(), 0640);
  EXPECT_EQ(run({"grant", "--key", key(), "--kind", "files"}), 1);
  EXPECT_NE(err_.str().find("chmod 600"), std::string::npos);
  EXPECT_EQ(run({"grant", "--key", key() + ".pub", "--kind", "files"}), 1);
}

TEST_F(GrantToolTest, Times) {
  for (const auto& [text, seconds] :
       {std::pair{"1", 1}, {"90", 90}, {"90s", 90}, {"10m", 600}, {"1h", 3600}, {"30d", 2592000}, {"2592000", 2592000}})
    EXPECT_EQ(*parse_ttl(text), seconds) << text;
  for (const char* text : {"", "s", "0", "-1", "1.5h", "10 m", "10x", "31d", "2592001", "99999999999999999999d", "1hh"})
    EXPECT_FALSE(parse_ttl(text).ok()) << text;
}

}  // namespace
}  // namespace sandbar::tools
