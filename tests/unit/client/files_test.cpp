// SPDX-License-Identifier: Apache-2.0
// Files and processes of the public library with a whole agent, on a real folder.
#include "sandbar/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "fakes/real_agent.h"

namespace sandbar {
namespace {

namespace fs = std::filesystem;

class FilesTest : public ::testing::Test {
 protected:
  fs::path local(const std::string& path) const { return agent_.root() / path; }
  void put(const std::string& path, const std::string& text) { std::ofstream(local(path), std::ios::binary) << text; }
  std::string get(const std::string& path) const {
    std::ifstream file(local(path), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::vector<std::string> names(const std::string& path = "/") const {
    std::vector<std::string> all;
    const auto entries = files_.list(path);
    if (!entries) return {entries.error().message()};
    for (const auto& entry : *entries) all.push_back(entry.name);
    std::sort(all.begin(), all.end());
    return all;
  }
  mode_t mode(const std::string& path) const {
    struct stat attributes {};
    ::lstat(local(path).c_str(), &attributes);
    return attributes.st_mode;
  }

  fakes::RealAgent agent_;
  Client client_ = agent_.connect();
  Files files_ = client_.files();
};

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

void expect_errno(const Error& error, int os_errno, const std::string& names) {
  EXPECT_EQ(error.code, Errc::os) << error.message();
  EXPECT_EQ(error.os_errno, os_errno) << error.message();
  EXPECT_NE(error.message().find(names), std::string::npos) << error.message();
}

TEST_F(FilesTest, StatFollowsLinksAndLstatDoesNot) {
  put("f", "twelve bytes");
  ::chmod(local("f").c_str(), 04751);
  fs::create_symlink("f", local("link"));
  const auto file = files_.stat("/link");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->type, FileType::regular);
  EXPECT_EQ(file->permissions, 04751U);
  EXPECT_EQ(file->size, 12U);
  EXPECT_EQ(file->links, 1U);
  EXPECT_EQ(file->uid, ::getuid());
  EXPECT_GT(file->modified.seconds, 0);
  const auto link = files_.lstat("link");
  ASSERT_TRUE(link.ok()) << link.error().message();
  EXPECT_EQ(link->type, FileType::symlink);
  EXPECT_EQ(files_.stat("/")->type, FileType::directory);
  EXPECT_EQ(files_.lstat("/")->type, FileType::directory);
  expect_errno(files_.stat("/none/x").error(), ENOENT, "stat /none/x");
  expect_errno(files_.stat("/f/x").error(), ENOTDIR, "stat /f/x");
}

TEST_F(FilesTest, NothingOutsideTheRootIsReached) {
  fs::create_symlink("/etc/passwd", local("out"));
  EXPECT_FALSE(files_.read("/out").ok());
  EXPECT_FALSE(files_.read("/../../../../../../etc/passwd").ok());
}

TEST_F(FilesTest, ListsAllEntriesWithTheirAttributes) {
  fs::create_directory(local("d"));
  for (int i = 0; i < 3000; ++i) put("d/a-rather-long-name-so-that-one-page-does-not-do-" + std::to_string(i), "x");
  put("d/\xff not utf-8", "four");
  const auto entries = files_.list("d");
  ASSERT_TRUE(entries.ok()) << entries.error().message();
  EXPECT_EQ(entries->size(), 3001U);
  for (const auto& entry : *entries) {
    ASSERT_TRUE(entry.info.has_value()) << entry.name;
    EXPECT_EQ(entry.type, FileType::regular);
    EXPECT_EQ(entry.info->size, entry.name[0] == '\xff' ? 4U : 1U);
  }
  EXPECT_EQ(names("/"), std::vector<std::string>{"d"});
  EXPECT_TRUE(files_.list("/d/a-rather-long-name-so-that-one-page-does-not-do-1").error().os_errno == ENOTDIR);
  fs::create_directory(local("empty"));
  EXPECT_TRUE(names("/empty").empty());
}

TEST_F(FilesTest, ReadsWholeFilesAtTheBoundsOfARequest) {
  constexpr std::size_t kPiece = 1024 * 1024;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kPiece - 1, kPiece, kPiece + 1, 9 * kPiece, 10 * kPiece + 7}) {
    const std::string bytes = pattern(size);
    put("f", bytes);
    const auto read = files_.read("f");
    ASSERT_TRUE(read.ok()) << read.error().message();
    EXPECT_TRUE(*read == bytes) << size << ": " << read->size();
  }
}

TEST_F(FilesTest, ReadsRanges) {
  const std::string bytes = pattern(3 * 1024 * 1024);
  put("f", bytes);
  EXPECT_EQ(*files_.read("f", {.offset = 10, .size = 5}), bytes.substr(10, 5));
  EXPECT_TRUE(*files_.read("f", {.offset = 5, .size = 2 * 1024 * 1024}) == bytes.substr(5, 2 * 1024 * 1024));
  EXPECT_EQ(*files_.read("f", {.offset = bytes.size() - 3}), bytes.substr(bytes.size() - 3));
  EXPECT_EQ(*files_.read("f", {.offset = bytes.size()}), "");
  EXPECT_EQ(*files_.read("f", {.offset = bytes.size() + 100}), "");
  EXPECT_EQ(*files_.read("f", {.offset = 0, .size = 0}), "");
  expect_errno(files_.read("none").error(), ENOENT, "read none");
  expect_errno(files_.read("/").error(), EISDIR, "read /");
  EXPECT_EQ(files_.read(std::string("f\0x", 3)).error().code, Errc::invalid);
}

TEST_F(FilesTest, WritesWholeFilesAndLeavesNothingElse) {
  for (const std::size_t size : {0U, 1U, 1024U * 1024U, 1024U * 1024U + 1U, 9U * 1024U * 1024U}) {
    const std::string bytes = pattern(size);
    const auto written = files_.write("/f", bytes, {.sync = size == 1});
    ASSERT_TRUE(written.ok()) << written.error().message();
    EXPECT_TRUE(get("f") == bytes) << size;
  }
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(FilesTest, WriteKeepsPermissionsUnlessTheyAreGiven) {
  ASSERT_TRUE(files_.write("new", "x").ok());
  EXPECT_EQ(mode("new"), S_IFREG | 0644U);
  ::chmod(local("new").c_str(), 0751);
  ASSERT_TRUE(files_.write("new", "y").ok());
  EXPECT_EQ(mode("new"), S_IFREG | 0751U);
  ASSERT_TRUE(files_.write("new", "z", {.permissions = 0606}).ok());
  EXPECT_EQ(mode("new"), S_IFREG | 0606U);
}

TEST_F(FilesTest, WriteReplacesALinkNotWhatItLeadsTo) {
  put("f", "old");
  fs::create_symlink("f", local("link"));
  ASSERT_TRUE(files_.write("link", "new").ok());
  EXPECT_EQ(get("f"), "old");
  EXPECT_EQ(mode("link"), S_IFREG | 0644U);
}

TEST_F(FilesTest, AWriteThatFailsLeavesTheOldFileAndNothingElse) {
  put("f", "old");
  fs::create_directory(local("d"));
  expect_errno(files_.write("f", "new", {.exclusive = true}).error(), EEXIST, "write f");
  EXPECT_EQ(get("f"), "old");
  expect_errno(files_.write("d", "new").error(), EISDIR, "write d");
  expect_errno(files_.write("none/x", "new").error(), ENOENT, "write none/x");
  EXPECT_EQ(files_.write("/", "x").error().code, Errc::invalid);
  EXPECT_EQ(files_.write("d/..", "x").error().code, Errc::invalid);
  expect_errno(files_.write(std::string(256, 'n'), "x").error(), ENAMETOOLONG, "write");
  EXPECT_EQ(files_.write("/" + std::string(4096, 'n'), "x").error().code, Errc::invalid);
  EXPECT_TRUE(files_.write(std::string(255, 'n'), "x", {.exclusive = true}).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"d", "f", std::string(255, 'n')}));
}

