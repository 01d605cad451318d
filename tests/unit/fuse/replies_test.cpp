// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <utility>

#include "mounted.h"

namespace sandbar::fuse {
namespace {

using fakes::FakeKernel;

// What the kernel did not take is given back.

TEST_F(Mounted, GivesBackTheLookupOfAnEntryThatWasNotTaken) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  kernel_.send(FUSE_LOOKUP, 1, FakeKernel::name("a"));
  kernel_.send(FUSE_MKDIR, 1, FakeKernel::bytes(fuse_mkdir_in{0755, 0}) + FakeKernel::name("d"));
  turn();
  for (std::size_t i = 0; i < 2; ++i) {
    kernel_.give_up_next();
    files_.answer(i);
  }
  const std::vector<std::pair<vfs::NodeId, std::uint64_t>> expected{{vfs::NodeId(50), 1}, {vfs::NodeId(50), 1}};
  EXPECT_EQ(expected, files_.forgotten);
}

TEST_F(Mounted, GivesBackFilesThatWereNotTaken) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  kernel_.send(FUSE_OPEN, 3, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}));
  kernel_.send(FUSE_OPENDIR, 3, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}));
  kernel_.send(FUSE_CREATE, 1, FakeKernel::bytes(fuse_create_in{O_WRONLY, 0644, 0, 0}) + FakeKernel::name("new"));
  turn();
  for (std::size_t i = 0; i < 3; ++i) {
    kernel_.give_up_next();
    files_.answer(i);
  }
  EXPECT_EQ(3U, files_.released.size());
  for (const auto& [file, owner] : files_.released) EXPECT_EQ(77U, file.value);
  ASSERT_EQ(1U, files_.forgotten.size());
  EXPECT_EQ(50U, files_.forgotten[0].first.value);
}

TEST_F(Mounted, GivesBackNothingThatWasTaken) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  kernel_.send(FUSE_CREATE, 1, FakeKernel::bytes(fuse_create_in{O_WRONLY, 0644, 0, 0}) + FakeKernel::name("new"));
  turn();
  files_.answer(0);
  EXPECT_TRUE(files_.released.empty());
  EXPECT_TRUE(files_.forgotten.empty());
}

// Answers.

TEST_F(Mounted, AnEntryIsToldWithItsTimes) {
  mount();
  files_.entry.node = vfs::NodeId(50);
  files_.entry.generation = 6;
  files_.entry.name_valid = std::chrono::milliseconds(1500);
  files_.entry.attributes.inode = 4711;
  files_.entry.attributes.mode = S_IFREG | 0640;
  files_.entry.attributes.size = 5;
  files_.entry.attributes.modified = {-1, 999'999'999};
  const auto request = kernel_.send(FUSE_LOOKUP, 1, FakeKernel::name("a"));
  turn();
  files_.answer(0);
  const auto out = kernel_.payload<fuse_entry_out>(request);
  EXPECT_EQ(50U, out.nodeid);
  EXPECT_EQ(6U, out.generation);
  EXPECT_EQ(1U, out.entry_valid);
  EXPECT_EQ(500'000'000U, out.entry_valid_nsec);
  EXPECT_EQ(0U, out.attr_valid);
  EXPECT_EQ(4711U, out.attr.ino);
  EXPECT_EQ(S_IFREG | 0640U, out.attr.mode);
  EXPECT_EQ(static_cast<std::uint64_t>(-1), out.attr.mtime);
  EXPECT_EQ(999'999'999U, out.attr.mtimensec);
}

TEST_F(Mounted, OpenFlagsReachTheKernel) {
  mount();
  files_.opened = {vfs::FileId(77), true, true};
  const auto request = kernel_.send(FUSE_OPEN, 3, FakeKernel::bytes(fuse_open_in{O_RDONLY, 0}));
  turn();
  files_.answer(0);
  const auto out = kernel_.payload<fuse_open_out>(request);
  EXPECT_EQ(77U, out.fh);
  EXPECT_EQ(static_cast<std::uint32_t>(FOPEN_KEEP_CACHE | FOPEN_DIRECT_IO), out.open_flags);
}

