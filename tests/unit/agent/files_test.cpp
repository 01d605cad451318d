// SPDX-License-Identifier: Apache-2.0
// Each request of the file service: what it does, and the errors that a client meets.
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <set>

#include "unit/agent/files_fixture.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

TEST_F(FilesTest, AttachResolvesInsideTheRoot) {
  std::filesystem::create_directories(tree.path("a/b"));
  std::filesystem::create_symlink("/a/b", tree.path("absolute"));
  std::filesystem::create_symlink("../../../../a/b", tree.path("climbing"));
  const std::uint64_t inode = tree.stat("a/b").st_ino;
  for (const char* path : {"a/b", "/a/b", "/absolute", "/climbing", "../../a/b", "/../a/./b/"})
    EXPECT_EQ(inode, service.must(wire::Attach{service.new_object(), path}).attributes.inode) << path;
  EXPECT_EQ(tree.stat("").st_ino, service.must(wire::Attach{service.new_object(), "/.."}).attributes.inode);
  EXPECT_EQ(tree.stat("").st_ino, service.must(wire::Attach{service.new_object(), ""}).attributes.inode);
  EXPECT_EQ(ENOENT, service.error_of(wire::Attach{service.new_object(), "/missing"}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Attach{service.new_object(), base::Bytes("a\0b", 3)}));
}

TEST_F(FilesTest, AttachRefusesMagicLinks) {
  Service whole("/");
  EXPECT_EQ(ELOOP, whole.error_of(wire::Attach{whole.new_object(), "/proc/self/root"}));
  EXPECT_EQ(ELOOP, whole.error_of(wire::Attach{whole.new_object(), "/proc/self/cwd/x"}));
}

TEST_F(FilesTest, LookupTellsAllAttributes) {
  tree.write("file", "12345");
  ::chmod(tree.path("file").c_str(), 04751);
  const wire::ObjectId root = service.attach();
  const wire::Attributes attributes = service.must(wire::Lookup{root, "file", service.new_object()}).attributes;
  struct statx expected {};
  ASSERT_EQ(0, ::statx(AT_FDCWD, tree.path("file").c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &expected));
  EXPECT_EQ(tree.stat("file").st_dev, attributes.device);
  EXPECT_EQ(expected.stx_ino, attributes.inode);
  EXPECT_EQ(expected.stx_btime.tv_sec, attributes.birth.seconds);
  EXPECT_EQ(expected.stx_btime.tv_nsec, attributes.birth.nanoseconds);
  EXPECT_EQ(0104751U, attributes.mode);
  EXPECT_EQ(1U, attributes.links);
  EXPECT_EQ(::geteuid(), attributes.uid);
  EXPECT_EQ(::getegid(), attributes.gid);
  EXPECT_EQ(5U, attributes.size);
  EXPECT_EQ(expected.stx_blocks, attributes.blocks);
  EXPECT_EQ(expected.stx_blksize, attributes.block_size);
  EXPECT_EQ(expected.stx_mtime.tv_nsec, attributes.modified.nanoseconds);
  EXPECT_EQ(expected.stx_ctime.tv_sec, attributes.changed.seconds);
  EXPECT_FALSE(attributes.has_xattrs);
}

TEST_F(FilesTest, LookupRefusesWhatIsNoName) {
  const wire::ObjectId root = service.attach();
  tree.write("file", "");
  for (const base::Bytes& name : {base::Bytes("."), base::Bytes(".."), base::Bytes(""), base::Bytes("a/b"),
                                  base::Bytes("/"), base::Bytes("f\0", 2)})
    EXPECT_EQ(EINVAL, service.error_of(wire::Lookup{root, name, service.new_object()}));
  EXPECT_EQ(ENOENT, service.error_of(wire::Lookup{root, base::Bytes(255, 'n'), service.new_object()}));
  EXPECT_EQ(ENAMETOOLONG, service.error_of(wire::Lookup{root, base::Bytes(256, 'n'), service.new_object()}));
  EXPECT_EQ(ENOENT, service.error_of(wire::Lookup{root, "missing", service.new_object()}));
  const wire::ObjectId file = service.lookup(root, "file");
  EXPECT_EQ(ENOTDIR, service.error_of(wire::Lookup{file, "below", service.new_object()}));
}

