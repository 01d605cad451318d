// SPDX-License-Identifier: Apache-2.0
// Restore: a client names what it knew in a session before, and gets that or nothing.
#include "unit/agent/files_fixture.h"

namespace sandbar::agent {
namespace {

class RestoreTest : public FilesTest {
 protected:
  wire::Restore identity_of(const std::string& name) {
    const wire::Attributes attributes = service.must(wire::Lookup{root, name, service.new_object()}).attributes;
    return {{}, {}, {}, attributes.device, attributes.inode, attributes.birth};
  }
  int restore(wire::Restore request, const std::string& path, wire::ObjectId parent = {}) {
    request.object = service.new_object();
    request.parent = parent;
    request.path = path;
    last = request.object;
    return service.error_of(request);
  }

  wire::ObjectId root = service.attach();
  wire::ObjectId last;
};

TEST_F(RestoreTest, FindsAnObjectByItsPathAndByItsDirectory) {
  tree.write("f", "data");
  std::filesystem::create_directory(tree.path("d"));
  const wire::Restore file = identity_of("f");
  for (const char* path : {"f", "/f", "//f", "d/../f"}) {
    EXPECT_EQ(restore(file, path), 0) << path;
    EXPECT_EQ(service.read(service.open(last)), "data");
  }
  EXPECT_EQ(restore(file, "f", root), 0);
  EXPECT_EQ(service.read(service.open(last)), "data");
  const wire::Restore directory = identity_of("d");
  for (const char* path : {"d", "d/", "/d/."}) EXPECT_EQ(restore(directory, path), 0) << path;
  const wire::Attributes top = service.must(wire::GetAttributes{root, {}}).attributes;
  const wire::Restore whole{{}, {}, {}, top.device, top.inode, top.birth};
  for (const char* path : {"/", "", ".", ".."}) EXPECT_EQ(restore(whole, path), 0) << path;
}

TEST_F(RestoreTest, AnythingElseIsStale) {
  tree.write("f", "");
  tree.write("g", "");
  const wire::Restore file = identity_of("f");
  EXPECT_EQ(restore(file, "g"), ESTALE);
  EXPECT_EQ(restore(file, "g", root), ESTALE);
  EXPECT_EQ(restore(file, "none"), ESTALE);
  EXPECT_EQ(restore(file, "none", root), ESTALE);
  EXPECT_EQ(restore(file, "f/below"), ESTALE);
  EXPECT_EQ(restore(file, "/"), ESTALE);
  EXPECT_EQ(restore(file, std::string(256, 'n')), ESTALE);
  wire::Restore other = file;
  ++other.device;
  EXPECT_EQ(restore(other, "f"), ESTALE);
  other = file;
  ++other.birth.nanoseconds;
  EXPECT_EQ(restore(other, "f"), ESTALE);
  // Replaced, as an editor does.
  tree.write("new", "other");
  std::filesystem::rename(tree.path("new"), tree.path("f"));
  EXPECT_EQ(restore(file, "f"), ESTALE);
  EXPECT_EQ(restore(file, "f", root), ESTALE);
}

TEST_F(RestoreTest, ASymlinkIsItselfOrWhatItLeadsTo) {
  std::filesystem::create_directory(tree.path("data"));
  std::filesystem::create_symlink("data", tree.path("link"));
  EXPECT_EQ(restore(identity_of("link"), "link"), 0);
  EXPECT_EQ(service.must(wire::ReadLink{last, {}, {}, 0}).target, "data");
  EXPECT_EQ(restore(identity_of("data"), "link"), 0) << "as it was attached";
  EXPECT_EQ(restore(identity_of("data"), "link", root), ESTALE) << "an entry is not followed";
  std::filesystem::create_symlink("loop", tree.path("loop"));
  EXPECT_EQ(restore(identity_of("data"), "loop"), ESTALE);
}

TEST_F(RestoreTest, NothingOutsideIsReached) {
  std::ofstream(tree.outside("secret")) << "secret";
  struct stat secret {};
  ASSERT_EQ(::stat(tree.outside("secret").c_str(), &secret), 0);
  const Result<Stat> known = stat_entry(AT_FDCWD, tree.outside("secret"));
  ASSERT_TRUE(known.ok());
  const wire::Restore it{{}, {}, {}, known->attributes.device, known->attributes.inode, known->attributes.birth};
  std::filesystem::create_symlink(tree.outside("secret"), tree.path("absolute"));
  std::filesystem::create_symlink("../secret", tree.path("up"));
  for (const char* path : {"../secret", "/../secret", "absolute", "up"}) EXPECT_EQ(restore(it, path), ESTALE) << path;
  EXPECT_EQ(restore(it, tree.outside("secret")), ESTALE);
  EXPECT_EQ(restore(it, "../secret", root), EINVAL);
  EXPECT_EQ(restore(it, "..", root), EINVAL);
}

TEST_F(RestoreTest, TheParentIsUsedAsAnyObject) {
  tree.write("f", "");
  const wire::Restore file = identity_of("f");
  EXPECT_EQ(restore(file, "f", wire::ObjectId(987654)), ESTALE);
  EXPECT_EQ(restore(file, "f", service.lookup(root, "f")), ENOTDIR);
  // Sent without waiting: the parent is bound first, and its failure is the child's.
  std::filesystem::create_directory(tree.path("d"));
  tree.write("d/g", "");
  wire::Restore directory = identity_of("d");
  directory.object = service.new_object();
  directory.path = "d";
  wire::Restore child{service.new_object(), directory.object, "g", 0, 0, {}};
  const auto first = service.send(directory);
  const auto second = service.send(child);
  EXPECT_TRUE(service.wait(first).ok());
  EXPECT_EQ(service.wait(second).error().os_errno, ESTALE) << "of another identity";
  directory.object = service.new_object();
  directory.path = "elsewhere";
  const auto failing = service.send(directory);
  const auto behind = service.send(wire::Lookup{directory.object, "g", service.new_object()});
  EXPECT_EQ(service.wait(failing).error().os_errno, ESTALE);
  EXPECT_EQ(service.wait(behind).error().os_errno, ESTALE);
  // Given back, the id can be tried again.
  service.must(wire::Release{{directory.object}});
  directory.path = "d";
  EXPECT_EQ(service.error_of(directory), 0);
  EXPECT_EQ(service.error_of(directory), -1) << "in use";
}

TEST_F(RestoreTest, WhatCannotBeLookedAtIsNotStale) {
  if (!service.root().identities().can_switch()) GTEST_SKIP() << "needs another user";
  std::filesystem::create_directory(tree.path("closed"));
  tree.write("closed/f", "");
  const wire::Attributes known =
      service.must(wire::Lookup{service.lookup(root, "closed"), "f", service.new_object()}).attributes;
  ASSERT_EQ(::chmod(tree.path("closed").c_str(), 0700), 0);
  const wire::Restore request{service.new_object(), {}, "closed/f", known.device, known.inode, known.birth};
  EXPECT_EQ(service.error_of(request, wire::Caller{1000, 1000, {}, 0}), EACCES);
}

}  // namespace
}  // namespace sandbar::agent
