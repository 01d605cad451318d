// SPDX-License-Identifier: Apache-2.0
// Where symlinks lead inside a directory of the root, and directories that leave the root.
#include "agent/link_resolver.h"
#include "base/link_target.h"
#include "unit/agent/files_fixture.h"

namespace sandbar::agent {
namespace {

class LinksTest : public FilesTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(tree.path("top/a/b"));
    tree.write("top/a/b/file", "data");
    std::filesystem::create_directories(tree.path("beside"));
    top = service.new_object();
    service.must(wire::Attach{top, "/top"});
  }
  void link(const std::string& at, const std::string& target) const {
    std::filesystem::create_symlink(target, tree.path(at));
  }
  wire::ReadLink::Reply read_link(const std::string& directory, const std::string& name, std::uint32_t depth) {
    const wire::ObjectId in = service.new_object();
    service.must(wire::Attach{in, directory});
    return service.must(wire::ReadLink{service.lookup(in, name), in, top, depth});
  }
  /// Where `target` leads from /top/a.
  base::Bytes inside(const std::string& target) {
    std::filesystem::remove(tree.path("top/a/l"));
    link("top/a/l", target);
    const wire::ReadLink::Reply reply = read_link("/top/a", "l", 1);
    EXPECT_EQ(reply.target, target);
    return reply.inside;
  }

  wire::ObjectId top;
};

TEST_F(LinksTest, ThoseThatStayAreNotResolved) {
  for (const char* target : {"b", "../a", "b/file", "none"}) EXPECT_EQ(inside(target), "") << target;
}

TEST_F(LinksTest, OthersAreResolvedBelowTheTop) {
  EXPECT_EQ(inside("/top/a/b/file"), "a/b/file");
  EXPECT_EQ(inside("../../top/a/b"), "a/b");
  EXPECT_EQ(inside("../../../../../top/a/b/"), "a/b/");
  EXPECT_EQ(inside("b/../b/./file"), "a/b/file");
  EXPECT_EQ(inside("/top"), "/");
  EXPECT_EQ(inside("b/../.."), "/");
  // As the sandbox' own processes see the root.
  EXPECT_EQ(inside(tree.path("top/a/b/file")), "a/b/file");
  EXPECT_EQ(inside(tree.root() + "x/top"), "");
}

TEST_F(LinksTest, OutsideOfTheTopIsNowhere) {
  for (const char* target : {"/", "/beside", "../../beside", "/topless", "b/../../../beside/x"})
    EXPECT_EQ(inside(target), "") << target;
}

TEST_F(LinksTest, LinksOnTheWayAreFollowedButNotTheLast) {
  link("top/same", ".");
  link("top/down", "a/b");
  link("top/far", "/beside/back");
  link("beside/back", "../top/a");
  // What a lexical rewrite would get wrong: "same/../x" is outside, "down/../x" is in a.
  EXPECT_EQ(inside("/top/down/../file"), "a/file");
  EXPECT_EQ(inside("/top/same/../beside"), "");
  EXPECT_EQ(inside("/top/far/b/file"), "a/b/file");
  EXPECT_EQ(inside("/top/down"), "down");
  EXPECT_EQ(inside("/top/down/"), "down/");
  EXPECT_EQ(inside("/top/down/file"), "a/b/file");
}

TEST_F(LinksTest, WhatIsNotThereKeepsItsNames) {
  EXPECT_EQ(inside("/top/none/x/y"), "none/x/y");
  EXPECT_EQ(inside("/top/none/../x"), "none/x");
  EXPECT_EQ(inside("/top/a/b/file/x"), "a/b/file/x");
  link("top/ring", "/top/ring");
  EXPECT_EQ(inside("/top/ring"), "ring");
  EXPECT_EQ(inside("/top/ring/x"), "ring/x");
  link("top/grow", "/top/grow/x/x/x/x/x/x");
  EXPECT_TRUE(base::stays_below(inside("/top/grow/y"), 0));
}

TEST_F(LinksTest, MagicLinksAreTextsOnly) {
  Service whole("/");
  const wire::ObjectId root = whole.new_object();
  whole.must(wire::Attach{root, "/"});
  const auto resolved = path_below(whole.root(), whole.root().fd(), whole.root().fd(), "/proc/self/root/x/../etc/y");
  EXPECT_TRUE(base::stays_below(resolved, 0)) << resolved;
}

TEST_F(LinksTest, TheTargetAloneNeedsNoDirectory) {
  link("l", "/x/../y");
  const wire::ObjectId l = service.lookup(service.attach(), "l");
  EXPECT_EQ(service.must(wire::ReadLink{l, {}, {}, 0}), (wire::ReadLink::Reply{"/x/../y", ""}));
  EXPECT_EQ(EINVAL, service.error_of(wire::ReadLink{top, {}, {}, 0}));
}

TEST_F(LinksTest, ADirectoryThatLeavesTheRootIsNotServed) {
  const wire::ObjectId root = service.attach();
  std::filesystem::create_directories(tree.path("gone/deep"));
  tree.write("gone/deep/file", "data");
  const wire::ObjectId gone = service.lookup(root, "gone");
  const wire::ObjectId deep = service.lookup(gone, "deep");
  const wire::HandleId listing = service.open(deep, O_DIRECTORY);
  const wire::HandleId file = service.open(service.lookup(deep, "file"), O_RDWR);
  std::filesystem::rename(tree.path("gone"), tree.outside("gone"));
  for (const wire::ObjectId object : {gone, deep}) {
    EXPECT_EQ(ESTALE, service.error_of(wire::Lookup{object, "file", service.new_object()}));
    EXPECT_EQ(ESTALE, service.error_of(wire::MakeDirectory{object, "new", 0755, service.new_object()}));
    EXPECT_EQ(ESTALE, service.error_of(wire::Open{object, service.new_handle(), O_DIRECTORY}));
    EXPECT_EQ(ESTALE, service.error_of(wire::Unlink{object, "file"}));
    EXPECT_EQ(ESTALE, service.error_of(wire::Rename{object, "file", root, "stolen", 0}));
    EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{object, {}}));
  }
  EXPECT_EQ(ESTALE, service.error_of(wire::List{listing, 0, 4096, false, {}}));
  // An open file is its opener's still.
  EXPECT_EQ("data", service.read(file));
  std::filesystem::rename(tree.outside("gone"), tree.path("back"));
  EXPECT_EQ(4U, service.must(wire::Lookup{deep, "file", service.new_object()}).attributes.size);
}

TEST_F(LinksTest, DeepDirectoriesAreBelowTheRootToo) {
  // Deeper than PATH_MAX tells.
  base::UniqueFd at(::open(tree.root().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  wire::ObjectId object = service.attach();
  const std::string name(200, 'd');
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(0, ::mkdirat(at.get(), name.c_str(), 0755));
    at.reset(::openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    object = service.lookup(object, name);
  }
  service.must(wire::MakeDirectory{object, "deepest", 0755, service.new_object()});
  std::filesystem::rename(tree.path(name), tree.outside("out"));
  EXPECT_EQ(ESTALE, service.error_of(wire::MakeDirectory{object, "more", 0755, service.new_object()}));
}

}  // namespace
}  // namespace sandbar::agent
