// SPDX-License-Identifier: Apache-2.0
#include "client/grant_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "grants_fixture.h"

namespace sandbar::client {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

class GrantCacheTest : public GrantsFolder {
 protected:
  GrantCacheTest() { fs::permissions(folder(), fs::perms::owner_all); }
  [[nodiscard]] std::string runtime() const { return folder() + "/run"; }
  [[nodiscard]] std::string fallback() const { return folder() + "/fallback"; }
  [[nodiscard]] std::string grants() const { return fallback() + "/grants"; }
  GrantCache cache() { return std::move(GrantCache::open_in("", fallback())).value(); }
  static mode_t mode_of(const std::string& path) {
    struct stat attributes {};
    return ::lstat(path.c_str(), &attributes) == 0 ? attributes.st_mode & 07777 : 0;
  }
  static std::string key() { return GrantCache::key_of("command", GrantKind::files, 0, "ws://a"); }
  const wire::GrantAnswer answer_{"ws://a", "token", {2'000'000'000}, {1'900'000'000}};
};

TEST_F(GrantCacheTest, KeepsAnAnswerForItsOwnerAlone) {
  ::umask(0);
  const GrantCache first = cache();
  EXPECT_FALSE(first.read(key()));
  ASSERT_TRUE(first.write(key(), answer_).ok());
  EXPECT_EQ(cache().read(key()), answer_) << "another process";
  EXPECT_EQ(mode_of(fallback()), 0700U);
  EXPECT_EQ(mode_of(grants()), 0700U);
  EXPECT_EQ(mode_of(grants() + "/" + key()), 0600U);
  for (const auto& entry : fs::directory_iterator(grants()))
    EXPECT_EQ(entry.path().filename(), key()) << "nothing else is left";
}

TEST_F(GrantCacheTest, PrefersTheRuntimeFolder) {
  fs::create_directory(runtime());
  fs::permissions(runtime(), fs::perms::owner_all);
  ASSERT_TRUE(GrantCache::open_in(runtime(), fallback())->write(key(), answer_).ok());
  EXPECT_TRUE(fs::exists(runtime() + "/sandbar/grants/" + key()));
  EXPECT_FALSE(fs::exists(fallback()));
}

TEST_F(GrantCacheTest, LeavesARuntimeFolderThatIsNotOurs) {
  fs::create_directory(runtime());
  fs::permissions(runtime(), fs::perms::all);
  for (const std::string& wrong : {runtime(), folder() + "/none", std::string("relative")}) {
    ASSERT_TRUE(GrantCache::open_in(wrong, fallback()).ok()) << wrong;
    EXPECT_TRUE(fs::exists(grants()));
    EXPECT_FALSE(fs::exists(runtime() + "/sandbar"));
  }
}

TEST_F(GrantCacheTest, RefusesAFolderThatIsALink) {
  fs::create_directory(folder() + "/elsewhere");
  fs::permissions(folder() + "/elsewhere", fs::perms::owner_all);
  fs::create_directory_symlink(folder() + "/elsewhere", fallback());
  const auto opened = GrantCache::open_in("", fallback());
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message().find(fallback()), std::string::npos) << opened.error().message();
  EXPECT_TRUE(fs::is_empty(folder() + "/elsewhere"));
  // Also one step down.
  fs::remove(fallback());
  fs::create_directory(fallback());
  fs::permissions(fallback(), fs::perms::owner_all);
  fs::create_directory_symlink(folder() + "/elsewhere", grants());
  EXPECT_FALSE(GrantCache::open_in("", fallback()).ok());
}

TEST_F(GrantCacheTest, RefusesAFolderOnWhichOthersHaveRights) {
  fs::create_directory(fallback());
  fs::permissions(fallback(), fs::perms::owner_all | fs::perms::group_read);
  EXPECT_FALSE(GrantCache::open_in("", fallback()).ok());
  fs::permissions(fallback(), fs::perms::owner_all);
  EXPECT_TRUE(GrantCache::open_in("", fallback()).ok());
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(fallback().c_str(), 12345, 12345), 0);
    EXPECT_FALSE(GrantCache::open_in("", fallback()).ok());
  }
  std::ofstream(folder() + "/file");
  EXPECT_FALSE(GrantCache::open_in("", folder() + "/file").ok());
}