TEST_F(Mounted, MoreBytesThanAskedForAreEio) {
  mount();
  files_.bytes = std::string(101, 'x');
  const auto read = kernel_.send(FUSE_READ, 3, FakeKernel::bytes(fuse_read_in{77, 0, 100, 0, 0, 0, 0}));
  files_.count = 6;
  const auto write =
      kernel_.send(FUSE_WRITE, 3, FakeKernel::bytes(fuse_write_in{77, 0, 5, 0, 0, 0, 0}) + std::string(5, 'x'));
  turn();
  files_.answer_all();
  EXPECT_EQ(-EIO, kernel_.reply(read)->error);
  EXPECT_EQ(-EIO, kernel_.reply(write)->error);
}

TEST_F(Mounted, ATargetWithAZeroByteIsEio) {
  mount();
  files_.bytes = std::string("a\0b", 3);
  const auto request = kernel_.send(FUSE_READLINK, 3);
  turn();
  files_.answer(0);
  EXPECT_EQ(-EIO, kernel_.reply(request)->error);
}

TEST_F(Mounted, XattrsCanBeProbedForTheirSize) {
  mount();
  files_.bytes = "0123456789";
  const auto ask = [&](std::uint32_t opcode, std::uint32_t size) {
    return kernel_.send(opcode, 3, FakeKernel::bytes(fuse_getxattr_in{size, 0}) + FakeKernel::name("user.a"));
  };
  for (const std::uint32_t opcode : {FUSE_GETXATTR, FUSE_LISTXATTR}) {
    const auto probe = ask(opcode, 0);
    const auto fits = ask(opcode, 10);
    const auto small = ask(opcode, 9);
    turn();
    files_.answer_all();
    EXPECT_EQ(10U, kernel_.payload<fuse_getxattr_out>(probe).size);
    EXPECT_EQ("0123456789", kernel_.reply(fits)->payload);
    EXPECT_EQ(-ERANGE, kernel_.reply(small)->error);
  }
}

TEST_F(Mounted, AnEmptyXattrIsNoError) {
  mount();
  const auto request =
      kernel_.send(FUSE_GETXATTR, 3, FakeKernel::bytes(fuse_getxattr_in{9, 0}) + FakeKernel::name("user.a"));
  turn();
  files_.answer(0);
  EXPECT_EQ(0, kernel_.reply(request)->error);
  EXPECT_TRUE(kernel_.reply(request)->payload.empty());
}

TEST_F(Mounted, TheHolderOfALock) {
  mount();
  files_.holder = {vfs::LockType::write, 10, 0, 0};
  fuse_lk_in lock{};
  lock.fh = 77;
  lock.lk.type = F_RDLCK;
  const auto request = kernel_.send(FUSE_GETLK, 3, FakeKernel::bytes(lock));
  turn();
  files_.answer(0);
  const auto out = kernel_.payload<fuse_lk_out>(request);
  EXPECT_EQ(static_cast<std::uint32_t>(F_WRLCK), out.lk.type);
  EXPECT_EQ(10U, out.lk.start);
  EXPECT_EQ(static_cast<std::uint64_t>(0x7fffffffffffffff), out.lk.end);
}

TEST_F(Mounted, AnErrorThatTheKernelWouldRefuseIsEio) {
  mount();
  for (const int number : {0, -1, 134, 512, 1 << 30}) {
    const auto request = kernel_.send(FUSE_STATFS, 1);
    turn();
    files_.answer_all(os_error(number, "it"));
    ASSERT_NE(nullptr, kernel_.reply(request)) << number;
    EXPECT_EQ(-EIO, kernel_.reply(request)->error) << number;
  }
}

// Listings.

vfs::Listed listed(const std::string& name, std::uint64_t cookie, std::uint64_t node) {
  vfs::Listed entry;
  entry.name = name;
  entry.cookie = cookie;
  entry.inode = 900 + cookie;
  entry.type = S_IFREG;
  if (node == 0) return entry;
  entry.entry.emplace();
  entry.entry->node = vfs::NodeId(node);
  entry.entry->attributes.mode = S_IFREG | 0644;
  return entry;
}

