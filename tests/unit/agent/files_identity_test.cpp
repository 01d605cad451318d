// SPDX-License-Identifier: Apache-2.0
// Acting as the request's caller: the kernel's own permission errors, owners and clearing of bits.
#include <grp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "unit/agent/files_fixture.h"

namespace sandbar::agent {
namespace {

constexpr std::uint32_t kUser = 1000;
constexpr std::uint32_t kOther = 1001;

std::optional<wire::Caller> caller(std::uint32_t uid, std::vector<std::uint32_t> groups = {}, std::uint32_t umask = 0) {
  return wire::Caller{uid, uid, std::move(groups), umask};
}

class FilesIdentityTest : public FilesTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "acting as others needs root; what an agent of a user does is tested apart";
    root = service.attach();
  }
  /// A file of root's that the user may not even look at.
  void write_private(const std::string& name) {
    tree.write(name, "secret");
    ::chmod(tree.path(name).c_str(), 0600);
  }
  std::pair<wire::ObjectId, wire::HandleId> create_as(std::optional<wire::Caller> who, const std::string& name,
                                                      std::uint32_t mode, std::uint32_t flags = O_RDWR) {
    const std::pair ids(service.new_object(), service.new_handle());
    service.must_as(std::move(who), wire::Create{root, name, mode, flags, ids.first, ids.second});
    return ids;
  }

  wire::ObjectId root;
};

TEST_F(FilesIdentityTest, NewObjectsBelongToTheCaller) {
  create_as(caller(kUser), "file", 0644);
  service.must_as(caller(kUser), wire::MakeDirectory{root, "dir", 0755, service.new_object()});
  service.must_as(caller(kUser), wire::MakeSymlink{root, "link", "x", service.new_object()});
  service.must_as(caller(kUser), wire::MakeNode{root, "fifo", S_IFIFO | 0600, 0, service.new_object()});
  for (const char* name : {"file", "dir", "link", "fifo"}) {
    EXPECT_EQ(kUser, tree.stat(name).st_uid) << name;
    EXPECT_EQ(kUser, tree.stat(name).st_gid) << name;
  }
  create_as(std::nullopt, "own", 0644);
  EXPECT_EQ(0U, tree.stat("own").st_uid);
  create_as(caller(0), "roots", 0644);
  EXPECT_EQ(0U, tree.stat("roots").st_uid);
}

TEST_F(FilesIdentityTest, PermissionErrorsAreTheKernels) {
  write_private("private");
  std::filesystem::create_directory(tree.path("closed"));
  ::chmod(tree.path("closed").c_str(), 0700);
  tree.write("closed/file", "x");
  const wire::ObjectId file = service.lookup(root, "private");
  const wire::ObjectId closed = service.lookup(root, "closed");
  const wire::ObjectId below = service.lookup(closed, "file");
  const auto user = caller(kUser);
  EXPECT_EQ(EACCES, service.error_of(wire::Open{file, service.new_handle(), O_RDONLY}, user));
  EXPECT_EQ(EACCES, service.error_of(wire::Open{file, service.new_handle(), O_RDONLY | O_TRUNC}, user));
  EXPECT_EQ(EACCES, service.error_of(wire::Lookup{closed, "file", service.new_object()}, user));
  EXPECT_EQ(EACCES, service.error_of(wire::Open{closed, service.new_handle(), O_RDONLY | O_DIRECTORY}, user));
  EXPECT_EQ(EACCES, service.error_of(wire::Unlink{closed, "file"}, user));
  EXPECT_EQ(EACCES, service.error_of(wire::MakeDirectory{closed, "d", 0755, service.new_object()}, user));
  wire::SetAttributes set;
  set.object = file;
  set.mode = 0777;
  EXPECT_EQ(EPERM, service.error_of(set, user));
  set = {};
  set.object = file;
  set.size = 0;
  EXPECT_EQ(EACCES, service.error_of(set, user));
  set = {};
  set.object = file;
  set.uid = kUser;
  EXPECT_EQ(EPERM, service.error_of(set, user));
  set = {};
  set.object = file;
  set.modified = wire::Time{1, 0};
  EXPECT_EQ(EPERM, service.error_of(set, user));
  set = {};
  set.object = file;
  set.modified_now = set.accessed_now = true;
  EXPECT_EQ(EACCES, service.error_of(set, user));
  EXPECT_EQ(EPERM, service.error_of(wire::SetXattr{below, "trusted.t", 0}, user, "x"));
  base::Bytes capability(20, '\0');  // struct vfs_cap_data of revision 2, granting nothing
  capability[3] = 2;
  EXPECT_EQ(EPERM, service.error_of(wire::SetXattr{below, "security.capability", 0}, user, capability));
  EXPECT_EQ("secret", tree.read("private"));
  // Root itself still may.
  service.must(wire::Open{file, service.new_handle(), O_RDONLY});
  service.must_as(caller(0), wire::Open{file, service.new_handle(), O_RDONLY});
}

