// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ostream>

#include "fuse/ioctl.h"
#include "mounted.h"

/// Each request of the kernel reaches the file system with its arguments, and is answered exactly once.
namespace sandbar::fuse {
namespace {

using fakes::FakeKernel;
using Call = fakes::FakeFileSystem::Call;

template <class T>
std::string in(const T& value, const std::string& behind = {}) {
  return FakeKernel::bytes(value) + behind;
}
std::string name(const char* text) { return FakeKernel::name(text); }

struct Case {
  const char* title;
  std::uint32_t opcode;
  std::string arguments;
  const char* called;  ///< the file system's operation
  bool (*right)(const Call& call);
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.title; }

std::string lock_in(std::uint32_t type, std::uint32_t flags) {
  fuse_lk_in lock{};
  lock.fh = 77;
  lock.owner = 5;
  lock.lk.type = type;
  lock.lk.start = 10;
  lock.lk.end = 19;
  lock.lk_flags = flags;
  return in(lock);
}

std::string link_query(const char* link) {
  StoredLink query{};
  std::strncpy(query.name, link, sizeof query.name - 1);
  return in(query);
}

std::string setattr_in() {
  fuse_setattr_in set{};
  set.valid = FATTR_MODE | FATTR_SIZE | FATTR_MTIME | FATTR_ATIME | FATTR_ATIME_NOW | FATTR_FH;
  set.fh = 77;
  set.mode = S_IFREG | 04755;
  set.size = 9;
  set.mtime = 1700000000;
  set.mtimensec = 123456789;
  return in(set);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"lookup", FUSE_LOOKUP, name("a"), "lookup",
       [](const Call& c) { return c.text == "a" && c.caller.uid == 1234 && c.caller.umask == 0; }},
      {"getattr", FUSE_GETATTR, in(fuse_getattr_in{}), "get_attributes", [](const Call& c) { return !c.file; }},
      {"getattr of a file", FUSE_GETATTR, in(fuse_getattr_in{FUSE_GETATTR_FH, 0, 77}), "get_attributes",
       [](const Call& c) { return c.file.value == 77; }},
      {"setattr", FUSE_SETATTR, setattr_in(), "set_attributes",
       [](const Call& c) {
         return c.file.value == 77 && c.changes.mode == 04755U && c.changes.size == 9U && !c.changes.uid &&
                c.changes.accessed_now && !c.changes.accessed && c.changes.modified &&
                c.changes.modified->nanoseconds == 123456789;
       }},
      {"readlink", FUSE_READLINK, "", "read_link", [](const Call&) { return true; }},
      {"symlink", FUSE_SYMLINK, name("link") + name("target"), "make_symlink",
       [](const Call& c) { return c.text == "link" && c.text2 == "target"; }},
      {"mknod", FUSE_MKNOD, in(fuse_mknod_in{S_IFIFO | 0640, 0, 022, 0}, name("pipe")), "make_node",
       [](const Call& c) { return c.text == "pipe" && c.number == (S_IFIFO | 0640) && c.caller.umask == 022; }},
      {"mknod of a device", FUSE_MKNOD, in(fuse_mknod_in{S_IFBLK | 0640, 0x12345678, 022, 0}, name("disk")),
       "make_node", [](const Call& c) { return c.number == (S_IFBLK | 0640) && c.number2 == 0x12345678; }},
      {"mkdir", FUSE_MKDIR, in(fuse_mkdir_in{0750, 022}, name("d")), "make_directory",
       [](const Call& c) { return c.text == "d" && (c.number & 07777) == 0750 && c.caller.umask == 022; }},
      {"unlink", FUSE_UNLINK, name("a"), "unlink", [](const Call& c) { return c.text == "a"; }},
      {"rmdir", FUSE_RMDIR, name("d"), "remove_directory", [](const Call& c) { return c.text == "d"; }},
      {"rename", FUSE_RENAME, in(fuse_rename_in{8}, name("a") + name("b")), "rename",
       [](const Call& c) { return c.text == "a" && c.text2 == "b" && c.node2.value == 8 && c.number == 0; }},
      {"rename2", FUSE_RENAME2, in(fuse_rename2_in{8, 2, 0}, name("a") + name("b")), "rename",
       [](const Call& c) { return c.number == 2; }},
      {"link", FUSE_LINK, in(fuse_link_in{6}, name("b")), "make_link",
       [](const Call& c) { return c.node.value == 6 && c.node2.value == 3 && c.text == "b"; }},
      {"open", FUSE_OPEN, in(fuse_open_in{O_RDWR | O_TRUNC, 0}), "open_file",
       [](const Call& c) { return c.number == (O_RDWR | O_TRUNC); }},
      {"create", FUSE_CREATE, in(fuse_create_in{O_WRONLY | O_EXCL, 0640, 022, 0}, name("new")), "create",
       [](const Call& c) { return c.text == "new" && (c.number & 07777) == 0640 && c.number2 == (O_WRONLY | O_EXCL); }},
      {"read", FUSE_READ, in(fuse_read_in{77, 4096, 100, 0, 0, 0, 0}), "read",
       [](const Call& c) { return c.file.value == 77 && c.number == 4096 && c.number2 == 100; }},
      {"write", FUSE_WRITE, in(fuse_write_in{77, 4096, 5, 0, 0, 0, 0}, std::string("\0\1\2\3\4", 5)), "write",
       [](const Call& c) { return c.file.value == 77 && c.number == 4096 && c.text2 == std::string("\0\1\2\3\4", 5); }},
      {"write with O_APPEND", FUSE_WRITE, in(fuse_write_in{77, 4096, 5, 0, 0, O_WRONLY | O_APPEND, 0}, "abcde"),
       "write", [](const Call& c) { return c.number2 == 1; }},
      {"write of a mapped page", FUSE_WRITE,
       in(fuse_write_in{77, 4096, 5, FUSE_WRITE_CACHE, 0, O_RDWR | O_APPEND, 0}, "abcde"), "write",
       [](const Call& c) { return c.number == 4096 && c.number2 == 0; }},
      {"ioctl for a stored link", FUSE_IOCTL,
       in(fuse_ioctl_in{77, FUSE_IOCTL_DIR, kStoredLink, 0, sizeof(StoredLink), sizeof(StoredLink)},
          link_query("link")),
       "read_stored_link", [](const Call& c) { return c.node.value == 3 && c.text == "link"; }},
      {"statfs", FUSE_STATFS, "", "stat_fs", [](const Call& c) { return c.node.value == 3; }},
      {"fsync", FUSE_FSYNC, in(fuse_fsync_in{77, FUSE_FSYNC_FDATASYNC, 0}), "fsync",
       [](const Call& c) { return c.file.value == 77 && c.number == 1; }},
      {"fsyncdir", FUSE_FSYNCDIR, in(fuse_fsync_in{77, 0, 0}), "fsync",
       [](const Call& c) { return c.file.value == 77 && c.number == 0; }},
      {"setxattr", FUSE_SETXATTR,
       in(fuse_setxattr_in{3, 1, 0, 0}).substr(0, FUSE_COMPAT_SETXATTR_IN_SIZE) + name("user.a") + "xyz", "set_xattr",
       [](const Call& c) { return c.text == "user.a" && c.text2 == "xyz" && c.number == 1; }},
      {"getxattr", FUSE_GETXATTR, in(fuse_getxattr_in{100, 0}, name("user.a")), "get_xattr",
       [](const Call& c) { return c.text == "user.a"; }},
      {"listxattr", FUSE_LISTXATTR, in(fuse_getxattr_in{100, 0}), "list_xattr", [](const Call&) { return true; }},
      {"removexattr", FUSE_REMOVEXATTR, name("user.a"), "remove_xattr",
       [](const Call& c) { return c.text == "user.a"; }},
      {"flush", FUSE_FLUSH, in(fuse_flush_in{77, 0, 0, 5}), "flush",
       [](const Call& c) { return c.file.value == 77 && c.number == 5; }},
      {"opendir", FUSE_OPENDIR, in(fuse_open_in{O_RDONLY, 0}), "open_directory",
       [](const Call& c) { return c.node.value == 3; }},
      {"readdir", FUSE_READDIR, in(fuse_read_in{77, 4, 4096, 0, 0, 0, 0}), "list",
       [](const Call& c) { return c.file.value == 77 && c.number == 4 && c.number2 == 0; }},
      {"readdirplus", FUSE_READDIRPLUS, in(fuse_read_in{77, 4, 4096, 0, 0, 0, 0}), "list",
       [](const Call& c) { return c.file.value == 77 && c.number == 4 && c.number2 == 1; }},
      {"getlk", FUSE_GETLK, lock_in(F_WRLCK, 0), "test_lock",
       [](const Call& c) { return c.lock.type == vfs::LockType::write && c.lock.start == 10 && c.lock.length == 10; }},
      {"setlk", FUSE_SETLK, lock_in(F_RDLCK, 0), "set_lock",
       [](const Call& c) {
         return c.lock.owner == 5 && c.lock.type == vfs::LockType::read && !c.lock.wait &&
                c.lock.kind == vfs::LockKind::posix;
       }},
      {"setlkw", FUSE_SETLKW, lock_in(F_WRLCK, 0), "set_lock", [](const Call& c) { return c.lock.wait; }},
      {"flock", FUSE_SETLK, lock_in(F_WRLCK, FUSE_LK_FLOCK), "set_lock",
       [](const Call& c) {
         return c.lock.kind == vfs::LockKind::flock && !c.lock.wait && c.lock.type == vfs::LockType::write;
       }},
      {"flock that waits", FUSE_SETLKW, lock_in(F_RDLCK, FUSE_LK_FLOCK), "set_lock",
       [](const Call& c) { return c.lock.wait && c.lock.type == vfs::LockType::read; }},
      {"unlock", FUSE_SETLK, lock_in(F_UNLCK, 0), "set_lock",
       [](const Call& c) { return c.lock.type == vfs::LockType::unlock; }},
      {"fallocate", FUSE_FALLOCATE, in(fuse_fallocate_in{77, 10, 20, 3, 0}), "allocate",
       [](const Call& c) { return c.number == 3 && c.number2 == 10 && c.number3 == 20; }},
      {"lseek", FUSE_LSEEK, in(fuse_lseek_in{77, 10, SEEK_HOLE, 0}), "seek",
       [](const Call& c) { return c.number == 10 && c.number2 == SEEK_HOLE; }},
      {"copy_file_range", FUSE_COPY_FILE_RANGE, in(fuse_copy_file_range_in{77, 1, 9, 78, 2, 50, 0}), "copy_range",
       [](const Call& c) {
         return c.file.value == 77 && c.file2.value == 78 && c.number == 1 && c.number2 == 2 && c.number3 == 50;
       }},
  };
  return all;
}

