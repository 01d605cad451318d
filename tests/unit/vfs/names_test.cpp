// SPDX-License-Identifier: Apache-2.0
#include "unit/vfs/mount.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

class Names : public Mount {
 protected:
  Pending<Entry> make_node(NodeId parent, Bytes name, std::uint32_t mode, std::uint64_t device = 0) {
    return finish(
        start<Entry>([&](auto done) { return fs->make_node(caller, parent, name, mode, device, std::move(done)); }));
  }
  Pending<Entry> symlink(NodeId parent, Bytes name, Bytes target) {
    return finish(
        start<Entry>([&](auto done) { return fs->make_symlink(caller, parent, name, target, std::move(done)); }));
  }
  Pending<Entry> link(NodeId node, NodeId parent, Bytes name) {
    return finish(start<Entry>([&](auto done) { return fs->make_link(caller, node, parent, name, std::move(done)); }));
  }
  Pending<void> remove_directory(NodeId parent, Bytes name) {
    return finish(start<void>([&](auto done) { return fs->remove_directory(caller, parent, name, std::move(done)); }));
  }
  Pending<void> rename(NodeId parent, Bytes name, NodeId new_parent, Bytes new_name, std::uint32_t flags = 0) {
    return finish(start<void>(
        [&](auto done) { return fs->rename(caller, parent, name, new_parent, new_name, flags, std::move(done)); }));
  }
};

TEST_F(Names, OpenAttachesTheDirectory) {
  remote.tree.put_directory("/d");
  remote.tree.put_file("/d/f", "x");
  Options options;
  options.directory = "/d";
  open(options);
  EXPECT_EQ(lookup(kRootNode, "f").os_errno(), 0);
}

TEST_F(Names, OpenRefusesAFile) {
  remote.tree.put_file("/f", "");
  Options options;
  options.directory = "/f";
  Pending<std::unique_ptr<FileSystem>> pending;
  FileSystem::open(loop, remote, options, pending.done());
  pending.started({});
  loop.drain();
  EXPECT_EQ(pending.os_errno(), ENOTDIR);
  EXPECT_EQ(remote.bound_objects(), 0U);
}

TEST_F(Names, AStatOfTheRootDoesNotWaitForASilentLink) {
  remote.tree.put_file("/f", "");
  open();
  auto before = stat(kRootNode);
  ASSERT_EQ(before.os_errno(), 0);
  const Entry file = find("/f");
  remote.hold = fakes::FakeRemote::Hold::requests;
  auto root = start_stat(kRootNode);
  auto other = start_stat(file.node);
  auto space = start<StatFs>([&](auto done) { return fs->stat_fs(caller, kRootNode, std::move(done)); });
  loop.advance(std::chrono::milliseconds(499));
  EXPECT_FALSE(root.ready());
  loop.advance(std::chrono::milliseconds(1));
  ASSERT_EQ(root.os_errno(), 0);
  EXPECT_EQ(root.result()->attributes.inode, before.result()->attributes.inode);
  EXPECT_FALSE(other.ready()) << "only the root has this need";
  ASSERT_EQ(space.os_errno(), 0);
  EXPECT_EQ(space.result()->name_max, 255U);
  remote.hold = fakes::FakeRemote::Hold::none;
  remote.let_go(0);
  remote.let_go(0);
  remote.let_go(0);
  loop.drain();
  EXPECT_EQ(other.os_errno(), 0);
  EXPECT_EQ(fs->counts().operations, 0U);
}

TEST_F(Names, OpenPassesOnWhatAttachFailedWith) {
  Options options;
  options.directory = "/none";
  Pending<std::unique_ptr<FileSystem>> pending;
  FileSystem::open(loop, remote, options, pending.done());
  pending.started({});
  loop.drain();
  EXPECT_EQ(pending.os_errno(), ENOENT);
}

