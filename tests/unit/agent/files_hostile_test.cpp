// SPDX-License-Identifier: Apache-2.0
// Requests that no kernel would send: names that are none, in each request that has one; the doors of /proc as objects.
#include <sys/xattr.h>

#include "files_fixture.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

class FilesHostileTest : public FilesTest {
 protected:
  FilesHostileTest() : root(service.attach()) {
    std::filesystem::create_directory(tree.outside("outside"));
    std::ofstream(tree.outside("outside/secret")) << "OUTSIDE";
    std::filesystem::create_directory(tree.path("dir"));
    tree.write("dir/secret", "inside");
  }

  /// Each request that has a name, with this one.
  void expect_refused(const base::Bytes& name, int error) {
    const wire::ObjectId file = service.lookup(service.lookup(root, "dir"), "secret");
    const auto refused = [&](wire::RequestBody request) {
      EXPECT_EQ(error, service.error_of(std::move(request))) << '"' << name.substr(0, 20) << '"';
    };
    refused(wire::Lookup{root, name, service.new_object()});
    for (const std::uint32_t flags : {O_RDONLY, O_RDWR | O_EXCL, O_RDWR | O_TRUNC})
      refused(wire::Create{root, name, 0644, flags, service.new_object(), service.new_handle()});
    wire::MakeDirectory directory;
    directory.parent = root;
    directory.name = name;
    directory.mode = 0755;
    directory.object = service.new_object();
    refused(directory);
    wire::MakeSymlink link;
    link.parent = root;
    link.name = name;
    link.target = "x";
    link.object = service.new_object();
    refused(link);
    wire::MakeNode node;
    node.parent = root;
    node.name = name;
    node.mode = S_IFIFO | 0644;
    node.object = service.new_object();
    refused(node);
    refused(wire::MakeLink{file, root, name});
    refused(wire::Unlink{root, name});
    refused(wire::RemoveDirectory{root, name});
    for (const std::uint32_t flags : {0, 1, 2}) {
      refused(wire::Rename{root, name, root, "new", flags});
      refused(wire::Rename{root, "dir", root, name, flags});
    }
  }

  void expect_all_untouched() {
    std::ifstream in(tree.outside("outside/secret"));
    std::string content;
    in >> content;
    EXPECT_EQ("OUTSIDE", content);
    EXPECT_EQ("inside", tree.read("dir/secret"));
    for (const std::string& place : {tree.outside(""), tree.outside("outside"), tree.root(), tree.path("dir")}) {
      const std::filesystem::directory_iterator entries(place);
      EXPECT_EQ(place == tree.outside("") ? 2 : 1, std::distance(begin(entries), end(entries))) << place;
    }
  }

  wire::ObjectId root;
};

TEST_F(FilesHostileTest, NamesThatAreNone) {
  for (const char* name : {"", ".", "..", "/", "//", "/etc", "dir/", "dir/secret", "../outside", "../outside/secret",
                           "dir/../../outside", "./dir"})
    expect_refused(name, EINVAL);
  for (const base::Bytes& name : {base::Bytes("\0", 1), base::Bytes("dir\0", 4), base::Bytes("dir\0x", 5),
                                  base::Bytes("..\0", 3), base::Bytes("\0../outside", 11)})
    expect_refused(name, EINVAL);
  expect_all_untouched();
}

TEST_F(FilesHostileTest, NamesAtTheBound) {
  expect_refused(base::Bytes(wire::kMaxName + 1, 'n'), ENAMETOOLONG);
  expect_refused(base::Bytes(4096, 'n'), ENAMETOOLONG);
  expect_refused(base::Bytes(256, '.'), ENAMETOOLONG);
  // Names of dots that are names.
  for (const base::Bytes& name :
       {base::Bytes("..."), base::Bytes(wire::kMaxName, '.'), base::Bytes("..a"), base::Bytes(" ")}) {
    service.must(wire::Close{service.create(root, name).second});
    EXPECT_TRUE(tree.exists(name));
    service.must(wire::Unlink{root, name});
  }
  expect_all_untouched();
}

// They are found, as the symlinks that lstat(2) shows, and nothing passes through them.
TEST_F(FilesHostileTest, DoorsOfProcAsObjects) {
  Service proc("/proc");
  const wire::ObjectId own = proc.lookup(proc.attach(), std::to_string(::getpid()));
  const base::UniqueFd secret(::open(tree.outside("outside/secret").c_str(), O_RDWR | O_CLOEXEC));
  const base::UniqueFd outside(::open(tree.outside("outside").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const wire::ObjectId fds = proc.lookup(own, "fd");
  const std::vector<wire::ObjectId> doors{proc.lookup(own, "root"), proc.lookup(own, "cwd"),
                                          proc.lookup(fds, std::to_string(secret.get())),
                                          proc.lookup(fds, std::to_string(outside.get()))};
  struct stat before {};
  ASSERT_EQ(0, ::fstat(secret.get(), &before));
  for (const wire::ObjectId door : doors) {
    for (const std::uint32_t flags : {O_RDONLY, O_RDWR, O_WRONLY | O_TRUNC, O_RDONLY | O_DIRECTORY})
      EXPECT_EQ(ELOOP, proc.error_of(wire::Open{door, proc.new_handle(), flags}));
    for (const char* name : {"secret", "etc", "tmp"}) {
      EXPECT_EQ(ENOTDIR, proc.error_of(wire::Lookup{door, name, proc.new_object()}));
      EXPECT_EQ(ENOTDIR, proc.error_of(wire::Unlink{door, name}));
      EXPECT_EQ(ENOTDIR, proc.error_of(wire::Create{door, name, 0644, O_RDWR, proc.new_object(), proc.new_handle()}));
    }
    wire::SetAttributes set;
    set.object = door;
    set.mode = 0777;
    EXPECT_NE(0, proc.error_of(set));
    set.mode.reset();
    set.size = 0;
    EXPECT_NE(0, proc.error_of(set));
    set.size.reset();
    set.modified = wire::Time{1, 0};
    proc.error_of(set);  // of the link, where the kernel allows it
    EXPECT_NE(0, proc.error_of(wire::SetXattr{door, "user.x", 0}, {}, "v"));
    EXPECT_NE(0, proc.error_of(wire::SetXattr{door, "trusted.x", 0}, {}, "v"));
    EXPECT_NE(0, proc.error_of(wire::MakeLink{door, fds, "stolen"}));
  }
  struct stat after {};
  ASSERT_EQ(0, ::fstat(secret.get(), &after));
  EXPECT_EQ(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(before.st_nlink, after.st_nlink);
  EXPECT_EQ(-1, ::fgetxattr(secret.get(), "user.x", nullptr, 0));
  for (const char* fd : {"root", "cwd", "exe", "fd/0", "task/../root", "root/tmp"})
    EXPECT_EQ(ELOOP, proc.error_of(wire::Attach{proc.new_object(), std::to_string(::getpid()) + "/" + fd})) << fd;
  expect_all_untouched();
}

}  // namespace
}  // namespace sandbar::agent