class EachOperation : public Mounted, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    mount();
    files_.entry.node = vfs::NodeId(50);
    files_.entry.attributes.mode = S_IFREG | 0644;
    files_.stat.attributes.mode = S_IFREG | 0644;
    files_.bytes = "value";
    files_.count = 5;
  }
  std::uint64_t send() { return kernel_.send(GetParam().opcode, 3, GetParam().arguments, 0, 1234); }
};

TEST_P(EachOperation, IsAnsweredOnce) {
  const std::uint64_t request = send();
  turn();
  ASSERT_EQ(1U, files_.calls.size());
  EXPECT_EQ(GetParam().called, files_.calls[0].name);
  EXPECT_TRUE(GetParam().right(files_.calls[0]));
  EXPECT_EQ(nullptr, kernel_.reply(request)) << "answered before the file system did";
  files_.answer(0);
  ASSERT_NE(nullptr, kernel_.reply(request));
  EXPECT_EQ(0, kernel_.reply(request)->error);
  EXPECT_EQ(1, kernel_.reply(request)->times);
}

TEST_P(EachOperation, FailsWithTheErrorOfTheFileSystem) {
  const std::uint64_t request = send();
  turn();
  files_.answer(0, os_error(EDQUOT, "it"));
  ASSERT_NE(nullptr, kernel_.reply(request));
  EXPECT_EQ(-EDQUOT, kernel_.reply(request)->error);
  EXPECT_EQ(1, kernel_.reply(request)->times);
}