TEST_F(FilesIdentityTest, GroupsCount) {
  tree.write("shared", "x");
  ASSERT_EQ(0, ::chown(tree.path("shared").c_str(), 0, 2000));
  ::chmod(tree.path("shared").c_str(), 0660);
  const wire::ObjectId file = service.lookup(root, "shared");
  EXPECT_EQ(EACCES, service.error_of(wire::Open{file, service.new_handle(), O_RDWR}, caller(kUser)));
  EXPECT_EQ(0, service.error_of(wire::Open{file, service.new_handle(), O_RDWR}, caller(kUser, {5, 2000})));
  EXPECT_EQ(EACCES, service.error_of(wire::Open{file, service.new_handle(), O_RDWR}, caller(kUser))) << "and end";
  // A member may give the group to a file of its own; another may not.
  const auto [own, handle] = create_as(caller(kUser), "own", 0644);
  wire::SetAttributes set;
  set.object = own;
  set.gid = 2000;
  EXPECT_EQ(EPERM, service.error_of(set, caller(kUser)));
  EXPECT_EQ(0, service.error_of(set, caller(kUser, {2000})));
}

TEST_F(FilesIdentityTest, UmaskIsTheCallersAndDefaultAclsReplaceIt) {
  create_as(caller(kUser, {}, 027), "file", 0666);
  EXPECT_EQ(0640U, tree.stat("file").st_mode & 07777);
  create_as(caller(kUser), "open", 0666);
  EXPECT_EQ(0666U, tree.stat("open").st_mode & 07777);
  service.must_as(caller(kUser, {}, 077), wire::MakeDirectory{root, "dir", 01777, service.new_object()});
  EXPECT_EQ(01700U, tree.stat("dir").st_mode & 07777);
  // user::rwx group::rwx other::r-x as the default ACL of a directory (acl(5), the xattr's version 2).
  std::filesystem::create_directory(tree.path("acl"));
  ::chmod(tree.path("acl").c_str(), 0777);
  const unsigned char acl[] = {2, 0, 0,    0,    1,    0,    7,    0, 0xff, 0xff, 0xff, 0xff, 4,    0,
                               7, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 5,    0,    0xff, 0xff, 0xff, 0xff};
  ASSERT_EQ(0, ::setxattr(tree.path("acl").c_str(), "system.posix_acl_default", acl, sizeof acl, 0));
  const wire::ObjectId with_acl = service.lookup(root, "acl");
  service.must_as(caller(kUser, {}, 077),
                  wire::Create{with_acl, "file", 0666, O_RDWR, service.new_object(), service.new_handle()});
  EXPECT_EQ(0664U, tree.stat("acl/file").st_mode & 07777);
}