TEST_F(FilesTest, SymlinksAreObjectsAndNotFollowed) {
  const wire::ObjectId root = service.attach();
  const wire::ObjectId link = service.new_object();
  const std::string target = "../../etc/passwd";
  EXPECT_TRUE(S_ISLNK(service.must(wire::MakeSymlink{root, "link", target, link}).attributes.mode));
  EXPECT_EQ(target, service.must(wire::ReadLink{link, {}, {}, 0}).target);
  EXPECT_EQ(ELOOP, service.error_of(wire::Open{link, service.new_handle(), O_RDONLY}));
  EXPECT_EQ(ENOTDIR, service.error_of(wire::Lookup{link, "x", service.new_object()}));
  EXPECT_EQ(ELOOP,
            service.error_of(wire::Create{root, "link", 0644, O_RDWR, service.new_object(), service.new_handle()}));
  EXPECT_EQ(EEXIST, service.error_of(
                        wire::Create{root, "link", 0644, O_RDWR | O_EXCL, service.new_object(), service.new_handle()}));
  EXPECT_EQ(EINVAL, service.error_of(wire::ReadLink{root, {}, {}, 0}));
  EXPECT_EQ(EEXIST, service.error_of(wire::MakeSymlink{root, "link", "x", service.new_object()}));
  EXPECT_EQ(EINVAL, service.error_of(wire::MakeSymlink{root, "zero", base::Bytes("a\0b", 3), service.new_object()}));
  EXPECT_EQ(ENOENT, service.error_of(wire::MakeSymlink{root, "empty", "", service.new_object()}));
  const std::string longest(4095, 'x');
  const wire::ObjectId far = service.new_object();
  EXPECT_EQ(4095U, service.must(wire::MakeSymlink{root, "far", longest, far}).attributes.size);
  EXPECT_EQ(longest, service.must(wire::ReadLink{far, {}, {}, 0}).target);
}

TEST_F(FilesTest, MakesNodes) {
  const wire::ObjectId root = service.attach();
  EXPECT_TRUE(
      S_ISFIFO(service.must(wire::MakeNode{root, "fifo", S_IFIFO | 0600, 0, service.new_object()}).attributes.mode));
  EXPECT_TRUE(
      S_ISSOCK(service.must(wire::MakeNode{root, "sock", S_IFSOCK | 0600, 0, service.new_object()}).attributes.mode));
  EXPECT_TRUE(
      S_ISREG(service.must(wire::MakeNode{root, "file", S_IFREG | 0600, 0, service.new_object()}).attributes.mode));
  EXPECT_EQ(EPERM, service.error_of(wire::MakeNode{root, "d", S_IFDIR | 0600, 0, service.new_object()}));
  EXPECT_EQ(EINVAL, service.error_of(wire::MakeNode{root, "l", S_IFLNK | 0600, 0, service.new_object()}));
  EXPECT_EQ(EEXIST, service.error_of(wire::MakeNode{root, "fifo", S_IFIFO | 0600, 0, service.new_object()}));
  EXPECT_EQ(0600U, tree.stat("fifo").st_mode & 07777);
}

TEST_F(FilesTest, MakesDeviceNodesThatNobodyOpensThroughIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs CAP_MKNOD";
  const wire::ObjectId root = service.attach();
  for (const std::uint32_t type : {S_IFCHR, S_IFBLK}) {
    const wire::ObjectId node = service.new_object();
    const std::string name = type == S_IFCHR ? "null" : "disk";
    EXPECT_EQ(0x12345678U, service.must(wire::MakeNode{root, name, type | 0666, 0x12345678, node}).attributes.rdev);
    EXPECT_EQ(type, tree.stat(name.c_str()).st_mode & S_IFMT);
    EXPECT_EQ(0x12345678U, tree.stat(name.c_str()).st_rdev);
    EXPECT_EQ(ENXIO, service.error_of(wire::Open{node, service.new_handle(), O_RDONLY}));
    EXPECT_EQ(ENXIO,
              service.error_of(wire::Create{root, name, 0600, O_RDWR, service.new_object(), service.new_handle()}));
  }
}

