// SPDX-License-Identifier: Apache-2.0
// Ways out of the root: none.
#include <atomic>
#include <thread>

#include "unit/agent/files_fixture.h"

namespace sandbar::agent {
namespace {

/// Changes the tree again and again while a test asks.
template <class Step>
class Racer {
 public:
  explicit Racer(Step step)
      : thread_([this, step] {
          while (!stop_) step();
        }) {}
  ~Racer() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr int kRounds = 1500;

class FilesAttackTest : public FilesTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(tree.outside("outside"));
    std::ofstream(tree.outside("outside/secret")) << "OUTSIDE";
    std::filesystem::create_directory(tree.path("dir"));
    tree.write("dir/secret", "inside");
    root = service.attach();
  }
  /// Whatever can be reached by `object` belongs to the root.
  void expect_inside(wire::ObjectId object) {
    const wire::HandleId handle = service.new_handle();
    if (service.error_of(wire::Open{object, handle, O_RDONLY}) != 0) return;
    const Result<FileAnswer> answer = service.ask(wire::Read{handle, 0, 100});
    EXPECT_TRUE(!answer || answer->body == "inside") << answer->body;
    service.must(wire::Close{handle});
  }
  void expect_outside_untouched() {
    std::ifstream in(tree.outside("outside/secret"));
    std::string content;
    in >> content;
    EXPECT_EQ("OUTSIDE", content);
    std::size_t entries = 0;
    for (const auto& entry : std::filesystem::directory_iterator(tree.outside("outside")))
      entries += entry.exists() ? 1 : 0;
    EXPECT_EQ(1U, entries);
  }

  wire::ObjectId root;
};

TEST_F(FilesAttackTest, LinksThatLeadOut) {
  const std::string outside = tree.outside("outside");
  std::filesystem::create_symlink(outside, tree.path("absolute"));
  std::filesystem::create_symlink("../outside", tree.path("climbing"));
  std::filesystem::create_symlink(".", tree.path("d"));
  std::filesystem::create_symlink("d/../../outside", tree.path("l"));
  std::filesystem::create_symlink("dir/../../outside/secret", tree.path("dir/m"));
  for (const std::string path : {"absolute/secret", "climbing/secret", "l/secret", "dir/m", "dir/../../outside/secret",
                                 "/../outside/secret", "d/d/d/../../outside/secret"})
    EXPECT_EQ(ENOENT, service.error_of(wire::Attach{service.new_object(), path})) << path;
  EXPECT_EQ(ENOENT, service.error_of(wire::Attach{service.new_object(), outside + "/secret"}));
  // By names, links are ends.
  for (const char* name : {"absolute", "climbing", "l", "d"}) {
    const wire::ObjectId link = service.lookup(root, name);
    EXPECT_EQ(ENOTDIR, service.error_of(wire::Lookup{link, "secret", service.new_object()})) << name;
    EXPECT_EQ(ENOTDIR,
              service.error_of(wire::Create{link, "new", 0644, O_RDWR, service.new_object(), service.new_handle()}));
    EXPECT_EQ(ENOTDIR, service.error_of(wire::Unlink{link, "secret"}));
    EXPECT_EQ(ENOTDIR, service.error_of(wire::Rename{link, "secret", root, "stolen", 0}));
    EXPECT_EQ(ELOOP, service.error_of(wire::Open{link, service.new_handle(), O_RDONLY | O_DIRECTORY}));
  }
  expect_outside_untouched();
}

TEST_F(FilesAttackTest, NamesThatAreSeveral) {
  for (const char* name : {"../outside", "dir/secret", "/etc", "..", "dir/"}) {
    EXPECT_EQ(EINVAL, service.error_of(wire::Lookup{root, name, service.new_object()})) << name;
    EXPECT_EQ(EINVAL,
              service.error_of(wire::Create{root, name, 0644, O_RDWR, service.new_object(), service.new_handle()}));
    EXPECT_EQ(EINVAL, service.error_of(wire::MakeDirectory{root, name, 0755, service.new_object()}));
    EXPECT_EQ(EINVAL, service.error_of(wire::MakeSymlink{root, name, "x", service.new_object()}));
    EXPECT_EQ(EINVAL, service.error_of(wire::MakeNode{root, name, 0644, 0, service.new_object()}));
    EXPECT_EQ(EINVAL, service.error_of(wire::MakeLink{service.lookup(root, "dir"), root, name}));
    EXPECT_EQ(EINVAL, service.error_of(wire::Unlink{root, name}));
    EXPECT_EQ(EINVAL, service.error_of(wire::RemoveDirectory{root, name}));
    EXPECT_EQ(EINVAL, service.error_of(wire::Rename{root, name, root, "x", 0}));
    EXPECT_EQ(EINVAL, service.error_of(wire::Rename{root, "dir", root, name, 0}));
  }
  expect_outside_untouched();
}

TEST_F(FilesAttackTest, ADirectoryThatIsASymlinkEverySecondTime) {
  std::filesystem::create_symlink(tree.outside("outside"), tree.path("link"));
  const std::string a = tree.path("dir");
  const std::string b = tree.path("link");
  const Racer racer([&] { ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE); });
  int reached = 0;
  for (int i = 0; i < kRounds; ++i) {
    const wire::ObjectId by_path = service.new_object();
    if (service.error_of(wire::Attach{by_path, "dir/secret"}) == 0) {
      ++reached;
      expect_inside(by_path);
    }
    const wire::ObjectId dir = service.new_object();
    const wire::ObjectId file = service.new_object();
    if (service.error_of(wire::Lookup{root, "dir", dir}) == 0 &&
        service.error_of(wire::Lookup{dir, "secret", file}) == 0)
      expect_inside(file);
    const wire::HandleId made = service.new_handle();
    if (service.error_of(wire::Create{dir, "made", 0644, O_RDWR, service.new_object(), made}) == 0)
      service.must(wire::Close{made});
    service.error_of(wire::Rename{dir, "made", dir, "moved", 0});
    service.error_of(wire::MakeLink{file, dir, "linked"});
    service.error_of(wire::Unlink{dir, "moved"});
    service.error_of(wire::Unlink{dir, "linked"});
  }
  EXPECT_GT(reached, 0);
  expect_outside_untouched();
}

