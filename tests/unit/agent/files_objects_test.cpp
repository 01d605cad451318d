// SPDX-License-Identifier: Apache-2.0
// Objects that are found again: after their descriptors were dropped, after renames, and never the wrong one.
#include "agent/objects.h"
#include "unit/agent/files_fixture.h"

namespace sandbar::agent {
namespace {

RootOptions bounded(std::size_t descriptors, bool file_handles) {
  RootOptions options;
  options.max_cached_descriptors = descriptors;
  options.file_handles = file_handles;
  return options;
}

/// With file handles (where this user may use them) and without.
class ObjectsTest : public testing::TestWithParam<bool> {
 protected:
  /// Uses other objects until nothing else is in the cache.
  void evict_all() {
    for (int i = 0; i < 6; ++i) service.must(wire::GetAttributes{service.attach("/other/" + std::to_string(i)), {}});
  }
  void SetUp() override {
    std::filesystem::create_directory(tree.path("other"));
    for (int i = 0; i < 6; ++i) tree.write("other/" + std::to_string(i), "");
    root = service.attach();
  }
  int size_to_zero(wire::ObjectId object) {
    wire::SetAttributes set;
    set.object = object;
    set.size = 0;
    return service.error_of(set);
  }

  TempTree tree;
  Service service{tree.root(), bounded(4, GetParam())};
  wire::ObjectId root;
};

INSTANTIATE_TEST_SUITE_P(Ways, ObjectsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "FileHandles" : "Places"; });

TEST_P(ObjectsTest, MoreObjectsThanDescriptors) {
  std::vector<wire::ObjectId> objects;
  for (int i = 0; i < 50; ++i) {
    tree.write("f" + std::to_string(i), std::string(static_cast<std::size_t>(i), 'x'));
    objects.push_back(service.lookup(root, "f" + std::to_string(i)));
    EXPECT_LE(service.root().objects().cached(), 4U);
  }
  for (std::size_t i = 0; i < objects.size(); ++i)
    EXPECT_EQ(i, service.must(wire::GetAttributes{objects[i], {}}).attributes.size);
  EXPECT_EQ(4U, service.root().objects().cached());
  service.must(wire::Release{objects});
  EXPECT_LE(service.root().objects().cached(), 4U);
}

TEST_P(ObjectsTest, RenamedThroughUs) {
  std::filesystem::create_directories(tree.path("a/b"));
  std::filesystem::create_directory(tree.path("c"));
  tree.write("a/b/file", "data");
  const wire::ObjectId a = service.lookup(root, "a");
  const wire::ObjectId b = service.lookup(a, "b");
  const wire::ObjectId file = service.lookup(b, "file");
  const wire::ObjectId c = service.lookup(root, "c");
  evict_all();
  service.must(wire::Rename{a, "b", c, "moved", 0});
  service.must(wire::Rename{b, "file", root, "top", 0});
  evict_all();
  EXPECT_EQ("data", service.read(service.open(file)));
  EXPECT_EQ(tree.stat("c/moved").st_ino, service.must(wire::GetAttributes{b, {}}).attributes.inode);
  service.must(wire::Rename{root, "a", root, "c", RENAME_EXCHANGE});
  evict_all();
  EXPECT_EQ(tree.stat("a").st_ino, service.must(wire::GetAttributes{c, {}}).attributes.inode);
  EXPECT_EQ(tree.stat("a/moved").st_ino, service.must(wire::GetAttributes{b, {}}).attributes.inode);
}

TEST_P(ObjectsTest, RenamedByAnother) {
  tree.write("file", "data");
  const wire::ObjectId file = service.lookup(root, "file");
  evict_all();
  std::filesystem::rename(tree.path("file"), tree.path("elsewhere"));
  const bool found = GetParam() && service.root().objects().uses_file_handles();
  EXPECT_EQ(found ? 0 : ESTALE, service.error_of(wire::GetAttributes{file, {}}));
  // Looked up where it is now, all its ids are well again.
  service.lookup(root, "elsewhere");
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{file, {}}));
}

TEST_P(ObjectsTest, ReplacedByAnotherIsStaleAndUnharmed) {
  tree.write("file", "old");
  const wire::ObjectId file = service.lookup(root, "file");
  evict_all();
  tree.write("new", "precious");
  std::filesystem::rename(tree.path("new"), tree.path("file"));
  EXPECT_EQ(ESTALE, size_to_zero(file));
  EXPECT_EQ("precious", tree.read("file"));
  std::filesystem::remove(tree.path("file"));
  EXPECT_EQ(ESTALE, size_to_zero(file));
  std::filesystem::create_directory(tree.path("file"));
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{file, {}}));
}

// File systems give inode numbers anew at once: the birth time tells.
TEST_P(ObjectsTest, ReusedInodeNumbersAreNoticed) {
  tree.write("file", "old");
  const wire::ObjectId file = service.lookup(root, "file");
  evict_all();
  for (int i = 0; i < 20; ++i) {
    std::filesystem::remove(tree.path("file"));
    tree.write("file", "precious");
    EXPECT_EQ(ESTALE, size_to_zero(file));
  }
  EXPECT_EQ("precious", tree.read("file"));
}