// None of these may block a worker: there is no writer, no reader, no listener.
TEST_F(FilesTest, OnlyFilesAndDirectoriesAreOpened) {
  ASSERT_EQ(0, ::mkfifo(tree.path("fifo").c_str(), 0666));
  const wire::ObjectId root = service.attach();
  const wire::ObjectId fifo = service.lookup(root, "fifo");
  for (const std::uint32_t flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
    EXPECT_EQ(ENXIO, service.error_of(wire::Open{fifo, service.new_handle(), flags}));
    EXPECT_EQ(ENXIO,
              service.error_of(wire::Create{root, "fifo", 0644, flags, service.new_object(), service.new_handle()}));
  }
  Service devices("/dev");
  const wire::ObjectId dev = devices.attach();
  const wire::ObjectId null = devices.lookup(dev, "null");
  EXPECT_EQ(ENXIO, devices.error_of(wire::Open{null, devices.new_handle(), O_RDWR}));
}

TEST_F(FilesTest, OpenRefusesFlagsThatCreate) {
  tree.write("file", "x");
  const wire::ObjectId root = service.attach();
  const wire::ObjectId file = service.lookup(root, "file");
  EXPECT_EQ(EINVAL, service.error_of(wire::Open{file, service.new_handle(), O_RDWR | O_CREAT}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Open{file, service.new_handle(), O_RDWR | O_EXCL}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Open{file, service.new_handle(), O_ACCMODE}));
  EXPECT_EQ(ENOTDIR, service.error_of(wire::Open{file, service.new_handle(), O_DIRECTORY}));
  EXPECT_EQ(EISDIR, service.error_of(wire::Open{root, service.new_handle(), O_WRONLY}));
}