TEST_F(FilesTest, MakesDirectories) {
  ASSERT_TRUE(files_.make_directory("d", 0700).ok());
  EXPECT_EQ(mode("d"), S_IFDIR | 0700U);
  expect_errno(files_.make_directory("d").error(), EEXIST, "make directory d");
  EXPECT_TRUE(files_.make_directory("/d/", 0700, true).ok());
  expect_errno(files_.make_directory("a/b/c").error(), ENOENT, "make directory a/b/c");
  EXPECT_TRUE(files_.make_directory("a/b/c", 0755, true).ok());
  EXPECT_EQ(files_.stat("a/b/c")->type, FileType::directory);
  put("f", "");
  expect_errno(files_.make_directory("f", 0755, true).error(), EEXIST, "make directory f");
  EXPECT_FALSE(files_.make_directory("f/x", 0755, true).ok());
}

TEST_F(FilesTest, RemovesFilesLinksAndEmptyDirectories) {
  put("f", "");
  fs::create_directories(local("d/e"));
  fs::create_symlink("d", local("link"));
  expect_errno(files_.remove("d").error(), ENOTEMPTY, "remove d");
  for (const char* path : {"f", "link", "d/e", "/d/"}) EXPECT_TRUE(files_.remove(path).ok()) << path;
  EXPECT_TRUE(names().empty());
  expect_errno(files_.remove("f").error(), ENOENT, "remove f");
}