TEST_F(FilesIdentityTest, WritingClearsSetuid) {
  const auto [object, handle] = create_as(caller(kUser), "file", 0777);
  const auto set_bits = [&, object = object] {
    wire::SetAttributes set;
    set.object = object;
    set.mode = 06777;
    service.must_as(caller(kUser), set);
    ASSERT_EQ(06777U, tree.stat("file").st_mode & 07777);
  };
  set_bits();
  service.must_as(caller(kUser), wire::Write{handle, 0}, "x");
  EXPECT_EQ(0777U, tree.stat("file").st_mode & 07777);
  set_bits();
  service.must_as(caller(kOther), wire::Write{handle, 0}, "x");
  EXPECT_EQ(0777U, tree.stat("file").st_mode & 07777);
  set_bits();
  wire::SetAttributes truncate;
  truncate.object = object;
  truncate.size = 0;
  service.must_as(caller(kUser), truncate);
  EXPECT_EQ(0777U, tree.stat("file").st_mode & 07777);
  // As the client's kernel asks for it: of others, too, who may write the file but not change its mode.
  set_bits();
  truncate.mode = 0777;
  service.must_as(caller(kOther), truncate);
  EXPECT_EQ(0777U, tree.stat("file").st_mode & 07777);
  truncate.mode = 0700;
  EXPECT_EQ(EPERM, service.error_of(truncate, caller(kOther)));
  EXPECT_EQ(0777U, tree.stat("file").st_mode & 07777);
  set_bits();
  service.must_as(caller(kUser), wire::Open{object, service.new_handle(), O_WRONLY | O_TRUNC});
  EXPECT_EQ(0777U, tree.stat("file").st_mode & 07777);
  set_bits();
  wire::SetAttributes give;
  give.object = object;
  give.uid = kOther;
  service.must_as(caller(0), give);
  EXPECT_EQ(0777U, tree.stat("file").st_mode & 07777);
  give.uid = kUser;
  service.must_as(caller(0), give);
  // Root's writes keep them, as CAP_FSETID says.
  set_bits();
  service.must_as(caller(0), wire::Write{handle, 0}, "x");
  EXPECT_EQ(06777U, tree.stat("file").st_mode & 07777);
}

TEST_F(FilesIdentityTest, WhatMayBeExecutedOnlyIsOpenedForThat) {
  const auto [object, handle] = create_as(caller(kUser), "program", 0711);
  const auto open_as = [&, object = object](std::uint32_t uid, std::uint32_t flags) {
    return service.error_of(wire::Open{object, service.new_handle(), flags}, caller(uid));
  };
  EXPECT_EQ(EACCES, open_as(kOther, O_RDONLY));
  EXPECT_EQ(0, open_as(kOther, O_RDONLY | wire::kOpenToExecute));
  EXPECT_EQ(EACCES, open_as(kOther, O_WRONLY | wire::kOpenToExecute));
  EXPECT_EQ(EACCES, open_as(kOther, O_RDONLY | O_TRUNC | wire::kOpenToExecute));
  ASSERT_EQ(0, ::chmod(tree.path("program").c_str(), 0710));
  EXPECT_EQ(EACCES, open_as(kOther, O_RDONLY | wire::kOpenToExecute));
}

TEST_F(FilesIdentityTest, SetgidGoesWhereTheGroupIsForeign) {
  const auto [object, handle] = create_as(caller(kUser), "file", 0755);
  ASSERT_EQ(0, ::chown(tree.path("file").c_str(), kUser, 2000));
  wire::SetAttributes set;
  set.object = object;
  set.mode = 02755;
  service.must_as(caller(kUser), set);
  EXPECT_EQ(0755U, tree.stat("file").st_mode & 07777);
  service.must_as(caller(kUser, {2000}), set);
  EXPECT_EQ(02755U, tree.stat("file").st_mode & 07777);
}

TEST_F(FilesIdentityTest, StickyDirectories) {
  std::filesystem::create_directory(tree.path("tmp"));
  ::chmod(tree.path("tmp").c_str(), 01777);
  tree.write("tmp/theirs", "x");
  const wire::ObjectId tmp = service.lookup(root, "tmp");
  EXPECT_EQ(EPERM, service.error_of(wire::Unlink{tmp, "theirs"}, caller(kUser)));
  EXPECT_EQ(EPERM, service.error_of(wire::Rename{tmp, "theirs", tmp, "mine", 0}, caller(kUser)));
}

TEST_F(FilesIdentityTest, AFileNobodyMayReadCanBeCreatedOpen) {
  const auto [object, handle] = create_as(caller(kUser), "none", 0000, O_RDWR | O_EXCL);
  service.must_as(caller(kUser), wire::Write{handle, 0}, "x");
  EXPECT_EQ(EACCES, service.error_of(wire::Open{object, service.new_handle(), O_RDONLY}, caller(kUser)));
}