TEST_F(FilesTest, CreatesReadsAndWrites) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "new", 0640, O_RDWR | O_EXCL);
  EXPECT_EQ(0640U, tree.stat("new").st_mode & 07777);
  const wire::Write::Reply written = service.must(wire::Write{handle, 3}, "data");
  EXPECT_EQ(4U, written.count);
  EXPECT_EQ(3U, written.offset);
  EXPECT_EQ(std::string("\0\0\0data", 7), service.read(handle));
  EXPECT_EQ("at", service.read(handle, 4, 2));
  EXPECT_EQ("", service.read(handle, 7));
  EXPECT_EQ("", service.read(handle, 5'000'000'000));
  EXPECT_EQ(7U, service.must(wire::GetAttributes{object, {}}).attributes.size);
  EXPECT_EQ(7U, service.must(wire::GetAttributes{{}, handle}).attributes.size);
  EXPECT_EQ(EEXIST, service.error_of(
                        wire::Create{root, "new", 0644, O_RDWR | O_EXCL, service.new_object(), service.new_handle()}));
  // Without O_EXCL, what is there is opened, and keeps its mode.
  const auto [same, again] = service.create(root, "new", 0600, O_RDONLY);
  EXPECT_EQ(std::string("\0\0\0data", 7), service.read(again));
  EXPECT_EQ(0640U, tree.stat("new").st_mode & 07777);
  EXPECT_EQ(EBADF, service.error_of(wire::Write{again, 0}, {}, "x"));
  service.create(root, "new", 0600, O_RDWR | O_TRUNC);
  EXPECT_EQ(0, tree.stat("new").st_size);
  EXPECT_EQ(EINVAL, service.error_of(wire::Create{root, "dir", 0644, O_RDWR | O_DIRECTORY, service.new_object(),
                                                  service.new_handle()}));
  EXPECT_NE(same, object);
}

TEST_F(FilesTest, CreateOnADirectory) {
  std::filesystem::create_directory(tree.path("dir"));
  const wire::ObjectId root = service.attach();
  EXPECT_EQ(EISDIR,
            service.error_of(wire::Create{root, "dir", 0644, O_RDONLY, service.new_object(), service.new_handle()}));
  EXPECT_EQ(EEXIST, service.error_of(wire::Create{root, "dir", 0644, O_RDONLY | O_EXCL, service.new_object(),
                                                  service.new_handle()}));
}

TEST_F(FilesTest, ReadsAtTheBound) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "big");
  const base::Bytes data(wire::kMaxBody, 'b');
  EXPECT_EQ(data.size(), service.must(wire::Write{handle, 0}, data).count);
  EXPECT_EQ(data, service.read(handle, 0, wire::kMaxBody));
  EXPECT_EQ(EINVAL, service.error_of(wire::Read{handle, 0, wire::kMaxBody + 1}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Read{handle, ~0ULL, 1}));
  EXPECT_EQ(EFBIG, service.error_of(wire::Write{handle, ~0ULL >> 1U}, {}, "xx"));
  // Beyond 4 GiB, sparse.
  EXPECT_EQ(4U, service.must(wire::Write{handle, 5'000'000'000}, "far!").count);
  EXPECT_EQ("far!", service.read(handle, 5'000'000'000));
}

TEST_F(FilesTest, ReadsWithoutMovingTheAccessTimeWhenAsked) {
  tree.write("file", "content");
  // Older than the modification, so that a read moves it (mount(8), relatime).
  const timespec times[2] = {{1'000'000'000, 5}, {1'100'000'000, 0}};
  ASSERT_EQ(0, ::utimensat(AT_FDCWD, tree.path("file").c_str(), times, 0));
  const wire::ObjectId file = service.lookup(service.attach(), "file");
  const wire::HandleId handle = service.open(file, O_RDONLY | O_NOATIME);
  EXPECT_EQ("content", service.read(handle, 0));
  EXPECT_EQ(1'000'000'000, tree.stat("file").st_atim.tv_sec);
  EXPECT_EQ(5, tree.stat("file").st_atim.tv_nsec);
}

TEST_F(FilesTest, AppendsLandAtTheEndAndTellWhere) {
  tree.write("log", "one\n");
  const wire::ObjectId root = service.attach();
  const wire::ObjectId log = service.lookup(root, "log");
  const wire::HandleId first = service.open(log, O_WRONLY | O_APPEND);
  const wire::HandleId second = service.open(log, O_WRONLY | O_APPEND);
  EXPECT_EQ(4U, service.must(wire::Write{first, 0, true}, "two\n").offset);
  EXPECT_EQ(8U, service.must(wire::Write{second, 2, true}, "three\n").offset);
  std::ofstream(tree.path("log"), std::ios::app) << "outside\n";
  EXPECT_EQ(22U, service.must(wire::Write{first, 0, true}, "four\n").offset);
  EXPECT_EQ("one\ntwo\nthree\noutside\nfour\n", tree.read("log"));
}

// F_SETFL sets and clears O_APPEND of an open file, and a mapped page is written through any open file.
TEST_F(FilesTest, EachWriteSaysWhetherItAppends) {
  tree.write("log", "0123456789");
  const wire::ObjectId log = service.lookup(service.attach(), "log");
  for (const std::uint32_t flags : {O_RDWR, O_RDWR | O_APPEND}) {
    const wire::HandleId handle = service.open(log, flags);
    const std::uint64_t end = tree.stat("log").st_size;
    EXPECT_EQ(end, service.must(wire::Write{handle, 1, true}, "A").offset);
    EXPECT_EQ(1U, service.must(wire::Write{handle, 1}, "B").offset);
    EXPECT_EQ(end + 1, service.must(wire::Write{handle, 1, true}, "C").offset);
    EXPECT_EQ(2U, service.must(wire::Write{handle, 2}, "D").offset);
  }
  EXPECT_EQ("0BD3456789ACAC", tree.read("log"));
}

TEST_F(FilesTest, AppendsAtOnceAreWholeAndApart) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "log", 0644, O_WRONLY | O_APPEND);
  std::vector<std::shared_ptr<Service::Pending>> calls;
  for (int i = 0; i < 200; ++i)
    calls.push_back(service.send(wire::Write{handle, 0, true}, {}, std::to_string(1000 + i) + "\n"));
  std::set<std::uint64_t> offsets;
  for (const auto& call : calls) {
    const Result<FileAnswer> answer = service.wait(call);
    ASSERT_TRUE(answer);
    offsets.insert(std::get<wire::Write::Reply>(answer->reply.body).offset);
  }
  EXPECT_EQ(200U, offsets.size());
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_TRUE(offsets.contains(i * 5));
  EXPECT_EQ(1000, tree.stat("log").st_size);
}

TEST_F(FilesTest, SetsEachAttribute) {
  tree.write("file", "0123456789");
  const wire::ObjectId root = service.attach();
  const wire::ObjectId file = service.lookup(root, "file");
  wire::SetAttributes set;
  set.object = file;
  set.mode = 0604;
  EXPECT_EQ(0100604U, service.must(set).attributes.mode);
  set = {};
  set.object = file;
  set.size = 4;
  EXPECT_EQ(4U, service.must(set).attributes.size);
  EXPECT_EQ("0123", tree.read("file"));
  set = {};
  set.object = file;
  set.modified = wire::Time{-5, 123456789};
  const wire::Attributes before = service.must(wire::GetAttributes{file, {}}).attributes;
  const wire::Attributes after = service.must(set).attributes;
  EXPECT_EQ((wire::Time{-5, 123456789}), after.modified);
  EXPECT_EQ(before.accessed, after.accessed);
  set = {};
  set.object = file;
  set.accessed = wire::Time{1'000'000'000, 1};
  set.modified_now = true;
  const wire::Attributes now = service.must(set).attributes;
  EXPECT_EQ((wire::Time{1'000'000'000, 1}), now.accessed);
  EXPECT_GT(now.modified.seconds, 1'600'000'000);
}

// chown clears setuid, so it comes before the mode; truncating sets the time, so that comes last.
TEST_F(FilesTest, SetsSeveralAttributesInTheRightOrder) {
  tree.write("file", "0123456789");
  const wire::ObjectId root = service.attach();
  wire::SetAttributes set;
  set.object = service.lookup(root, "file");
  set.uid = ::geteuid();
  set.gid = ::getegid();
  set.mode = 06755;
  set.size = 3;
  set.modified = wire::Time{77, 7};
  const wire::Attributes after = service.must(set).attributes;
  EXPECT_EQ(3U, after.size);
  EXPECT_EQ((wire::Time{77, 7}), after.modified);
  EXPECT_EQ(0106755U, after.mode);
}

TEST_F(FilesTest, SetAttributesErrors) {
  tree.write("file", "x");
  std::filesystem::create_directory(tree.path("dir"));
  std::filesystem::create_symlink("file", tree.path("link"));
  const wire::ObjectId root = service.attach();
  const wire::ObjectId link = service.lookup(root, "link");
  wire::SetAttributes set;
  set.object = link;
  set.mode = 0600;
  EXPECT_EQ(EOPNOTSUPP, service.error_of(set));
  set = {};
  set.object = service.lookup(root, "dir");
  set.size = 0;
  EXPECT_EQ(EISDIR, service.error_of(set));
  set.object = link;
  EXPECT_EQ(EINVAL, service.error_of(set));
  set.object = service.lookup(root, "file");
  set.size = ~0ULL;
  EXPECT_EQ(EINVAL, service.error_of(set));
  set.size = (~0ULL >> 1U);
  EXPECT_EQ(EFBIG, service.error_of(set));
  set = {};
  set.object = link;
  set.uid = ~0U;
  EXPECT_EQ(EINVAL, service.error_of(set));
  // The times and the owner of the symlink itself.
  set = {};
  set.object = link;
  set.modified = wire::Time{42, 0};
  set.gid = ::getegid();
  service.must(set);
  EXPECT_EQ(42, tree.stat("link").st_mtim.tv_sec);
  EXPECT_NE(42, tree.stat("file").st_mtim.tv_sec);
}

TEST_F(FilesTest, TruncatesThroughAHandle) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "file", 0400, O_RDWR);
  wire::SetAttributes set;
  set.object = object;
  set.handle = handle;
  set.size = 100;
  EXPECT_EQ(100U, service.must(set).attributes.size);
}

TEST_F(FilesTest, MovesAndLinksNames) {
  tree.write("a", "A");
  tree.write("b", "B");
  std::filesystem::create_directory(tree.path("dir"));
  const wire::ObjectId root = service.attach();
  const wire::ObjectId dir = service.lookup(root, "dir");
  const wire::ObjectId a = service.lookup(root, "a");
  EXPECT_EQ(EEXIST, service.error_of(wire::Rename{root, "a", root, "b", RENAME_NOREPLACE}));
  service.must(wire::Rename{root, "a", root, "b", RENAME_EXCHANGE});
  EXPECT_EQ("A", tree.read("b"));
  EXPECT_EQ("B", tree.read("a"));
  service.must(wire::Rename{root, "b", dir, "c", 0});
  EXPECT_EQ("A", tree.read("dir/c"));
  EXPECT_EQ(EINVAL, service.error_of(wire::Rename{root, "a", root, "x", 8}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Rename{root, "a", root, "b", RENAME_EXCHANGE | RENAME_NOREPLACE}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Rename{root, "a", root, "..", 0}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Rename{root, ".", root, "x", 0}));
  EXPECT_EQ(ENOENT, service.error_of(wire::Rename{root, "missing", root, "x", 0}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Rename{root, "dir", dir, "inside", 0}));
  EXPECT_EQ(2U, service.must(wire::MakeLink{a, root, "again"}).attributes.links);
  EXPECT_EQ(EEXIST, service.error_of(wire::MakeLink{a, root, "again"}));
  EXPECT_EQ(EPERM, service.error_of(wire::MakeLink{dir, root, "dir2"}));
  EXPECT_EQ("A", tree.read("again"));
  std::filesystem::create_symlink("nowhere", tree.path("link"));
  const wire::ObjectId link = service.lookup(root, "link");
  EXPECT_EQ(2U, service.must(wire::MakeLink{link, root, "link2"}).attributes.links);
  EXPECT_TRUE(S_ISLNK(tree.stat("link2").st_mode));
}

TEST_F(FilesTest, RemovesNames) {
  tree.write("file", "x");
  std::filesystem::create_directories(tree.path("dir/sub"));
  const wire::ObjectId root = service.attach();
  EXPECT_EQ(EISDIR, service.error_of(wire::Unlink{root, "dir"}));
  EXPECT_EQ(ENOTDIR, service.error_of(wire::RemoveDirectory{root, "file"}));
  EXPECT_EQ(ENOTEMPTY, service.error_of(wire::RemoveDirectory{root, "dir"}));
  EXPECT_EQ(EINVAL, service.error_of(wire::RemoveDirectory{root, ".."}));
  EXPECT_EQ(EINVAL, service.error_of(wire::Unlink{root, "dir/sub"}));
  service.must(wire::Unlink{root, "file"});
  EXPECT_FALSE(tree.exists("file"));
  const wire::ObjectId dir = service.lookup(root, "dir");
  service.must(wire::RemoveDirectory{dir, "sub"});
  service.must(wire::RemoveDirectory{root, "dir"});
  EXPECT_FALSE(tree.exists("dir"));
  EXPECT_EQ(ENOENT, service.error_of(wire::Unlink{root, "file"}));
}

TEST_F(FilesTest, OpenFilesLiveOnAfterUnlink) {
  const wire::ObjectId root = service.attach();
  const auto [object, handle] = service.create(root, "file");
  service.must(wire::Write{handle, 0}, "kept");
  service.must(wire::Unlink{root, "file"});
  EXPECT_EQ("kept", service.read(handle));
  EXPECT_EQ(0U, service.must(wire::GetAttributes{object, handle}).attributes.links);
  // By the object too, as fstat after an unlink comes without the handle from some kernels.
  EXPECT_EQ(4U, service.must(wire::GetAttributes{object, {}}).attributes.size);
  wire::SetAttributes set;
  set.object = object;
  set.mode = 0600;
  service.must(set);
  const wire::HandleId again = service.open(object, O_RDONLY);
  EXPECT_EQ("kept", service.read(again));
  service.must(wire::Close{handle});
  EXPECT_EQ("kept", service.read(again));
}

TEST_F(FilesTest, UnknownAndZeroIds) {
  const wire::ObjectId root = service.attach();
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{wire::ObjectId(99), {}}));
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{{}, {}}));
  EXPECT_EQ(EBADF, service.error_of(wire::Read{wire::HandleId(99), 0, 1}));
  EXPECT_EQ(EBADF, service.error_of(wire::Read{{}, 0, 1}));
  EXPECT_EQ(EBADF, service.error_of(wire::Close{wire::HandleId(99)}));
  EXPECT_EQ(-1, service.error_of(wire::Lookup{root, "x", {}})) << "0 cannot be bound";
  EXPECT_EQ(-1, service.error_of(wire::Attach{root, "/"})) << "an id is bound once";
}

TEST_F(FilesTest, ReleasedIdsAreGone) {
  const wire::ObjectId root = service.attach();
  const wire::ObjectId other = service.attach();
  service.must(wire::Release{{root, wire::ObjectId(12345)}});
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{root, {}}));
  service.must(wire::GetAttributes{other, {}});
  EXPECT_EQ(1U, service.core->objects());
}