TEST_F(FilesTest, RenamesOverWhatIsThere) {
  put("f", "new");
  fs::create_directory(local("d"));
  put("d/g", "old");
  ASSERT_TRUE(files_.rename("f", "/d/g").ok());
  EXPECT_EQ(get("d/g"), "new");
  EXPECT_EQ(names(), std::vector<std::string>{"d"});
  expect_errno(files_.rename("f", "x").error(), ENOENT, "rename f to x");
}

TEST_F(FilesTest, ManyThreadsShareTheConnection) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([this, t] {
      const std::string name = "f" + std::to_string(t);
      for (int i = 0; i < 10; ++i) {
        const std::string text = name + " " + std::to_string(i);
        EXPECT_TRUE(files_.write(name, text).ok());
        EXPECT_EQ(*files_.read(name), text);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(names().size(), 8U);
}

// --- Processes of a whole agent --------------------------------------------------------------------------------

TEST_F(FilesTest, AProcessRunsInTheTargetsDirectoryAndSeesWhatWasWritten) {
  ASSERT_TRUE(files_.make_directory("work").ok());
  ASSERT_TRUE(files_.write("work/in", "text").ok());
  Client client = agent_.connect("/work");
  std::string out;
  auto process = client.spawn({.argv = {"sh", "-c", "cat in - > out; cat out; exit 3"},
                               .has_input = true,
                               .standard_output = [&](const OutputChunk& chunk) { out += chunk.bytes(); }});
  ASSERT_TRUE(process.ok()) << process.error().message();
  ASSERT_TRUE(process->write(" and more").ok());
  ASSERT_TRUE(process->close_input().ok());
  EXPECT_EQ(process->wait()->code, 3);
  EXPECT_EQ(out, "text and more");
  EXPECT_EQ(*files_.read("work/out"), "text and more");
}

TEST_F(FilesTest, MuchInputComesBackWhole) {
  const std::string bytes = pattern(20 * 1024 * 1024);
  std::string out;
  auto process = client_.spawn(
      {.argv = {"cat"}, .has_input = true, .standard_output = [&](const OutputChunk& chunk) { out += chunk.bytes(); }});
  ASSERT_TRUE(process.ok()) << process.error().message();
  for (std::size_t at = 0; at < bytes.size(); at += 100'000)
    ASSERT_TRUE(process->write(bytes.substr(at, 100'000)).ok());
  ASSERT_TRUE(process->close_input().ok());
  ASSERT_EQ(process->wait()->code, 0);
  EXPECT_TRUE(out == bytes) << out.size();
}

TEST_F(FilesTest, ASignalReachesTheProcess) {
  auto process = client_.spawn({.argv = {"sleep", "1000"}});
  ASSERT_TRUE(process.ok()) << process.error().message();
  EXPECT_FALSE(process->ended());
  ASSERT_TRUE(process->signal(15).ok());
  EXPECT_EQ(process->wait()->signal, 15);
  EXPECT_TRUE(process->signal(15).ok()) << "one that has ended is no error";
}

}  // namespace
}  // namespace sandbar
