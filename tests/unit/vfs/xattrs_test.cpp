// SPDX-License-Identifier: Apache-2.0
#include "unit/vfs/mount.h"
#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

class Xattrs : public Mount {
 protected:
  Pending<base::Bytes> list_xattr(NodeId node) {
    return finish(start<base::Bytes>([&](auto done) { return fs->list_xattr(caller, node, std::move(done)); }));
  }
  Pending<void> remove_xattr(NodeId node, base::Bytes name) {
    return finish(start<void>([&](auto done) { return fs->remove_xattr(caller, node, name, std::move(done)); }));
  }
};

TEST_F(Xattrs, PassThrough) {
  remote.tree.put_file("/f", "");
  open();
  const NodeId node = find("/f").node;
  remote.take_round_trips();
  EXPECT_EQ(get_xattr(node, "user.a").os_errno(), ENODATA);
  EXPECT_EQ(set_xattr(node, "user.a", std::string("\0v", 2)).os_errno(), 0);
  EXPECT_EQ(*get_xattr(node, "user.a").result(), std::string("\0v", 2));
  EXPECT_EQ(set_xattr(node, "user.a", "w", 1).os_errno(), EEXIST);
  EXPECT_EQ(set_xattr(node, "system.posix_acl_access", "acl").os_errno(), 0);
  EXPECT_EQ(*list_xattr(node).result(), std::string("system.posix_acl_access\0user.a\0", 31));
  EXPECT_EQ(remove_xattr(node, "user.a").os_errno(), 0);
  EXPECT_EQ(remove_xattr(node, "user.a").os_errno(), ENODATA);
  EXPECT_EQ(remote.take_round_trips(), 8U);
}

TEST_F(Xattrs, CapabilitiesAreAnsweredHereWhereThereAreNoXattrs) {
  remote.tree.put_file("/f", "");
  open();
  const NodeId node = find("/f").node;
  remote.take_round_trips();
  EXPECT_EQ(get_xattr(node, "security.capability").os_errno(), ENODATA);
  EXPECT_EQ(remote.take_round_trips(), 0U);
  // Any attributes that say otherwise are heeded.
  remote.tree.at("/f")->xattrs["security.capability"] = "c";
  stat(node);
  EXPECT_EQ(*get_xattr(node, "security.capability").result(), "c");
  remote.tree.at("/f")->xattrs.clear();
  open_file(node, O_RDONLY);
  remote.take_round_trips();
  EXPECT_EQ(get_xattr(node, "security.capability").os_errno(), ENODATA);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Xattrs, CapabilitiesSetHereAreNotDeniedByOlderAttributes) {
  remote.tree.put_file("/f", "");
  open();
  const NodeId node = find("/f").node;
  remote.hold = fakes::FakeRemote::Hold::answers;
  auto old = start_stat(node);
  remote.hold = fakes::FakeRemote::Hold::none;
  EXPECT_EQ(set_xattr(node, "security.capability", "c").os_errno(), 0);
  remote.let_all_go();
  finish(old);
  EXPECT_EQ(*get_xattr(node, "security.capability").result(), "c");
}

TEST_F(Xattrs, TheRootSaysHowItStandsWithTheSandbox) {
  open();
  const auto text = [this](const char* name) { return *get_xattr(kRootNode, name).result(); };
  EXPECT_EQ(text("user.sandbar.state"), "connected");
  EXPECT_EQ(text("user.sandbar.session"), "resumed=0 lost=0");
  remote.connection = {client::ConnectionState::Phase::connecting, 2, 0};
  EXPECT_EQ(text("user.sandbar.state"), "connecting");
  remote.connection = {client::ConnectionState::Phase::lost, 2, 11};
  EXPECT_EQ(text("user.sandbar.state"), "lost");
  EXPECT_EQ(text("user.sandbar.session"), "resumed=2 lost=11");
  EXPECT_EQ(remote.take_round_trips(), 0U);
  EXPECT_EQ(set_xattr(kRootNode, "user.sandbar.state", "v").os_errno(), EPERM);
}

