// SPDX-License-Identifier: Apache-2.0
// Symlinks never lead out of the mount, wherever they lie and whatever the sandbox says.
#include "base/link_target.h"
#include "unit/vfs/mount.h"
#include "vfs/directory_tree.h"

namespace sandbar::vfs {
namespace {

class Links : public Mount {
 protected:
  void SetUp() override {
    remote.tree.put_directory("/a");
    remote.tree.put_directory("/a/b");
  }
  Bytes shown(NodeId node) {
    auto target = finish(start<Bytes>([&](auto done) { return fs->read_link(caller, node, std::move(done)); }));
    EXPECT_EQ(target.os_errno(), 0);
    return target.os_errno() == 0 ? *target.result() : Bytes();
  }
  Bytes shown(const std::string& path) { return shown(find(path).node); }
  Entry symlink(NodeId parent, Bytes name, Bytes target) {
    auto made = finish(
        start<Entry>([&](auto done) { return fs->make_symlink(caller, parent, name, target, std::move(done)); }));
    return *made.result();
  }
  void rename(NodeId parent, Bytes name, NodeId new_parent, Bytes new_name, std::uint32_t flags = 0) {
    auto renamed = finish(start<void>(
        [&](auto done) { return fs->rename(caller, parent, name, new_parent, new_name, flags, std::move(done)); }));
    EXPECT_EQ(renamed.os_errno(), 0);
  }
};

TEST_F(Links, ThoseThatStayAreShownAsStored) {
  remote.link_inside = "elsewhere";
  open();
  const NodeId b = find("/a/b").node;
  for (const char* target : {"x", "../x", "../../x/y", "../..", "x/y/", "./x", "..x"}) {
    symlink(b, "l", target);
    EXPECT_EQ(shown("/a/b/l"), target);
    remote.tree.take("/a/b/l");
  }
}

TEST_F(Links, OthersAreShownWhereTheSandboxResolvesThem) {
  open();
  const NodeId b = find("/a/b").node;
  for (const char* target : {"/x", "../../../x", "y/../x", "/", "../a/../../x"}) {
    symlink(b, "l", target);
    remote.link_inside = "d/x";
    EXPECT_EQ(shown("/a/b/l"), "../../d/x") << target;
    remote.link_inside = "/";
    EXPECT_EQ(shown("/a/b/l"), "../..") << target;
    remote.tree.take("/a/b/l");
  }
}

TEST_F(Links, ALyingSandboxCannotLeadThemOut) {
  open();
  symlink(find("/a").node, "l", "/etc/../x/../../passwd");
  for (const char* lie : {"..", "../x", "x/../../y", "/etc/passwd", "//", "x/..", ""}) {
    remote.link_inside = lie;
    EXPECT_EQ(shown("/a/l"), "../passwd") << lie;
  }
  remote.link_inside = Bytes(4094, 'x');
  auto target =
      finish(start<Bytes>([&](auto done) { return fs->read_link(caller, find("/a/l").node, std::move(done)); }));
  EXPECT_EQ(target.os_errno(), ENAMETOOLONG);
}

TEST_F(Links, RawOnesAreShownAsStored) {
  Options options;
  options.safe_links = false;
  open(options);
  symlink(kRootNode, "l", "/etc/../passwd");
  EXPECT_EQ(shown("/l"), "/etc/../passwd");
}

TEST_F(Links, ARenamedDirectoryTakesItsLinksAlong) {
  open();
  const NodeId b = find("/a/b").node;
  symlink(b, "l", "../../x");
  const NodeId link = find("/a/b/l").node;
  EXPECT_EQ(shown(link), "../../x");
  // The kernel here knows b's new place without looking it up.
  rename(find("/a").node, "b", kRootNode, "c");
  EXPECT_EQ(shown(link), "../x");
  make_directory(kRootNode, "deep");
  const NodeId deep = find("/deep").node;
  rename(kRootNode, "c", deep, "c");
  EXPECT_EQ(shown(link), "../../x");
  rename(kRootNode, "deep", find("/a").node, "deep");
  EXPECT_EQ(shown(link), "../../x");
}

TEST_F(Links, ExchangedDirectoriesTakeTheirLinksAlong) {
  open();
  make_directory(kRootNode, "top");
  symlink(find("/top").node, "l", "../x");
  symlink(find("/a/b").node, "m", "../../x");
  const NodeId l = find("/top/l").node;
  const NodeId m = find("/a/b/m").node;
  rename(kRootNode, "top", find("/a").node, "b", 2);
  EXPECT_EQ(shown(l), "../x");
  EXPECT_EQ(shown(m), "../x");
}

TEST_F(Links, ADirectoryThatTheSandboxMovedIsWhereItWasSeenLast) {
  open();
  symlink(find("/a/b").node, "l", "../../x");
  const NodeId link = find("/a/b/l").node;
  remote.tree.rename(remote.tree.at("/a"), "b", remote.tree.root(), "b", 0);
  find("/b");
  EXPECT_EQ(shown(link), "../x");
}

TEST_F(Links, AHardLinkIsShownAsItsDirectoryAsks) {
  open();
  symlink(find("/a/b").node, "l", "../../x");
  const Entry deep = find("/a/b/l");
  auto linked = finish(
      start<Entry>([&](auto done) { return fs->make_link(caller, deep.node, kRootNode, "l", std::move(done)); }));
  ASSERT_EQ(linked.os_errno(), 0);
  const Entry high = find("/l");
  EXPECT_NE(high.node, deep.node);
  EXPECT_EQ(high.attributes.inode, deep.attributes.inode);
  EXPECT_EQ(high.attributes.links, 2U);
  EXPECT_EQ(shown(deep.node), "../../x");
  EXPECT_EQ(shown(high.node), "x");
}

TEST_F(Links, TheStoredTargetCanBeAskedFor) {
  remote.link_inside = "x";
  open();
  symlink(kRootNode, "l", "/etc/passwd");
  remote.tree.put_file("/f", "");
  const auto stored = [this](NodeId parent, Bytes name) {
    return finish(start<Bytes>([&](auto done) { return fs->read_stored_link(caller, parent, name, std::move(done)); }));
  };
  EXPECT_EQ(*stored(kRootNode, "l").result(), "/etc/passwd");
  EXPECT_EQ(stored(kRootNode, "f").os_errno(), EINVAL);
  EXPECT_EQ(stored(kRootNode, "none").os_errno(), ENOENT);
  EXPECT_EQ(stored(kRootNode, "a/b").os_errno(), EINVAL);
  EXPECT_EQ(fs->counts().nodes, 2U) << "the root and the link that was made";
}

TEST(DirectoryTreeTest, ASandboxThatLiesAboutPlacesGetsNoDepth) {
  DirectoryTree tree;
  EXPECT_EQ(tree.depth(kRootNode), 0U);
  tree.seen(NodeId(2), kRootNode, "a");
  tree.seen(NodeId(3), NodeId(2), "b");
  EXPECT_EQ(tree.depth(NodeId(3)), 2U);
  // A ring.
  tree.seen(NodeId(2), NodeId(3), "a");
  EXPECT_EQ(tree.depth(NodeId(3)), std::nullopt);
  tree.seen(NodeId(2), kRootNode, "a");
  EXPECT_EQ(tree.depth(NodeId(3)), 2U);
  tree.forget(NodeId(2));
  EXPECT_EQ(tree.depth(NodeId(3)), std::nullopt);
  // Another directory at the place of one: nobody knows where the first went.
  tree.seen(NodeId(4), NodeId(2), "b");
  tree.seen(NodeId(2), kRootNode, "a");
  EXPECT_EQ(tree.depth(NodeId(4)), 2U);
  EXPECT_EQ(tree.depth(NodeId(3)), std::nullopt);
}

}  // namespace
}  // namespace sandbar::vfs
