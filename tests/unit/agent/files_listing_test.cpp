// SPDX-License-Identifier: Apache-2.0
// Listings, extended attributes, and what is done to a file's data beside reading and writing it.
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <set>

#include "unit/agent/files_fixture.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

TEST_F(FilesTest, ListsInPagesFromAnyCookie) {
  std::set<std::string> expected{".", ".."};
  for (int i = 0; i < 500; ++i) {
    const std::string name = "entry-" + std::to_string(i);
    tree.write(name, "");
    expected.insert(name);
  }
  const wire::ObjectId root = service.attach();
  const wire::HandleId handle = service.open(root, O_RDONLY | O_DIRECTORY);
  std::vector<wire::DirEntry> all;
  for (std::uint64_t cookie = 0;;) {
    const std::vector<wire::DirEntry> page = service.list(handle, cookie, 1000);
    if (page.empty()) break;
    all.insert(all.end(), page.begin(), page.end());
    cookie = page.back().cookie;
  }
  std::set<std::string> names;
  for (const wire::DirEntry& entry : all) names.insert(entry.name);
  EXPECT_EQ(expected, names);
  EXPECT_EQ(expected.size(), all.size());
  // From the middle, in another order, and again from the start.
  const std::vector<wire::DirEntry> rest = service.list(handle, all[250].cookie, 1 << 20);
  ASSERT_EQ(all.size() - 251, rest.size());
  EXPECT_EQ(all[251].name, rest.front().name);
  EXPECT_EQ(all.back().name, rest.back().name);
  EXPECT_EQ(all.size(), service.list(handle, 0, 1 << 20).size());
  // One entry at least, however little room there is.
  EXPECT_EQ(1U, service.list(handle, 0, 1).size());
  // What is made later is seen from the start on.
  tree.write("later", "");
  EXPECT_EQ(all.size() + 1, service.list(handle, 0, 1 << 20).size());
}

TEST_F(FilesTest, ListsWithAttributesAndBindsTheEntries) {
  tree.write("file", "12345");
  std::filesystem::create_directory(tree.path("dir"));
  std::filesystem::create_symlink("x", tree.path("link"));
  ::setxattr(tree.path("file").c_str(), "user.x", "1", 1, 0);
  const wire::ObjectId root = service.attach();
  const wire::HandleId handle = service.open(root, O_RDONLY | O_DIRECTORY);
  const std::vector<wire::DirEntry> entries = service.list(handle, 0, 65536, wire::ObjectId(1000));
  ASSERT_EQ(5U, entries.size());
  std::set<std::uint32_t> offsets;
  for (const wire::DirEntry& entry : entries) {
    if (entry.name == "." || entry.name == "..") {
      EXPECT_FALSE(entry.attributes);
      continue;
    }
    ASSERT_TRUE(entry.attributes) << entry.name;
    EXPECT_EQ(entry.inode, entry.attributes->inode);
    EXPECT_EQ(entry.type, entry.attributes->mode & S_IFMT);
    EXPECT_EQ(entry.name == "file", entry.attributes->has_xattrs);
    offsets.insert(entry.object_offset);
    const wire::ObjectId bound(1000 + entry.object_offset);
    EXPECT_EQ(*entry.attributes, service.must(wire::GetAttributes{bound, {}}).attributes);
  }
  EXPECT_EQ((std::set<std::uint32_t>{0, 1, 2}), offsets);
  EXPECT_EQ(EINVAL, service.error_of(wire::List{handle, 0, 1000, true, {}}));
  EXPECT_EQ(-1, service.error_of(wire::List{handle, 0, 65536, true, wire::ObjectId(1001)})) << "ids are in use";
}

TEST_F(FilesTest, ListErrors) {
  std::filesystem::create_directory(tree.path("dir"));
  tree.write("file", "");
  const wire::ObjectId root = service.attach();
  const wire::HandleId file = service.open(service.lookup(root, "file"));
  EXPECT_EQ(ENOTDIR, service.error_of(wire::List{file, 0, 1000, false, {}}));
  const wire::HandleId dir = service.open(service.lookup(root, "dir"), O_RDONLY | O_DIRECTORY);
  service.must(wire::RemoveDirectory{root, "dir"});
  EXPECT_EQ(ENOENT, service.error_of(wire::List{dir, 0, 1000, false, {}}));
  EXPECT_EQ(EISDIR, service.error_of(wire::Read{dir, 0, 10}));
}