TEST_F(GrantCacheTest, ABrokenFileIsNone) {
  const GrantCache cache = this->cache();
  const std::string file = grants() + "/" + key();
  for (const std::string& text : {std::string(), std::string("{"), std::string(1 << 20, 'x'),
                                  std::string(R"({"token":"t","expires_at":5})"), std::string("\0\xFF", 2)}) {
    std::ofstream(file) << text;
    ::chmod(file.c_str(), 0600);
    EXPECT_FALSE(cache.read(key())) << text.substr(0, 40);
  }
  ASSERT_TRUE(cache.write(key(), answer_).ok());
  EXPECT_EQ(cache.read(key()), answer_);
}

TEST_F(GrantCacheTest, AFileThatIsNotOursAloneIsNone) {
  const GrantCache cache = this->cache();
  const std::string file = grants() + "/" + key();
  ASSERT_TRUE(cache.write(key(), answer_).ok());
  ::chmod(file.c_str(), 0644);
  EXPECT_FALSE(cache.read(key()));
  ::chmod(file.c_str(), 0600);
  EXPECT_TRUE(cache.read(key()));
  fs::rename(file, file + ".moved");
  fs::create_symlink(file + ".moved", file);
  EXPECT_FALSE(cache.read(key())) << "a link";
  ASSERT_TRUE(cache.write(key(), answer_).ok()) << "takes the link's place";
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file)));
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(cache.read(key())) << "a pipe that nobody writes";
}

TEST_F(GrantCacheTest, AKeyIsOfAllParts) {
  const std::string all[] = {
      GrantCache::key_of("a", GrantKind::files, 0, "b"), GrantCache::key_of("a", GrantKind::shell, 0, "b"),
      GrantCache::key_of("a", GrantKind::port, 1, "b"),  GrantCache::key_of("a", GrantKind::port, 2, "b"),
      GrantCache::key_of("ab", GrantKind::files, 0, ""), GrantCache::key_of("", GrantKind::files, 0, "ab")};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    EXPECT_EQ(all[i].size(), 64U);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]);
  }
}

TEST_F(GrantCacheTest, OneHasTheLock) {
  const GrantCache cache = this->cache();
  Cancellation cancellation;
  std::optional<GrantCache::Lock> lock = std::move(cache.lock(key(), cancellation, seconds(30))).value();
  EXPECT_EQ(cache.lock(key(), cancellation, milliseconds(1)).error().code, Errc::timeout);
  EXPECT_TRUE(cache.lock("another", cancellation, milliseconds(1)).ok());
  std::thread waiter([&] { EXPECT_TRUE(cache.lock(key(), cancellation, seconds(60)).ok()); });
  lock.reset();
  waiter.join();
}

TEST_F(GrantCacheTest, AWaitCanBeCancelled) {
  const GrantCache cache = this->cache();
  Cancellation cancellation;
  const auto lock = cache.lock(key(), cancellation, seconds(30));
  Cancellation other;
  std::thread waiter([&] { EXPECT_EQ(cache.lock(key(), other, std::chrono::hours(1)).error().code, Errc::cancelled); });
  other.cancel();
  waiter.join();
}

TEST_F(GrantCacheTest, ADeadProcessGivesItsLockBack) {
  const GrantCache cache = this->cache();
  std::array<int, 2> held{};
  ASSERT_EQ(::pipe(held.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Cancellation own;
    const auto lock = cache.lock(key(), own, seconds(30));
    [[maybe_unused]] const auto told = ::write(held[1], "x", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(held[0], &byte, 1), 1);
  Cancellation cancellation;
  EXPECT_EQ(cache.lock(key(), cancellation, milliseconds(1)).error().code, Errc::timeout);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(cache.lock(key(), cancellation, seconds(60)).ok());
  ::close(held[0]);
  ::close(held[1]);
}

TEST_F(GrantCacheTest, AFailureIsToldToThoseWhoWaitedForIt) {
  const GrantCache cache = this->cache();
  Cancellation cancellation;
  std::optional<GrantCache::Lock> lock = std::move(cache.lock(key(), cancellation, seconds(30))).value();
  EXPECT_FALSE(lock->failed_meanwhile());
  std::thread waiter([&] {
    const auto later = cache.lock(key(), cancellation, seconds(60));
    ASSERT_TRUE(later.ok());
    EXPECT_EQ(later->failed_meanwhile(), "it rained");
  });
  // It waits once its file is open: one more descriptor of the lock file.
  while (open_descriptors_of(key() + ".lock") < 2) std::this_thread::yield();
  lock->failed("it rained");
  lock.reset();
  waiter.join();
  EXPECT_FALSE(cache.lock(key(), cancellation, seconds(30))->failed_meanwhile()) << "who comes later tries himself";
}

}  // namespace
}  // namespace sandbar::client
