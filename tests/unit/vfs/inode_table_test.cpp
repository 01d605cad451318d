// SPDX-License-Identifier: Apache-2.0
#include "vfs/inode_table.h"

#include "unit/vfs/mount.h"

namespace sandbar::vfs {
namespace {

class InodeTableTest : public testing::Test {
 protected:
  static Attributes file(std::uint64_t inode, std::int64_t birth, std::uint32_t mode = S_IFREG | 0644,
                         std::uint64_t device = 1) {
    Attributes attributes;
    attributes.device = device;
    attributes.inode = inode;
    attributes.birth.seconds = birth;
    attributes.mode = mode;
    return attributes;
  }
  static Attributes directory() { return file(2, 1, S_IFDIR | 0755); }

  fakes::FakeLoop loop;
  fakes::FakeRemote remote{loop};
  RemoteObjects objects{loop, remote, {}, wire::ObjectId(2)};
  InodeTable table{objects, wire::ObjectId(1), directory()};
};

TEST_F(InodeTableTest, TheRootIsNeverForgotten) {
  table.forget(kRootNode, 5);
  ASSERT_NE(table.find(kRootNode), nullptr);
  EXPECT_EQ(table.find(kRootNode)->object, wire::ObjectId(1));
}

TEST_F(InodeTableTest, AKnownIdentityIsTheSameNode) {
  Node& first = table.adopt(file(10, 5), wire::ObjectId(2), kRootNode, "f");
  table.add_lookup(first);
  Node& second = table.adopt(file(10, 5), wire::ObjectId(3), kRootNode, "f");
  EXPECT_EQ(&first, &second);
  EXPECT_EQ(second.object, wire::ObjectId(2));
}

TEST_F(InodeTableTest, AReusedInodeNumberIsAnotherNode) {
  Node& first = table.adopt(file(10, 5), wire::ObjectId(2), kRootNode, "f");
  table.add_lookup(first);
  Node& second = table.adopt(file(10, 6), wire::ObjectId(3), kRootNode, "f");
  table.add_lookup(second);
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(table.known(file(10, 5), kRootNode), &first);
  EXPECT_EQ(table.known(file(10, 6), kRootNode), &second);
}

TEST_F(InodeTableTest, WithoutBirthTimesTheTypeTellsApart) {
  Node& first = table.adopt(file(10, 0), wire::ObjectId(2), kRootNode, "f");
  table.add_lookup(first);
  Node& second = table.adopt(file(10, 0, S_IFDIR | 0755), wire::ObjectId(3), kRootNode, "f");
  table.add_lookup(second);
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(table.known(file(10, 0), kRootNode), nullptr);
  EXPECT_EQ(table.known(file(10, 0, S_IFDIR), kRootNode), &second);
}

TEST_F(InodeTableTest, NumbersAreNeverReused) {
  Node& first = table.adopt(file(10, 5), wire::ObjectId(2), kRootNode, "f");
  const NodeId id = first.id;
  table.add_lookup(first);
  table.forget(id, 1);
  EXPECT_EQ(table.find(id), nullptr);
  Node& again = table.adopt(file(10, 5), wire::ObjectId(3), kRootNode, "f");
  EXPECT_GT(again.id, id);
}

TEST_F(InodeTableTest, ANodeLivesByLookupsAndPins) {
  Node& node = table.adopt(file(10, 5), wire::ObjectId(2), kRootNode, "f");
  const NodeId id = node.id;
  table.add_lookup(node);
  table.add_lookup(node);
  table.pin(node);
  table.forget(id, 1);
  EXPECT_NE(table.find(id), nullptr);
  table.forget(id, 1);
  EXPECT_NE(table.find(id), nullptr);
  EXPECT_EQ(table.known(file(10, 5), kRootNode), &node);
  table.unpin(id);
  EXPECT_EQ(table.find(id), nullptr);
  table.forget(id, 1);  // unknown: ignored
}

TEST_F(InodeTableTest, ForgettingMoreThanWasCountedIsForgettingAll) {
  Node& node = table.adopt(file(10, 5), wire::ObjectId(2), kRootNode, "f");
  table.add_lookup(node);
  table.forget(node.id, 1000);
  EXPECT_EQ(table.size(), 1U);
}

TEST_F(InodeTableTest, ACopyUpKeepsTheNode) {
  Node& node = table.adopt(file(10, 5), wire::ObjectId(2), kRootNode, "f");
  table.add_lookup(node);
  EXPECT_TRUE(table.update(node, file(11, 9)));
  EXPECT_EQ(table.known(file(10, 5), kRootNode), nullptr);
  EXPECT_EQ(table.known(file(11, 9), kRootNode), &node);
  EXPECT_EQ(node.shown_inode, 10U);  // what was first shown
}

TEST_F(InodeTableTest, ACopyUpSeenFirstByALookupLeavesTwoNodes) {
  Node& old = table.adopt(file(10, 5), wire::ObjectId(2), kRootNode, "f");
  table.add_lookup(old);
  Node& fresh = table.adopt(file(10, 9), wire::ObjectId(3), kRootNode, "f");
  table.add_lookup(fresh);
  EXPECT_TRUE(table.update(old, file(10, 9)));
  EXPECT_EQ(table.known(file(10, 9), kRootNode), &fresh);
  table.forget(old.id, 1);
  EXPECT_EQ(table.known(file(10, 9), kRootNode), &fresh);
}

TEST_F(InodeTableTest, AnotherTypeIsAnotherObject) {
  Node& node = table.adopt(file(10, 0), wire::ObjectId(2), kRootNode, "f");
  table.add_lookup(node);
  EXPECT_FALSE(table.update(node, file(10, 0, S_IFDIR)));
  EXPECT_EQ(table.known(file(10, 0), kRootNode), nullptr);
}

TEST_F(InodeTableTest, DevicesAreToldApartInInodeNumbers) {
  EXPECT_EQ(table.shown_inode(1, 77), 77U);
  const std::uint64_t other = table.shown_inode(2, 77);
  EXPECT_NE(other, 77U);
  EXPECT_EQ(table.shown_inode(2, 77), other);
  EXPECT_NE(table.shown_inode(3, 77), other);
}

TEST_F(InodeTableTest, DevicesAreBounded) {
  for (std::uint64_t device = 2; device < 2 + InodeTable::kLastDevice; ++device) table.shown_inode(device, 1);
  const std::uint64_t last = InodeTable::kLastDevice << 48;
  EXPECT_EQ(table.shown_inode(1 + InodeTable::kLastDevice, 1), last ^ 1);
  EXPECT_EQ(table.shown_inode(2 + InodeTable::kLastDevice, 1), last ^ 1);
  EXPECT_EQ(table.shown_inode(1'000'000, 1), last ^ 1);
  EXPECT_EQ(table.shown_inode(2, 1), (std::uint64_t{1} << 48) ^ 1);
}

TEST(RemoteObjects, ReleasesAreCollected) {
  fakes::FakeLoop loop;
  fakes::FakeRemote remote{loop};
  RemoteObjects objects(loop, remote, {}, wire::ObjectId(2));
  EXPECT_EQ(objects.next(), wire::ObjectId(2));
  EXPECT_EQ(objects.reserve(10), wire::ObjectId(3));
  EXPECT_EQ(objects.next(), wire::ObjectId(13));

  for (std::uint64_t i = 1; i < RemoteObjects::kBatch; ++i) objects.release(wire::ObjectId(i));
  EXPECT_EQ(remote.counts["release"], 0U);
  loop.drain();
  EXPECT_EQ(remote.counts["release"], 1U);
  EXPECT_EQ(remote.largest_release, RemoteObjects::kBatch - 1);

  for (std::uint64_t i = 0; i < RemoteObjects::kBatch; ++i) objects.release(wire::ObjectId(100 + i));
  EXPECT_EQ(remote.counts["release"], 2U);
  EXPECT_EQ(remote.largest_release, RemoteObjects::kBatch);
  loop.drain();
  EXPECT_EQ(remote.counts["release"], 2U);
}

}  // namespace
}  // namespace sandbar::vfs