TEST_F(Names, LookupGivesWhatTheSandboxHas) {
  remote.tree.put_file("/f", "hello");
  open();
  auto found = lookup(kRootNode, "f");
  ASSERT_EQ(found.os_errno(), 0);
  EXPECT_EQ(found.result()->attributes.size, 5U);
  EXPECT_EQ(found.result()->attributes.inode, remote.tree.at("/f")->attributes.inode);
  EXPECT_NE(found.result()->generation, 0U);
  EXPECT_EQ(found.result()->name_valid, base::Duration::zero());
  EXPECT_EQ(found.result()->attributes_valid, base::Duration::zero());
  EXPECT_EQ(remote.take_round_trips(), 1U);
  EXPECT_EQ(lookup(kRootNode, "none").os_errno(), ENOENT);
  EXPECT_EQ(lookup(found.result()->node, "x").os_errno(), ENOTDIR);
  forget(found.result()->node);
  expect_clean();
}

TEST_F(Names, AKnownIdentityIsReusedAndTheFreshIdReleased) {
  remote.tree.put_file("/f", "");
  open();
  const NodeId first = find("/f").node;
  const NodeId second = find("/f").node;
  EXPECT_EQ(first, second);
  EXPECT_EQ(remote.bound_objects(), 2U);
  EXPECT_EQ(fs->counts().nodes, 2U);
  forget(first);
  EXPECT_EQ(stat(first).os_errno(), 0);
  forget(first);
  EXPECT_EQ(stat(first).os_errno(), ESTALE);
  expect_clean();
}

TEST_F(Names, HardLinksAreOneNode) {
  remote.tree.put_file("/f", "");
  open();
  const NodeId node = find("/f").node;
  remote.take_round_trips();
  auto linked = link(node, kRootNode, "g");
  EXPECT_EQ(remote.take_round_trips(), 1U);
  ASSERT_EQ(linked.os_errno(), 0);
  EXPECT_EQ(linked.result()->node, node);
  EXPECT_EQ(linked.result()->attributes.links, 2U);
  EXPECT_EQ(find("/g").node, node);
  forget(node, 3);
  expect_clean();
}

TEST_F(Names, AReusedInodeNumberIsAnotherNode) {
  const std::uint64_t inode = remote.tree.put_file("/f", "")->attributes.inode;
  open();
  const NodeId first = find("/f").node;
  remote.tree.take("/f");
  remote.tree.next_inode = inode;
  remote.tree.put_file("/f", "new");
  const Entry second = find("/f");
  EXPECT_NE(second.node, first);
  EXPECT_EQ(second.attributes.inode, inode);
  EXPECT_EQ(stat(second.node).result()->attributes.size, 3U);
  EXPECT_EQ(stat(first).result()->attributes.size, 0U);
}

TEST_F(Names, WithoutBirthTimesEstaleTellsAReusedInode) {
  remote.tree.births = false;
  const std::uint64_t inode = remote.tree.put_file("/f", "")->attributes.inode;
  open();
  const NodeId first = find("/f").node;
  remote.tree.take("/f");
  remote.tree.next_inode = inode;
  remote.tree.put_file("/f", "new");
  remote.make_stale(wire::ObjectId(2));  // the first object that was bound
  EXPECT_EQ(stat(first).os_errno(), ESTALE);
  EXPECT_NE(find("/f").node, first);
}

TEST_F(Names, WithoutBirthTimesAnotherTypeIsAnotherNode) {
  remote.tree.births = false;
  const std::uint64_t inode = remote.tree.put_file("/f", "")->attributes.inode;
  open();
  const NodeId first = find("/f").node;
  remote.tree.take("/f");
  remote.tree.next_inode = inode;
  remote.tree.put_directory("/f");
  EXPECT_NE(find("/f").node, first);
}

TEST_F(Names, StatOfAKnownNodeIsOneRoundTrip) {
  remote.tree.put_file("/f", "abc");
  open();
  const NodeId node = find("/f").node;
  remote.take_round_trips();
  EXPECT_EQ(stat(node).result()->attributes.size, 3U);
  EXPECT_EQ(remote.take_round_trips(), 1U);
  EXPECT_EQ(stat(kRootNode).os_errno(), 0);
}