TEST_P(EachOperation, DroppedByTheFileSystemIsAnsweredAllTheSame) {
  const std::uint64_t request = send();
  turn();
  files_.calls.clear();
  ASSERT_NE(nullptr, kernel_.reply(request));
  EXPECT_NE(0, kernel_.reply(request)->error);
  EXPECT_EQ(1, kernel_.reply(request)->times);
}

TEST_P(EachOperation, ThatCannotStartIsEio) {
  files_.throw_next = true;
  const std::uint64_t request = send();
  turn();
  ASSERT_NE(nullptr, kernel_.reply(request));
  EXPECT_LT(kernel_.reply(request)->error, 0);
  EXPECT_EQ(1, kernel_.reply(request)->times);
}

TEST_P(EachOperation, GivenUpByTheKernelIsNotAnsweredAgain) {
  const std::uint64_t request = send();
  turn();
  kernel_.give_up_next();
  files_.answer(0);
  EXPECT_EQ(nullptr, kernel_.reply(request));
}

TEST_P(EachOperation, UnderWayWhenTheSessionEnds) {
  const std::uint64_t request = send();
  turn();
  session_.reset();
  files_.answer(0);
  EXPECT_EQ(nullptr, kernel_.reply(request));
}

INSTANTIATE_TEST_SUITE_P(Table, EachOperation, testing::ValuesIn(cases()), [](const auto& info) {
  std::string title = info.param.title;
  for (char& c : title)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return title;
});

}  // namespace
}  // namespace sandbar::fuse