class Listing : public Mounted {
 protected:
  void SetUp() override {
    mount();
    files_.listing = {listed(".", 1, 0), listed("..", 2, 0), listed("a", 3, 50), listed(std::string(255, 'n'), 4, 51)};
  }
  std::uint64_t list(std::uint32_t opcode, std::uint32_t size, std::uint64_t from = 0) {
    const auto request = kernel_.send(opcode, 1, FakeKernel::bytes(fuse_read_in{77, from, size, 0, 0, 0, 0}));
    turn();
    return request;
  }
};

TEST_F(Listing, HoldsTheEntriesInTheirOrder) {
  const auto request = list(FUSE_READDIR, 4096);
  files_.answer(0);
  EXPECT_EQ(4U, files_.taken);
  const auto first = kernel_.payload<fuse_dirent>(request);
  EXPECT_EQ(901U, first.ino);
  EXPECT_EQ(1U, first.off);
  EXPECT_EQ(1U, first.namelen);
  EXPECT_EQ(static_cast<std::uint32_t>(S_IFREG >> 12), first.type);
  EXPECT_EQ(3 * FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1) + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 255),
            kernel_.reply(request)->payload.size());
}

TEST_F(Listing, EndsWhereTheNextDoesNotFitAndGoesOnThere) {
  constexpr std::uint32_t kShort = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1);
  const auto exact = list(FUSE_READDIR, 3 * kShort);
  files_.answer(0);
  EXPECT_EQ(3U, files_.taken);
  EXPECT_EQ(3 * kShort, kernel_.reply(exact)->payload.size());
  const auto short_of_one = list(FUSE_READDIR, 3 * kShort - 1);
  files_.answer(1);
  EXPECT_EQ(2U, files_.taken);
  EXPECT_EQ(2 * kShort, kernel_.reply(short_of_one)->payload.size());
  const auto rest = list(FUSE_READDIR, 4096, 3);
  files_.answer(2);
  EXPECT_EQ(1U, files_.taken);
  EXPECT_EQ(255U, kernel_.payload<fuse_dirent>(rest).namelen);
}

TEST_F(Listing, AtTheEndIsEmpty) {
  const auto request = list(FUSE_READDIR, 4096, 4);
  files_.answer(0);
  EXPECT_EQ(0, kernel_.reply(request)->error);
  EXPECT_TRUE(kernel_.reply(request)->payload.empty());
}

TEST_F(Listing, WithAttributesNamesNodesButNotOfDots) {
  const auto request = list(FUSE_READDIRPLUS, 4096);
  files_.answer(0);
  const std::string& payload = kernel_.reply(request)->payload;
  constexpr std::size_t kDot = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS + 1);
  std::array<fuse_direntplus, 3> entries{};
  for (std::size_t i = 0; i < 3; ++i) std::memcpy(&entries[i], payload.data() + i * kDot, sizeof(fuse_direntplus));
  EXPECT_EQ(0U, entries[0].entry_out.nodeid);
  EXPECT_EQ(901U, entries[0].dirent.ino);
  EXPECT_EQ(0U, entries[1].entry_out.nodeid);
  EXPECT_EQ(50U, entries[2].entry_out.nodeid);
  EXPECT_EQ(903U, entries[2].dirent.ino);
}

TEST_F(Listing, GivenUpByTheKernelGivesBackWhatItCounted) {
  list(FUSE_READDIRPLUS, 4096);
  kernel_.give_up_next();
  files_.answer(0);
  const std::vector<std::pair<vfs::NodeId, std::uint64_t>> expected{{vfs::NodeId(50), 1}, {vfs::NodeId(51), 1}};
  EXPECT_EQ(expected, files_.forgotten);
}

TEST_F(Listing, WithoutAttributesCountsNothing) {
  list(FUSE_READDIR, 4096);
  kernel_.give_up_next();
  files_.answer(0);
  EXPECT_TRUE(files_.forgotten.empty());
}

TEST_F(Listing, ThatFailsHalfwayTellsWhatItHas) {
  const auto request = list(FUSE_READDIRPLUS, 4096);
  files_.answer(0, os_error(EIO, "list"));
  EXPECT_EQ(0, kernel_.reply(request)->error);
  const auto next = list(FUSE_READDIRPLUS, 4096, 4);
  files_.answer(1, os_error(EIO, "list"));
  EXPECT_EQ(-EIO, kernel_.reply(next)->error);
}

}  // namespace
}  // namespace sandbar::fuse