TEST_F(Names, InodeNumberAsFirstShown) {
  remote.tree.put_file("/f", "");
  open();
  const Entry entry = find("/f");
  remote.tree.at("/f")->attributes.inode += 1000;  // overlayfs after a copy-up
  EXPECT_EQ(stat(entry.node).result()->attributes.inode, entry.attributes.inode);
  EXPECT_EQ(find("/f").node, entry.node);
}

TEST_F(Names, AnotherDevicesInodeNumbersDoNotCollide) {
  const std::uint64_t inode = remote.tree.put_file("/f", "")->attributes.inode;
  remote.tree.device = 8;
  remote.tree.next_inode = inode;
  remote.tree.put_file("/mounted", "");
  open();
  EXPECT_EQ(find("/f").attributes.inode, inode);
  EXPECT_NE(find("/mounted").attributes.inode, inode);
}

TEST_F(Names, AttributesAreSet) {
  remote.tree.put_file("/f", "abcdef");
  open();
  const NodeId node = find("/f").node;
  remote.take_round_trips();
  Changes changes;
  changes.mode = S_IFREG | 04711;
  changes.size = 2;
  changes.modified = Time{5, 6};
  auto changed = change(node, changes);
  ASSERT_EQ(changed.os_errno(), 0);
  EXPECT_EQ(remote.take_round_trips(), 1U);
  EXPECT_EQ(changed.result()->attributes.mode, static_cast<std::uint32_t>(S_IFREG | 04711));
  EXPECT_EQ(changed.result()->attributes.size, 2U);
  EXPECT_EQ(changed.result()->attributes.modified, (Time{5, 6}));
  EXPECT_EQ(remote.tree.at("/f")->data, "ab");
}

TEST_F(Names, SetuidBitsGoBeforeAWriteOfSomeoneElse) {
  // The kernel does that with a setattr of the writer's, who may not chmod; the agent does it as itself.
  const auto file = remote.tree.put_file("/f", "x");
  Options options;
  options.id_map = IdMapMode::none;
  open(options);
  const NodeId node = find("/f").node;
  caller.uid = 1234;
  const auto by_itself = [&](std::uint32_t had, std::uint32_t mode, std::optional<std::uint64_t> size = std::nullopt) {
    file->attributes.mode = S_IFREG | had;
    stat(node);
    Changes changes;
    changes.mode = mode;
    changes.size = size;
    change(node, changes);
    return !remote.asked.back().second.caller.has_value();
  };
  EXPECT_TRUE(by_itself(06777, 0777));
  EXPECT_TRUE(by_itself(06767, 02767));
  EXPECT_FALSE(by_itself(06777, 0776)) << "more than setuid bits goes";
  EXPECT_FALSE(by_itself(0777, 0777)) << "nothing goes";
  EXPECT_FALSE(by_itself(04767, 0777)) << "a bit comes";
  EXPECT_FALSE(by_itself(04777, 0777, 0)) << "something else changes too";
  file->attributes.uid = 1234;
  EXPECT_FALSE(by_itself(04777, 0777)) << "the owner may";
}

TEST_F(Names, EachKindIsMade) {
  open();
  EXPECT_EQ(make_directory(kRootNode, "d").os_errno(), 0);
  const NodeId directory = find("/d").node;
  EXPECT_EQ(make_node(directory, "fifo", S_IFIFO | 0600).os_errno(), 0);
  EXPECT_EQ(make_node(directory, "socket", S_IFSOCK | 0600).os_errno(), 0);
  EXPECT_EQ(make_node(directory, "plain", 0640).os_errno(), 0);
  EXPECT_EQ(make_node(directory, "null", S_IFCHR | 0600, 0x103).os_errno(), 0);
  EXPECT_EQ(make_node(directory, "disk", S_IFBLK | 0600, 0x800).os_errno(), 0);
  EXPECT_EQ(make_node(directory, "plain2", 0640, 0x800).os_errno(), 0);
  EXPECT_EQ(symlink(directory, "link", "../a b").os_errno(), 0);
  EXPECT_TRUE(S_ISFIFO(remote.tree.at("/d/fifo")->attributes.mode));
  EXPECT_EQ(remote.tree.at("/d/plain")->attributes.mode, static_cast<std::uint32_t>(S_IFREG | 0640));
  EXPECT_TRUE(S_ISCHR(remote.tree.at("/d/null")->attributes.mode));
  EXPECT_EQ(remote.tree.at("/d/null")->attributes.rdev, 0x103U);
  EXPECT_EQ(remote.tree.at("/d/disk")->attributes.rdev, 0x800U);
  EXPECT_EQ(remote.tree.at("/d/plain2")->attributes.rdev, 0U);
  auto target =
      finish(start<Bytes>([&](auto done) { return fs->read_link(caller, find("/d/link").node, std::move(done)); }));
  EXPECT_EQ(*target.result(), "../a b");
  EXPECT_EQ(make_directory(kRootNode, "d").os_errno(), EEXIST);
  EXPECT_EQ(make_node(directory, "fifo", S_IFIFO | 0600).os_errno(), EEXIST);
}