TEST_P(ObjectsTest, ListedEntriesAreOpenedWhenTheyAreUsed) {
  std::filesystem::create_directory(tree.path("dir"));
  for (const char* name : {"moved", "replaced", "removed", "ours", "stays"})
    tree.write("dir/" + std::string(name), name);
  const wire::ObjectId dir = service.lookup(root, "dir");
  const wire::HandleId handle = service.open(dir, O_RDONLY | O_DIRECTORY);
  const std::size_t before = service.root().objects().cached();
  std::map<std::string, wire::ObjectId> ids;
  for (const wire::DirEntry& entry : service.list(handle, 0, 65536, wire::ObjectId(5000)))
    ids[entry.name] = wire::ObjectId(5000 + entry.object_offset);
  EXPECT_EQ(before, service.root().objects().cached());
  std::filesystem::rename(tree.path("dir/moved"), tree.path("away"));
  tree.write("precious", "precious");
  std::filesystem::rename(tree.path("precious"), tree.path("dir/replaced"));
  std::filesystem::remove(tree.path("dir/removed"));
  service.must(wire::Rename{dir, "ours", root, "ours", 0});
  EXPECT_EQ(ESTALE, size_to_zero(ids["moved"]));
  EXPECT_EQ(ESTALE, size_to_zero(ids["replaced"]));
  EXPECT_EQ(ESTALE, size_to_zero(ids["removed"]));
  EXPECT_EQ("moved", tree.read("away"));
  EXPECT_EQ("precious", tree.read("dir/replaced"));
  EXPECT_EQ("ours", service.read(service.open(ids["ours"])));
  EXPECT_EQ("stays", service.read(service.open(ids["stays"])));
}

TEST_P(ObjectsTest, OpenUnlinkedFilesAreFoundThroughTheirHandles) {
  const auto [object, handle] = service.create(root, "file");
  const wire::HandleId second = service.open(object);
  service.must(wire::Unlink{root, "file"});
  evict_all();
  EXPECT_EQ(0U, service.must(wire::GetAttributes{object, {}}).attributes.links);
  service.must(wire::Close{second});
  evict_all();
  EXPECT_EQ(0, size_to_zero(object));
  service.must(wire::Close{handle});
  evict_all();
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{object, {}}));
}

TEST_P(ObjectsTest, HardLinksAreOneObject) {
  tree.write("one", "data");
  std::filesystem::create_hard_link(tree.path("one"), tree.path("two"));
  const wire::ObjectId one = service.lookup(root, "one");
  const wire::ObjectId two = service.lookup(root, "two");
  service.must(wire::Unlink{root, "one"});
  evict_all();
  EXPECT_EQ(1U, service.must(wire::GetAttributes{one, {}}).attributes.links);
  EXPECT_EQ(1U, service.must(wire::GetAttributes{two, {}}).attributes.links);
}

TEST_P(ObjectsTest, PathsBeyondPathMax) {
  const std::string name(200, 'n');
  std::vector<wire::ObjectId> dirs{root};
  for (int i = 0; i < 40; ++i) {
    const wire::ObjectId id = service.new_object();
    service.must(wire::MakeDirectory{dirs.back(), name, 0755, id});
    dirs.push_back(id);
  }
  const auto [file, handle] = service.create(dirs.back(), "file");
  service.must(wire::Write{handle, 0}, "deep");
  service.must(wire::Close{handle});
  evict_all();
  EXPECT_EQ("deep", service.read(service.open(file)));
  service.must(wire::Rename{dirs.back(), "file", root, "top", 0});
  EXPECT_EQ("deep", tree.read("top"));
}

// Neither finding the deepest again nor letting all go may use the stack for each level.
TEST_P(ObjectsTest, ThousandsOfLevels) {
  constexpr int kLevels = 2000;
  wire::ObjectId last = root;
  std::vector<wire::ObjectId> upper;
  for (int i = 0; i < kLevels; ++i) {
    const wire::ObjectId id = service.new_object();
    service.must(wire::MakeDirectory{last, "d", 0755, id});
    upper.push_back(last);
    last = id;
  }
  service.must(wire::Release{{upper.begin() + 1, upper.end()}});
  evict_all();
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{last, {}}));
  service.must(wire::Release{{last}});
  // rm(1) takes time that grows with the square of the depth.
  for (int i = 1; i < kLevels; ++i) {
    std::filesystem::rename(tree.path("d/d"), tree.path("next"));
    std::filesystem::remove(tree.path("d"));
    std::filesystem::rename(tree.path("next"), tree.path("d"));
  }
}

// What was above is below now: old places must not lead in a ring.
TEST_P(ObjectsTest, DirectoriesThatChangePlaces) {
  std::filesystem::create_directories(tree.path("a/b"));
  tree.write("a/b/file", "data");
  const wire::ObjectId a = service.lookup(root, "a");
  const wire::ObjectId b = service.lookup(a, "b");
  const wire::ObjectId file = service.lookup(b, "file");
  std::filesystem::rename(tree.path("a/b"), tree.path("b"));
  std::filesystem::rename(tree.path("a"), tree.path("b/a"));
  service.lookup(b, "a");
  evict_all();
  const bool by_handle = GetParam() && service.root().objects().uses_file_handles();
  EXPECT_EQ(by_handle ? 0 : ESTALE, service.error_of(wire::GetAttributes{file, {}}));
  EXPECT_EQ(by_handle ? 0 : ESTALE, service.error_of(wire::GetAttributes{a, {}}));
  service.lookup(root, "b");
  evict_all();
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{a, {}}));
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{file, {}}));
}

TEST_P(ObjectsTest, AttachedObjectsAreFoundByTheirPath) {
  std::filesystem::create_directories(tree.path("x/y"));
  const wire::ObjectId attached = service.attach("/x/y");
  evict_all();
  EXPECT_EQ(tree.stat("x/y").st_ino, service.must(wire::GetAttributes{attached, {}}).attributes.inode);
  evict_all();
  std::filesystem::rename(tree.path("x"), tree.path("z"));
  const bool by_handle = GetParam() && service.root().objects().uses_file_handles();
  EXPECT_EQ(by_handle ? 0 : ESTALE, service.error_of(wire::GetAttributes{attached, {}}));
}

}  // namespace
}  // namespace sandbar::agent