TEST_F(Xattrs, TheRootSaysWhereItsGrantsComeFrom) {
  Options options;
  options.grant_command = "mint | tail -n 1";
  open(options);
  remote.tree.root()->xattrs = {{"user.sandbar.grant-command", "forged"}};
  EXPECT_EQ(*get_xattr(kRootNode, "user.sandbar.grant-command").result(), options.grant_command);
  EXPECT_EQ(get_xattr(kRootNode, "user.sandbar.token-file").os_errno(), ENODATA);
  EXPECT_EQ(set_xattr(kRootNode, "user.sandbar.grant-command", "v").os_errno(), EPERM);
}

TEST_F(Xattrs, TheRootSaysWhatIsMounted) {
  Options options;
  options.target = "ws://127.0.0.1:1:/x";
  options.token_file = "/home/u/token";
  open(options);
  remote.tree.root()->xattrs = {{"user.sandbar.target", "forged"}, {"user.sandbar.x", "forged"}, {"user.y", "z"}};
  EXPECT_EQ(*get_xattr(kRootNode, "user.sandbar.target").result(), options.target);
  EXPECT_EQ(*get_xattr(kRootNode, "user.sandbar.token-file").result(), options.token_file);
  EXPECT_EQ(get_xattr(kRootNode, "user.sandbar.grant-command").os_errno(), ENODATA);
  EXPECT_EQ(get_xattr(kRootNode, "user.sandbar.x").os_errno(), ENODATA);
  EXPECT_EQ(set_xattr(kRootNode, "user.sandbar.target", "v").os_errno(), EPERM);
  EXPECT_EQ(set_xattr(kRootNode, "user.sandbar.token-file", "v").os_errno(), EPERM);
  EXPECT_EQ(remove_xattr(kRootNode, "user.sandbar.target").os_errno(), EPERM);
  EXPECT_EQ(remote.take_round_trips(), 0U);
  EXPECT_EQ(*list_xattr(kRootNode).result(), std::string("user.y\0", 7));
  EXPECT_EQ(*get_xattr(kRootNode, "user.y").result(), "z");
}

TEST_F(Xattrs, TheRootSaysWhomItsMountTrusts) {
  Options options;
  options.ca_file = "/home/u/ca.pem";
  options.insecure = true;
  open(options);
  EXPECT_EQ(*get_xattr(kRootNode, "user.sandbar.ca-file").result(), options.ca_file);
  EXPECT_EQ(*get_xattr(kRootNode, "user.sandbar.insecure").result(), "1");
  EXPECT_EQ(set_xattr(kRootNode, "user.sandbar.ca-file", "v").os_errno(), EPERM);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

TEST_F(Xattrs, WhatWasNotGivenTheSandboxCannotSay) {
  open();
  for (const char* name : {"user.sandbar.token-file", "user.sandbar.ca-file", "user.sandbar.insecure"}) {
    remote.tree.root()->xattrs[name] = "/etc/shadow";
    EXPECT_EQ(get_xattr(kRootNode, name).os_errno(), ENODATA) << name;
  }
}

TEST_F(Xattrs, BoundsAtTheBound) {
  open();
  EXPECT_EQ(get_xattr(kRootNode, "").os_errno(), ERANGE);
  EXPECT_EQ(get_xattr(kRootNode, std::string(wire::kMaxXattrName + 1, 'a')).os_errno(), ERANGE);
  EXPECT_EQ(set_xattr(kRootNode, std::string(wire::kMaxXattrName + 1, 'a'), "").os_errno(), ERANGE);
  EXPECT_EQ(set_xattr(kRootNode, std::string(wire::kMaxXattrName, 'a'), "").os_errno(), 0);
  EXPECT_EQ(set_xattr(kRootNode, "user.v", std::string(wire::kMaxXattrValue, 'v')).os_errno(), 0);
  EXPECT_EQ(set_xattr(kRootNode, "user.v", std::string(wire::kMaxXattrValue + 1, 'v')).os_errno(), E2BIG);
}

TEST_F(Xattrs, ReadOnly) {
  Options options;
  options.read_only = true;
  open(options);
  EXPECT_EQ(set_xattr(kRootNode, "user.a", "b").os_errno(), EROFS);
  EXPECT_EQ(remove_xattr(kRootNode, "user.a").os_errno(), EROFS);
  EXPECT_EQ(remote.take_round_trips(), 0U);
}

}  // namespace
}  // namespace sandbar::vfs
