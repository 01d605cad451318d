// SPDX-License-Identifier: Apache-2.0
#include "client/mount_lookup.h"

#include <gtest/gtest.h>

#include <string>

namespace sandbar::client {
namespace {

constexpr const char* kMounts =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "40 22 0:50 / /home/u/box rw,nosuid - fuse.sandbox sandbar rw,user_id=1000\n"
    "41 22 0:51 / /home/u/a\\040b\\011c\\134d rw shared:7 master:3 propagate_from:2 - fuse.sandbox sandbar rw\n"
    "42 40 0:52 / /home/u/box/inner rw - fuse.sandbox sandbar rw\n"
    "43 22 0:50 /src/lib /mnt/lib rw - fuse.sandbox sandbar rw\n"
    "44 22 0:60 / /home/u/ssh rw - fuse.sshfs host: rw\n"
    "45 22 0:53 / /home/u/box rw - fuse.sandbox sandbar rw\n"
    "this line is odd\n"
    "46 22 x:53 / /y rw - fuse.sandbox sandbar rw\n"
    "47 22 0:54 / /z rw -\n"
    "48 22 0:55 /deep / rw - fuse.sandbox sandbar rw\n";

std::vector<MountEntry> mounts() { return parse_mountinfo(kMounts); }

std::uint64_t id_of(const MountEntry* mount) { return mount == nullptr ? 0 : mount->id; }

TEST(MountInfoTest, ReadsFieldsAndUndoesEscapes) {
  const auto entries = mounts();
  ASSERT_EQ(entries.size(), 8U);
  EXPECT_EQ(entries[1].id, 40U);
  EXPECT_EQ(entries[1].parent, 22U);
  EXPECT_EQ(entries[1].major, 0U);
  EXPECT_EQ(entries[1].minor, 50U);
  EXPECT_EQ(entries[1].root, "/");
  EXPECT_EQ(entries[1].point, "/home/u/box");
  EXPECT_EQ(entries[1].type, "fuse.sandbox");
  EXPECT_EQ(entries[1].source, "sandbar");
  EXPECT_EQ(entries[2].point, "/home/u/a b\tc\\d");
  EXPECT_EQ(entries[2].type, "fuse.sandbox");
}

TEST(MountInfoTest, KnowsWhoMounted) {
  const auto entries = mounts();
  EXPECT_EQ(entries[1].user, 1000U);
  EXPECT_FALSE(entries[2].user.has_value());
  EXPECT_TRUE(is_trusted(entries[1], 1000));
  EXPECT_FALSE(is_trusted(entries[1], 1001));
  EXPECT_FALSE(is_trusted(entries[1], 0)) << "root least of all";
  EXPECT_FALSE(is_trusted(entries[2], 0)) << "nobody is named";
  const auto by_root = parse_mountinfo("40 22 0:50 / /x rw - fuse.sandbox s rw,user_id=0,group_id=0");
  EXPECT_TRUE(is_trusted(by_root.at(0), 1000));
  const auto odd = parse_mountinfo("40 22 0:50 / /x rw - fuse.sandbox s rw,user_id=,xuser_id=0,user_id=1x");
  EXPECT_FALSE(is_trusted(odd.at(0), 0));
}

TEST(MountInfoTest, EmptyAndCutTextGiveWhatIsWhole) {
  EXPECT_TRUE(parse_mountinfo("").empty());
  EXPECT_TRUE(parse_mountinfo("\n\n").empty());
  EXPECT_EQ(parse_mountinfo("40 22 0:50 / /x rw - fuse.sandbox s rw").size(), 1U);
  EXPECT_TRUE(parse_mountinfo("40 22 0:50 / /x rw - fuse.sandbox").empty());
  EXPECT_EQ(parse_mountinfo("40 22 0:50 / /x\\04 rw - t s rw").at(0).point, "/x\\04");
}

TEST(FindMountTest, ByMountIdWhereTheKernelHasOne) {
  const auto entries = mounts();
  EXPECT_EQ(id_of(find_mount(entries, {40, 0, 50, "/home/u/box/src"})), 40U);
  EXPECT_EQ(id_of(find_mount(entries, {43, 0, 50, "/mnt/lib/x"})), 43U);
  EXPECT_EQ(id_of(find_mount(entries, {99, 0, 50, "/home/u/box/src"})), 0U);
}

TEST(FindMountTest, ByDeviceTheInnermostWhereItHasNone) {
  const auto entries = mounts();
  EXPECT_EQ(id_of(find_mount(entries, {0, 0, 50, "/home/u/box"})), 40U);
  EXPECT_EQ(id_of(find_mount(entries, {0, 0, 52, "/home/u/box/inner/x"})), 42U);
  EXPECT_EQ(id_of(find_mount(entries, {0, 0, 50, "/mnt/lib"})), 43U);
  EXPECT_EQ(id_of(find_mount(entries, {0, 0, 53, "/home/u/box/x"})), 45U) << "mounted over another one";
}

TEST(FindMountTest, NothingForOtherFileSystemsAndNeighbours) {
  const auto entries = mounts();
  EXPECT_EQ(find_mount(entries, {0, 8, 1, "/home/u"}), nullptr);
  EXPECT_EQ(find_mount(entries, {44, 0, 60, "/home/u/ssh"}), nullptr);
  EXPECT_EQ(find_mount(entries, {0, 0, 50, "/home/u/boxes"}), nullptr) << "only a common beginning";
  EXPECT_EQ(find_mount({}, {40, 0, 50, "/home/u/box"}), nullptr);
}

TEST(PathOnMountTest, AddsTheBindMountsRoot) {
  const auto entries = mounts();
  EXPECT_EQ(path_on_mount(entries[1], "/home/u/box"), "/");
  EXPECT_EQ(path_on_mount(entries[1], "/home/u/box/a/b"), "/a/b");
  EXPECT_EQ(path_on_mount(entries[4], "/mnt/lib"), "/src/lib");
  EXPECT_EQ(path_on_mount(entries[4], "/mnt/lib/x"), "/src/lib/x");
  EXPECT_EQ(path_on_mount(entries[7], "/"), "/deep") << "mounted on the root";
  EXPECT_EQ(path_on_mount(entries[7], "/x"), "/deep/x");
}

TEST(JoinDirectoryTest, KeepsOneSlash) {
  EXPECT_EQ(join_directory("/", "/"), "/");
  EXPECT_EQ(join_directory("/", "/a"), "/a");
  EXPECT_EQ(join_directory("/srv", "/"), "/srv");
  EXPECT_EQ(join_directory("/srv", "/a/b"), "/srv/a/b");
}

TEST(FindMountedDirectoryTest, AnOrdinaryDirectoryLiesOnNone) {
  const auto found = find_mounted_directory("/proc");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_FALSE(found->has_value());
}

TEST(FindMountedDirectoryTest, AMissingDirectoryIsAnError) {
  const auto found = find_mounted_directory("/no/such/place");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().os_errno, ENOENT);
}

}  // namespace
}  // namespace sandbar::client