TEST_F(Names, MakingCostsOneRoundTripEach) {
  open();
  make_directory(kRootNode, "d");
  EXPECT_EQ(remote.take_round_trips(), 1U);
  symlink(kRootNode, "l", "d");
  EXPECT_EQ(remote.take_round_trips(), 1U);
  make_node(kRootNode, "p", S_IFIFO | 0600);
  EXPECT_EQ(remote.take_round_trips(), 1U);
  rename(kRootNode, "l", kRootNode, "m");
  EXPECT_EQ(remote.take_round_trips(), 1U);
  unlink(kRootNode, "m");
  EXPECT_EQ(remote.take_round_trips(), 1U);
  remove_directory(kRootNode, "d");
  EXPECT_EQ(remote.take_round_trips(), 1U);
}

TEST_F(Names, RemovingAndRenaming) {
  remote.tree.put_directory("/d");
  remote.tree.put_file("/d/f", "f");
  remote.tree.put_file("/g", "g");
  open();
  const NodeId directory = find("/d").node;
  EXPECT_EQ(remove_directory(kRootNode, "d").os_errno(), ENOTEMPTY);
  EXPECT_EQ(unlink(kRootNode, "d").os_errno(), EISDIR);
  EXPECT_EQ(rename(kRootNode, "g", directory, "f", 1).os_errno(), EEXIST);
  EXPECT_EQ(rename(kRootNode, "g", directory, "f", 2).os_errno(), 0);
  EXPECT_EQ(remote.tree.at("/g")->data, "f");
  EXPECT_EQ(remote.tree.at("/d/f")->data, "g");
  EXPECT_EQ(rename(kRootNode, "g", directory, "f", 3).os_errno(), EINVAL);
  EXPECT_EQ(rename(kRootNode, "g", directory, "f", 8).os_errno(), EINVAL);
  EXPECT_EQ(rename(kRootNode, "g", directory, "f").os_errno(), 0);
  EXPECT_EQ(remote.tree.at("/d/f")->data, "f");
  EXPECT_EQ(unlink(directory, "f").os_errno(), 0);
  EXPECT_EQ(remove_directory(kRootNode, "d").os_errno(), 0);
  EXPECT_EQ(unlink(kRootNode, "d").os_errno(), ENOENT);
}

TEST_F(Names, ARenamedNodeStaysTheSame) {
  remote.tree.put_file("/f", "");
  open();
  const NodeId node = find("/f").node;
  rename(kRootNode, "f", kRootNode, "g");
  EXPECT_EQ(find("/g").node, node);
}

