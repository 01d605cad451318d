// SPDX-License-Identifier: Apache-2.0
#include "id_map_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sandbar::tools {
namespace {

class FakeNames final : public LocalNames {
 public:
  [[nodiscard]] std::optional<std::uint32_t> uid(const std::string& name) const override {
    return name == "ann" ? std::optional<std::uint32_t>(1000) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint32_t> gid(const std::string& name) const override {
    return name == "staff" ? std::optional<std::uint32_t>(50) : std::nullopt;
  }
};

Result<IdMapFile> parse(std::string_view text) { return parse_id_map(text, "/etc/map", FakeNames()); }

using Ranges = std::vector<vfs::IdRange>;

TEST(IdMapFile, NamesNumbersAndComments) {
  const auto map = parse(
      "# who is who\n"
      "uid ann 0\n"
      "\t uid  2000\t3000 10  # ten of them\r\n"
      "\n"
      "gid staff 0\n"
      "gid 0 4294967294\n"
      "uid 0 4294967294");
  ASSERT_TRUE(map.ok()) << map.error().message();
  EXPECT_EQ(map->uids, (Ranges{{1000, 0, 1}, {2000, 3000, 10}, {0, 4294967294, 1}}));
  EXPECT_EQ(map->gids, (Ranges{{50, 0, 1}, {0, 4294967294, 1}}));
  EXPECT_TRUE(parse("").ok());
  EXPECT_TRUE(parse("uid 0 0 4294967295").ok()) << "all of them";
  EXPECT_TRUE(parse("uid 10 20 5\nuid 15 25 5\nuid 5 15 5").ok()) << "side by side";
}

struct Bad {
  const char* text;
  const char* says;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.text; }
class BadMapFile : public testing::TestWithParam<Bad> {};

TEST_P(BadMapFile, SaysFileLineAndReason) {
  const auto map = parse(GetParam().text);
  ASSERT_FALSE(map.ok());
  EXPECT_EQ(Errc::invalid, map.error().code);
  EXPECT_NE(std::string::npos, map.error().message().find("/etc/map:")) << map.error().message();
  EXPECT_NE(std::string::npos, map.error().message().find(GetParam().says)) << map.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadMapFile,
    testing::Values(
        Bad{"\nuser 1 2", "map:2: expected uid or gid, not user"}, Bad{"uid 1", "map:1: expected uid LOCAL REMOTE"},
        Bad{"gid", "expected gid LOCAL REMOTE [COUNT]"}, Bad{"uid 1 2 3 4", "expected uid LOCAL REMOTE"},
        Bad{"uid bob 2", "no user bob here"}, Bad{"gid ann 2", "no group ann here"}, Bad{"uid a\x01 2", "a\\x01"},
        Bad{"uid 4294967295 2", "LOCAL 4294967295"}, Bad{"uid -1 2", "no user -1"}, Bad{"uid 1 ann", "REMOTE ann"},
        Bad{"uid 1 4294967295", "REMOTE 4294967295"}, Bad{"uid 1 2 0", "COUNT 0"}, Bad{"uid 1 2 x", "COUNT x"},
        Bad{"uid 1 2 4294967294", "COUNT 4294967294"}, Bad{"uid 4294967294 2 2", "COUNT 2"},
        Bad{"uid 99999999999999999999 2", "LOCAL"}, Bad{"uid 1 2\n#\nuid 1 3", "map:3: LOCAL overlaps that of line 1"},
        Bad{"uid 1 2\nuid 3 2", "map:2: REMOTE overlaps that of line 1"},
        Bad{"uid 10 20 5\nuid 1 1\nuid 14 100", "map:3: LOCAL overlaps that of line 1"},
        Bad{"uid 10 20 5\nuid 5 200 6", "map:2: LOCAL overlaps that of line 1"},
        Bad{"gid 10 20 5\ngid 1 24", "map:2: REMOTE overlaps that of line 1"},
        Bad{"uid ann 1\nuid 1000 2", "map:2: LOCAL overlaps"}));

TEST(IdMapFile, BoundsAtTheBound) {
  std::string lines;
  for (std::size_t i = 0; i < IdMapFile::kMaxLines; ++i)
    lines += "uid " + std::to_string(i) + " " + std::to_string(i) + "\n";
  ASSERT_TRUE(parse(lines).ok());
  EXPECT_EQ(IdMapFile::kMaxLines, parse(lines)->uids.size());
  const auto more = parse(lines + "#");
  ASSERT_FALSE(more.ok());
  EXPECT_NE(std::string::npos, more.error().message().find("/etc/map:4097: more than 4096 lines"));
  EXPECT_TRUE(parse("#" + std::string(IdMapFile::kMaxSize - 1, 'x')).ok());
  EXPECT_FALSE(parse("#" + std::string(IdMapFile::kMaxSize, 'x')).ok());
}

class IdMapFileOnDisk : public testing::Test {
 protected:
  IdMapFileOnDisk() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-map-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder = name;
  }
  ~IdMapFileOnDisk() override { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

TEST_F(IdMapFileOnDisk, IsRead) {
  const std::string file = folder / "map";
  std::ofstream(file) << "uid root 1000\ngid root 1000\n";
  const auto map = read_id_map(file);
  ASSERT_TRUE(map.ok()) << map.error().message();
  EXPECT_EQ(map->uids, (Ranges{{0, 1000, 1}}));
  EXPECT_EQ(map->gids, (Ranges{{0, 1000, 1}}));
  std::ofstream(file) << std::string(IdMapFile::kMaxSize + 1, '\n');
  EXPECT_FALSE(read_id_map(file).ok());
}

TEST_F(IdMapFileOnDisk, WhatIsNoFile) {
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(0, ::mkfifo(fifo.c_str(), 0600));
  for (const std::string& file : {(folder / "none").string(), folder.string(), fifo, std::string("/dev/zero")}) {
    const auto map = read_id_map(file);
    ASSERT_FALSE(map.ok()) << file;
    EXPECT_NE(std::string::npos, map.error().message().find(file)) << map.error().message();
  }
}

}  // namespace
}  // namespace sandbar::tools