TEST_F(FilesTest, ChangesAreCounted) {
  const wire::ObjectId root = service.attach();
  const auto change_of = [&](wire::RequestBody body) {
    const Result<FileAnswer> answer = service.ask(std::move(body));
    EXPECT_TRUE(answer);
    return answer ? answer->reply.change.value : 0;
  };
  const std::uint64_t start = change_of(wire::GetAttributes{root, {}});
  EXPECT_EQ(start + 1, change_of(wire::MakeDirectory{root, "d", 0755, service.new_object()}));
  EXPECT_EQ(start + 1, change_of(wire::GetAttributes{root, {}}));
  EXPECT_EQ(start + 2, change_of(wire::RemoveDirectory{root, "d"}));
}

TEST_F(FilesTest, OpenFilesAreBounded) {
  RootOptions options;
  options.max_open_files = 3;
  Service bounded(tree.root(), options);
  const wire::ObjectId root = bounded.attach();
  std::vector<wire::HandleId> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(bounded.open(root, O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(EMFILE, bounded.error_of(wire::Open{root, bounded.new_handle(), O_RDONLY}));
  EXPECT_EQ(EMFILE,
            bounded.error_of(wire::Create{root, "x", 0644, O_RDWR, bounded.new_object(), bounded.new_handle()}));
  bounded.must(wire::Close{handles[0]});
  bounded.open(root);
}

TEST(Root, ServesOnlyADirectory) {
  TempTree tree;
  tree.write("file", "x");
  const auto missing = Root::open(tree.path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(ENOENT, missing.error().os_errno);
  const auto file = Root::open(tree.path("file"));
  ASSERT_FALSE(file);
  EXPECT_EQ(ENOTDIR, file.error().os_errno);
  const auto root = Root::open(tree.root());
  ASSERT_TRUE(root);
  EXPECT_FALSE((*root)->resolve_directory("missing"));
  std::filesystem::create_directory(tree.path("dir"));
  EXPECT_TRUE((*root)->resolve_directory("/dir"));
  EXPECT_EQ(ENOTDIR, (*root)->resolve_directory("/file").error().os_errno);
}

}  // namespace
}  // namespace sandbar::agent