TEST_F(FilesTest, ExtendedAttributes) {
  tree.write("file", "x");
  const wire::ObjectId root = service.attach();
  const wire::ObjectId file = service.lookup(root, "file");
  EXPECT_EQ(ENODATA, service.error_of(wire::GetXattr{file, "user.a"}));
  service.must(wire::SetXattr{file, "user.a", 0}, base::Bytes("v\0w", 3));
  service.must(wire::SetXattr{file, "user.empty", XATTR_CREATE});
  base::Bytes body;
  service.must(wire::GetXattr{file, "user.a"}, {}, &body);
  EXPECT_EQ(base::Bytes("v\0w", 3), body);
  service.must(wire::GetXattr{file, "user.empty"}, {}, &body);
  EXPECT_EQ("", body);
  service.must(wire::ListXattr{file}, {}, &body);
  EXPECT_NE(base::Bytes::npos, body.find(base::Bytes("user.a\0", 7)));
  EXPECT_TRUE(service.must(wire::GetAttributes{file, {}}).attributes.has_xattrs);
  EXPECT_EQ(EEXIST, service.error_of(wire::SetXattr{file, "user.a", XATTR_CREATE}, {}, "x"));
  EXPECT_EQ(ENODATA, service.error_of(wire::SetXattr{file, "user.b", XATTR_REPLACE}, {}, "x"));
  EXPECT_EQ(EOPNOTSUPP, service.error_of(wire::SetXattr{file, "nonsense", 0}, {}, "x"));
  EXPECT_EQ(EINVAL, service.error_of(wire::SetXattr{file, base::Bytes("user.a\0b", 8), 0}, {}, "x"));
  service.must(wire::RemoveXattr{file, "user.a"});
  service.must(wire::RemoveXattr{file, "user.empty"});
  EXPECT_EQ(ENODATA, service.error_of(wire::RemoveXattr{file, "user.a"}));
  EXPECT_FALSE(service.must(wire::GetAttributes{file, {}}).attributes.has_xattrs);
  // Users cannot give symlinks any; the link itself is asked, not what it names.
  std::filesystem::create_symlink("file", tree.path("link"));
  const wire::ObjectId link = service.lookup(root, "link");
  EXPECT_EQ(EPERM, service.error_of(wire::SetXattr{link, "user.a", 0}, {}, "x"));
  if (::geteuid() == 0) {
    service.must(wire::SetXattr{link, "trusted.t", 0}, "x");
    EXPECT_EQ(ENODATA, service.error_of(wire::GetXattr{file, "trusted.t"}));
  }
}

TEST_F(FilesTest, FileSystemFigures) {
  const wire::StatFs::Reply figures = service.must(wire::StatFs{service.attach()});
  EXPECT_GT(figures.block_size, 0U);
  EXPECT_GT(figures.blocks, 0U);
  EXPECT_EQ(255U, figures.name_max);
}

TEST_F(FilesTest, SyncsFilesAndDirectories) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "file");
  service.must(wire::Fsync{handle, false});
  service.must(wire::Fsync{handle, true});
  service.must(wire::Fsync{service.open(root, O_RDONLY | O_DIRECTORY), false});
}

TEST_F(FilesTest, AllocatesAndSeeks) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "file");
  service.must(wire::Allocate{handle, 0, 0, 1 << 20});
  EXPECT_EQ(1 << 20, tree.stat("file").st_size);
  EXPECT_EQ(EINVAL, service.error_of(wire::Allocate{handle, 0, 0, 0}));
  EXPECT_EQ(EFBIG, service.error_of(wire::Allocate{handle, 0, ~0ULL >> 1U, 10}));
  service.must(wire::Write{handle, 8 << 20}, "data");
  EXPECT_EQ(8U << 20U, service.must(wire::Seek{handle, 2 << 20, SEEK_DATA}).offset);
  EXPECT_EQ((8U << 20U) + 4, service.must(wire::Seek{handle, 8 << 20, SEEK_HOLE}).offset);
  EXPECT_EQ(ENXIO, service.error_of(wire::Seek{handle, 9 << 20, SEEK_DATA}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Seek{handle, 0, SEEK_SET}));
}

TEST_F(FilesTest, CopiesRanges) {
  const wire::ObjectId root = service.attach();
  const auto [a, from] = service.create(root, "from");
  const auto [b, to] = service.create(root, "to");
  base::Bytes data;
  for (int i = 0; i < 100'000; ++i) data += std::to_string(i);
  service.must(wire::Write{from, 0}, data);
  EXPECT_EQ(data.size() - 10, service.must(wire::CopyRange{from, 10, to, 5, data.size() * 2}).count);
  EXPECT_EQ(data.substr(10), service.read(to, 5, wire::kMaxBody));
  EXPECT_EQ(0U, service.must(wire::CopyRange{from, data.size(), to, 0, 10}).count);
  EXPECT_EQ(EINVAL, service.error_of(wire::CopyRange{from, 0, from, 10, 100})) << "they overlap";
  const wire::HandleId reader = service.open(b, O_RDONLY);
  EXPECT_EQ(EBADF, service.error_of(wire::CopyRange{from, 0, reader, 0, 10}));
  // Between file systems, and from files that only read(2) knows.
  Service whole("/");
  const wire::ObjectId top = whole.attach();
  const wire::ObjectId proc = whole.lookup(top, "proc");
  const wire::HandleId version = whole.open(whole.lookup(proc, "version"));
  const wire::ObjectId dir = whole.attach(tree.root());
  const auto [c, target] = whole.create(dir, "version");
  const std::uint64_t copied = whole.must(wire::CopyRange{version, 0, target, 0, 4096}).count;
  EXPECT_GT(copied, 0U);
  EXPECT_EQ(whole.read(version), whole.read(target));
}

}  // namespace
}  // namespace sandbar::agent
