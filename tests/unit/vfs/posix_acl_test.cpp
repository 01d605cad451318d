// SPDX-License-Identifier: Apache-2.0
#include "vfs/posix_acl.h"

#include <algorithm>
#include <cerrno>

#include "unit/vfs/mount.h"

namespace sandbar::vfs {
namespace {

constexpr std::uint16_t kUserObj = 1, kUser = 2, kGroupObj = 4, kGroup = 8, kMask = 0x10, kOther = 0x20;

struct AclEntry {
  std::uint16_t tag, permissions;
  std::uint32_t id;
};
base::Bytes acl(const std::vector<AclEntry>& entries, std::uint32_t version = 2) {
  base::Bytes bytes;
  const auto put = [&](std::uint32_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xffU);
  };
  put(version, 4);
  for (const AclEntry& entry : entries) put(entry.tag, 2), put(entry.permissions, 2), put(entry.id, 4);
  return bytes;
}
/// As setfacl makes them.
base::Bytes full_acl(std::uint32_t user, std::uint32_t group) {
  return acl({{kUserObj, 7, ~0U},
              {kUser, 6, user},
              {kGroupObj, 5, ~0U},
              {kGroup, 4, group},
              {kMask, 7, ~0U},
              {kOther, 0, ~0U}});
}
std::optional<std::uint32_t> shift(bool is_group, std::uint32_t id) { return id + (is_group ? 2000 : 1000); }

TEST(PosixAcl, OnlyNamedUsersAndGroupsAreMapped) {
  EXPECT_EQ(*map_posix_acl(full_acl(5, 6), shift), full_acl(1005, 2006));
  EXPECT_EQ(*map_posix_acl(acl({}), shift), acl({}));
  EXPECT_EQ(*map_posix_acl("", shift), "");
}

TEST(PosixAcl, WhatIsNone) {
  const base::Bytes good = full_acl(5, 6);
  for (const base::Bytes& bad : {base::Bytes("\2\0\0", 3), good.substr(0, good.size() - 1), good + "x", acl({}, 1),
                                 acl({}, 0x01000002), acl({}, 3)}) {
    const auto mapped = map_posix_acl(bad, shift);
    ASSERT_FALSE(mapped);
    EXPECT_EQ(Errc::invalid, mapped.error().code);
  }
  const auto none = map_posix_acl(good, [](bool, std::uint32_t) { return std::optional<std::uint32_t>(); });
  ASSERT_FALSE(none);
  EXPECT_EQ(EINVAL, none.error().os_errno);
}

class AclsOnMount : public Mount {
 protected:
  static constexpr const char* kAccess = "system.posix_acl_access";

  void open_with(IdMapMode mode) {
    remote.hello().uid = 0;
    remote.hello().gid = 0;
    Options options;
    options.id_map = mode;
    options.uid = options.gid = 1000;
    options.uid_ranges = {{1000, 0, 1}, {1001, 2001, 1}};
    options.gid_ranges = {{1000, 0, 1}, {1002, 2002, 1}};
    remote.tree.put_file("/f", "");
    open(options);
    node = find("/f").node;
  }
  base::Bytes& there() { return remote.tree.at("/f")->xattrs[kAccess]; }

  NodeId node;
};

TEST_F(AclsOnMount, IdsAreMappedBothWays) {
  open_with(IdMapMode::ranges);
  EXPECT_EQ(set_xattr(node, kAccess, full_acl(1001, 1002)).os_errno(), 0);
  EXPECT_EQ(there(), full_acl(2001, 2002));
  EXPECT_EQ(*get_xattr(node, kAccess).result(), full_acl(1001, 1002));
  EXPECT_EQ(set_xattr(node, "system.posix_acl_default", full_acl(1000, 1000)).os_errno(), 0);
  EXPECT_EQ(remote.tree.at("/f")->xattrs["system.posix_acl_default"], full_acl(0, 0));
  there() = full_acl(7, 2002);
  EXPECT_EQ(*get_xattr(node, kAccess).result(), full_acl(65534, 1002)) << "without an entry: nobody";
  EXPECT_EQ(set_xattr(node, kAccess, full_acl(65534, 1002)).os_errno(), EINVAL);
  EXPECT_EQ(set_xattr(node, kAccess, "rubbish").os_errno(), EINVAL);
  EXPECT_EQ(there(), full_acl(7, 2002));
  there() = "rubbish";
  EXPECT_TRUE(get_xattr(node, kAccess).failed_with(Errc::protocol));
  EXPECT_EQ(set_xattr(node, "user.acl", "rubbish").os_errno(), 0);
}

TEST_F(AclsOnMount, TheMountingUserIsTheAgents) {
  open_with(IdMapMode::user);
  EXPECT_EQ(set_xattr(node, kAccess, full_acl(1000, 27)).os_errno(), 0);
  EXPECT_EQ(there(), full_acl(0, 27));
  EXPECT_EQ(*get_xattr(node, kAccess).result(), full_acl(1000, 27));
  EXPECT_EQ(set_xattr(node, kAccess, full_acl(0, 27)).os_errno(), EINVAL) << "shadowed";
}

TEST_F(AclsOnMount, WithoutAMapTheyPassAsTheyAre) {
  open_with(IdMapMode::none);
  EXPECT_EQ(set_xattr(node, kAccess, "rubbish").os_errno(), 0);
  EXPECT_EQ(*get_xattr(node, kAccess).result(), "rubbish");
}

// The kernel asks for it before each access of somebody who is not the owner.
TEST_F(AclsOnMount, AreDeniedHereWhereThereAreNoXattrs) {
  open_with(IdMapMode::none);
  remote.take_round_trips();
  EXPECT_EQ(get_xattr(node, kAccess).os_errno(), ENODATA);
  EXPECT_EQ(get_xattr(node, "system.posix_acl_default").os_errno(), ENODATA);
  EXPECT_EQ(remote.take_round_trips(), 0U);
  there() = full_acl(1, 2);
  stat(node);
  EXPECT_EQ(*get_xattr(node, kAccess).result(), full_acl(1, 2));
}

TEST_F(AclsOnMount, WhereThereAreNoneAtAllAccessIsNotRefused) {
  open_with(IdMapMode::none);
  there() = "x";
  stat(node);
  remote.fail_next("get_xattr", os_error(EOPNOTSUPP, "getxattr"));
  EXPECT_EQ(get_xattr(node, kAccess).os_errno(), ENODATA);
  remote.fail_next("get_xattr", os_error(EOPNOTSUPP, "getxattr"));
  EXPECT_EQ(get_xattr(node, "user.a").os_errno(), EOPNOTSUPP);
  remote.fail_next("get_xattr", os_error(EIO, "getxattr"));
  EXPECT_EQ(get_xattr(node, kAccess).os_errno(), EIO);
}

}  // namespace
}  // namespace sandbar::vfs
