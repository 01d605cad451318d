// SPDX-License-Identifier: Apache-2.0
#include "mount_point.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sandbar::tools {
namespace {

namespace fs = std::filesystem;

class MountPoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "sandbar-mount-XXXXXX";
    ASSERT_NE(nullptr, ::mkdtemp(name.data()));
    base_ = fs::canonical(name);
  }
  void TearDown() override { fs::remove_all(base_); }

  std::string refused(const fs::path& path, bool nonempty = false) {
    const auto prepared = prepare_mount_point(path, nonempty);
    return prepared ? "" : prepared.error().message();
  }

  fs::path base_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(MountPoint, AnEmptyDirectoryIsTakenWithoutItsLinks) {
  fs::create_directory(base_ / "real");
  fs::create_directory_symlink("real", base_ / "link");
  const auto prepared = prepare_mount_point(base_ / "link" / ".", false);
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ((base_ / "real").string(), *prepared);
}

TEST_F(MountPoint, AMissingOneIsTold) {
  EXPECT_TRUE(contains(refused(base_ / "no ne"), "mkdir -p '" + (base_ / "no ne").string() + "'"));
}

TEST_F(MountPoint, AFileIsNoDirectory) {
  std::ofstream(base_ / "file") << "x";
  EXPECT_TRUE(contains(refused(base_ / "file"), "not a directory"));
  EXPECT_TRUE(contains(refused(base_ / "file" / "below"), "Not a directory"));
}

TEST_F(MountPoint, OneThatIsNotEmptyIsRefusedUnlessAskedFor) {
  std::ofstream(base_ / ".hidden") << "x";
  EXPECT_TRUE(contains(refused(base_), "-o nonempty"));
  EXPECT_EQ("", refused(base_, true));
}

TEST_F(MountPoint, AMountPointOfAnotherKindIsRefused) {
  const std::string why = refused("/proc", true);
  EXPECT_TRUE(contains(why, "mount point already"));
  EXPECT_TRUE(contains(why, "(proc)"));
  EXPECT_TRUE(contains(why, "umount /proc"));
}

}  // namespace
}  // namespace sandbar::tools