TEST_F(FilesAttackTest, AFileThatIsASymlinkEverySecondTime) {
  tree.write("file", "inside");
  std::filesystem::create_symlink(tree.outside("outside/secret"), tree.path("link"));
  const std::string a = tree.path("file");
  const std::string b = tree.path("link");
  const Racer racer([&] { ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE); });
  int opened = 0;
  for (int i = 0; i < kRounds; ++i) {
    const wire::HandleId handle = service.new_handle();
    const wire::ObjectId object = service.new_object();
    const int error = service.error_of(wire::Create{root, "file", 0644, O_RDWR, object, handle});
    EXPECT_TRUE(error == 0 || error == ELOOP) << error;
    if (error != 0) continue;
    ++opened;
    EXPECT_EQ("inside", service.read(handle));
    wire::SetAttributes set;
    set.object = object;
    set.mode = 0600;
    service.error_of(set);
    service.must(wire::Close{handle});
  }
  EXPECT_GT(opened, 0);
  expect_outside_untouched();
  EXPECT_NE(std::filesystem::perms(0600), std::filesystem::status(tree.outside("outside/secret")).permissions());
}

// ".." of a directory that is moved up while the kernel walks: openat2 notices.
TEST_F(FilesAttackTest, ADirectoryThatMovesUnderDotDot) {
  std::filesystem::create_directories(tree.path("a/b/c/d"));
  const std::string low = tree.path("a/b/c");
  const std::string high = tree.path("c");
  const Racer racer([&] {
    ::rename(low.c_str(), high.c_str());
    ::rename(high.c_str(), low.c_str());
  });
  struct stat base {};
  ASSERT_EQ(0, ::stat(tree.outside("").c_str(), &base));
  for (int i = 0; i < kRounds; ++i) {
    const wire::ObjectId object = service.new_object();
    EXPECT_NE(0, service.error_of(wire::Attach{object, "a/b/c/d/../../../../../outside/secret"}));
    const Result<FileAnswer> top = service.ask(wire::Attach{service.new_object(), "a/b/c/d/../../../../.."});
    if (!top) continue;
    EXPECT_NE(base.st_ino, std::get<wire::AttributesReply>(top->reply.body).attributes.inode);
  }
  expect_outside_untouched();
}

// A listed entry that becomes a symlink before it is used.
TEST_F(FilesAttackTest, ListedEntriesThatChange) {
  const wire::HandleId handle = service.open(root, O_RDONLY | O_DIRECTORY);
  wire::ObjectId listed;
  for (const wire::DirEntry& entry : service.list(handle, 0, 65536, wire::ObjectId(9000)))
    if (entry.name == "dir") listed = wire::ObjectId(9000 + entry.object_offset);
  std::filesystem::rename(tree.path("dir"), tree.path("away"));
  std::filesystem::create_symlink(tree.outside("outside"), tree.path("dir"));
  EXPECT_EQ(ESTALE, service.error_of(wire::Lookup{listed, "secret", service.new_object()}));
  EXPECT_EQ(ESTALE, service.error_of(wire::Open{listed, service.new_handle(), O_RDONLY}));
  expect_outside_untouched();
}

}  // namespace
}  // namespace sandbar::agent