// Objects are found again with the agent's rights, and used with the caller's.
TEST_F(FilesIdentityTest, EvictedObjectsOfUsers) {
  for (const bool file_handles : {true, false}) {
    RootOptions options;
    options.max_cached_descriptors = 1;
    options.file_handles = file_handles;
    Service small(tree.root(), options);
    const wire::ObjectId top = small.attach();
    std::filesystem::create_directories(tree.path("closed/dir"));
    tree.write("closed/dir/file", "x");
    ASSERT_EQ(0, ::chown(tree.path("closed/dir/file").c_str(), kUser, kUser));
    const wire::ObjectId closed = small.lookup(top, "closed");
    const wire::ObjectId dir = small.lookup(closed, "dir");
    const wire::ObjectId file = small.lookup(dir, "file");
    ::chmod(tree.path("closed").c_str(), 0700);
    small.must(wire::GetAttributes{top, {}});
    small.must_as(caller(kUser), wire::Open{file, small.new_handle(), O_RDWR});
    small.must(wire::GetAttributes{top, {}});
    EXPECT_EQ(EACCES, small.error_of(wire::Open{file, small.new_handle(), O_RDWR}, caller(kOther)));
    EXPECT_EQ(EACCES, small.error_of(wire::Lookup{closed, "dir", small.new_object()}, caller(kUser)));
  }
}

TEST_F(FilesIdentityTest, WorkersComeBackToTheAgent) {
  write_private("private");
  const wire::ObjectId file = service.lookup(root, "private");
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(EACCES, service.error_of(wire::Open{file, service.new_handle(), O_RDONLY}, caller(kUser)));
    const wire::HandleId handle = service.open(file);
    service.must(wire::Close{handle});
  }
}

TEST_F(FilesIdentityTest, IdentitiesThatDoNotExist) {
  wire::Caller nobody;
  nobody.uid = ~0U;
  EXPECT_EQ(EPERM, service.error_of(wire::GetAttributes{root, {}}, nobody));
  nobody.uid = kUser;
  nobody.gid = ~0U;
  EXPECT_EQ(EPERM, service.error_of(wire::GetAttributes{root, {}}, nobody));
  nobody.gid = kUser;
  nobody.groups = {~0U};
  EXPECT_EQ(EPERM, service.error_of(wire::GetAttributes{root, {}}, nobody));
  service.must(wire::GetAttributes{root, {}});
}

TEST_F(FilesIdentityTest, CapabilitiesAreDroppedAndComeBack) {
  const Identities own = Identities::of_process();
  ASSERT_TRUE(own.can_switch());
  const auto fsuid = [] { return static_cast<std::uint32_t>(::syscall(SYS_setfsuid, -1)); };
  {
    const auto user_caller = caller(kUser);
    const ActAs user(own, user_caller);
    ASSERT_TRUE(user.ok());
    EXPECT_EQ(kUser, fsuid());
    EXPECT_NE(0, ::chown(tree.root().c_str(), 0, 0)) << "no CAP_CHOWN";
    EXPECT_NE(0, ::syscall(SYS_setgroups, 0, nullptr)) << "no capability at all";
    {
      const ActAs agent(own, std::nullopt);
      EXPECT_EQ(0U, fsuid());
      EXPECT_EQ(0, ::chown(tree.root().c_str(), 0, 0));
    }
    EXPECT_EQ(kUser, fsuid());
    const auto other_caller = caller(kOther);
    const ActAs other(own, other_caller);
    EXPECT_EQ(kOther, fsuid());
  }
  EXPECT_EQ(0U, fsuid());
  EXPECT_EQ(0, ::chown(tree.root().c_str(), 0, 0));
}

// An agent that runs as a user: in a child, as this process could not come back.
TEST(FilesAsUser, OnlyTheAgentsOwnIdentityActs) {
  TempTree tree;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(kUser) != 0 || ::setuid(kUser) != 0)) ::_exit(9);
    {
      Service service(tree.root());
      const std::uint32_t own = ::geteuid();
      const wire::ObjectId root = service.attach();
      wire::Caller self{own, ::getegid(), {4, 5}, 022};
      service.must_as(self, wire::Create{root, "file", 0666, O_RDWR, service.new_object(), service.new_handle()});
      EXPECT_EQ(0644U, tree.stat("file").st_mode & 07777);
      EXPECT_EQ(own, tree.stat("file").st_uid);
      EXPECT_EQ(EPERM, service.error_of(wire::GetAttributes{root, {}}, wire::Caller{0, 0, {}, 0}));
      EXPECT_EQ(EPERM, service.error_of(wire::GetAttributes{root, {}}, wire::Caller{own + 1, ::getegid(), {}, 0}));
      EXPECT_EQ(EPERM, service.error_of(wire::GetAttributes{root, {}}, wire::Caller{own, 4242, {}, 0}));
      EXPECT_FALSE(service.root().objects().uses_file_handles());
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace sandbar::agent