TEST_F(Names, NamesAreCheckedHere) {
  open();
  const std::string longest(wire::kMaxName, 'n');
  EXPECT_EQ(lookup(kRootNode, longest).os_errno(), ENOENT);
  remote.take_round_trips();
  for (const auto& [name, expected] : std::vector<std::pair<std::string, int>>{{longest + "n", ENAMETOOLONG},
                                                                               {"", EINVAL},
                                                                               {".", EINVAL},
                                                                               {"..", EINVAL},
                                                                               {"a/b", EINVAL},
                                                                               {std::string("a\0b", 3), EINVAL}}) {
    EXPECT_EQ(lookup(kRootNode, name).os_errno(), expected);
    EXPECT_EQ(make_directory(kRootNode, name).os_errno(), expected);
    EXPECT_EQ(create(kRootNode, name, O_RDWR).os_errno(), expected);
    EXPECT_EQ(unlink(kRootNode, name).os_errno(), expected);
    EXPECT_EQ(rename(kRootNode, "a", kRootNode, name).os_errno(), expected);
    EXPECT_EQ(rename(kRootNode, name, kRootNode, "a").os_errno(), expected);
  }
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Names, SymlinkTargetsAreChecked) {
  open();
  EXPECT_EQ(symlink(kRootNode, "a", "").os_errno(), ENOENT);
  EXPECT_EQ(symlink(kRootNode, "a", std::string(wire::kMaxPath, 't')).os_errno(), ENAMETOOLONG);
  EXPECT_EQ(symlink(kRootNode, "a", std::string(wire::kMaxPath - 1, 't')).os_errno(), 0);
}

TEST_F(Names, UnknownNodesAreStale) {
  open();
  const NodeId none(99);
  EXPECT_EQ(lookup(none, "a").os_errno(), ESTALE);
  EXPECT_EQ(stat(none).os_errno(), ESTALE);
  EXPECT_EQ(change(none, {}).os_errno(), ESTALE);
  EXPECT_EQ(open_file(none, O_RDONLY).os_errno(), ESTALE);
  EXPECT_EQ(create(none, "a", O_RDWR).os_errno(), ESTALE);
  EXPECT_EQ(link(none, kRootNode, "a").os_errno(), ESTALE);
  EXPECT_EQ(rename(kRootNode, "a", none, "b").os_errno(), ESTALE);
  EXPECT_EQ(get_xattr(none, "user.a").os_errno(), ESTALE);
  forget(none, 3);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Names, ReadOnly) {
  remote.tree.put_file("/f", "");
  Options options;
  options.read_only = true;
  open(options);
  const NodeId node = find("/f").node;
  remote.take_round_trips();
  EXPECT_EQ(make_directory(kRootNode, "d").os_errno(), EROFS);
  EXPECT_EQ(make_node(kRootNode, "d", S_IFIFO).os_errno(), EROFS);
  EXPECT_EQ(symlink(kRootNode, "d", "x").os_errno(), EROFS);
  EXPECT_EQ(link(node, kRootNode, "d").os_errno(), EROFS);
  EXPECT_EQ(unlink(kRootNode, "f").os_errno(), EROFS);
  EXPECT_EQ(remove_directory(kRootNode, "f").os_errno(), EROFS);
  EXPECT_EQ(rename(kRootNode, "f", kRootNode, "g").os_errno(), EROFS);
  EXPECT_EQ(change(node, {}).os_errno(), EROFS);
  EXPECT_EQ(create(kRootNode, "g", O_RDONLY).os_errno(), EROFS);
  EXPECT_EQ(open_file(node, O_RDWR).os_errno(), EROFS);
  EXPECT_EQ(open_file(node, O_WRONLY).os_errno(), EROFS);
  EXPECT_EQ(open_file(node, O_RDONLY | O_TRUNC).os_errno(), EROFS);
  EXPECT_EQ(remote.take_round_trips(), 0U);
  EXPECT_EQ(open_file(node, O_RDONLY).os_errno(), 0);
}

TEST_F(Names, OtherErrorsPassUnchanged) {
  open();
  for (const Errc code : {Errc::unauthorized, Errc::unsupported, Errc::limit, Errc::unknown, Errc::protocol}) {
    remote.fail_next("get_attributes", make_error(code, "fake"));
    EXPECT_TRUE(stat(kRootNode).failed_with(code));
  }
  remote.answer_next("get_attributes", {wire::EmptyReply{}, {}, {}});
  EXPECT_TRUE(stat(kRootNode).failed_with(Errc::protocol));
}

TEST_F(Names, StatFs) {
  open();
  auto result = finish(start<StatFs>([&](auto done) { return fs->stat_fs(caller, kRootNode, std::move(done)); }));
  ASSERT_EQ(result.os_errno(), 0);
  EXPECT_EQ(result.result()->blocks, 1000U);
}

}  // namespace
}  // namespace sandbar::vfs
