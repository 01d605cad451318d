// SPDX-License-Identifier: Apache-2.0
// What a mount shows when the sandbox's agent has forgotten it: the file system on the real file service.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fakes/restarting_agent.h"
#include "vfs/file_system.h"

namespace sandbar::vfs {
namespace {

class LostSession : public testing::Test {
 protected:
  LostSession() {
    Options options;
    options.id_map = IdMapMode::none;
    caller.uid = sandbox.root().identities().uid();
    caller.gid = sandbox.root().identities().gid();
    auto opened = run<std::unique_ptr<FileSystem>>([&](auto done) {
      FileSystem::open(sandbox.loop, sandbox.files(), options, std::move(done));
      return OperationId();
    });
    fs = std::move(opened).value();
  }
  ~LostSession() override { fs.reset(); }

  template <class T>
  using Pending = std::shared_ptr<std::optional<Result<T>>>;
  template <class T, class Start>
  Pending<T> start(Start call) {
    auto pending = std::make_shared<std::optional<Result<T>>>();
    call(FileSystem::Done<T>([pending](Result<T> result) { pending->emplace(std::move(result)); }));
    return pending;
  }
  template <class T>
  Result<T> finish(const Pending<T>& pending) {
    if (!sandbox.loop.run_until([&] { return pending->has_value(); })) return make_error(Errc::timeout, "test");
    return std::move(**pending);
  }
  template <class T, class Start>
  Result<T> run(Start call) {
    return finish<T>(start<T>(std::move(call)));
  }
  template <class T>
  static int os_errno(const Result<T>& result) {
    if (result) return 0;
    return result.error().code == Errc::os ? result.error().os_errno : -1;
  }

  Result<Entry> lookup(NodeId parent, const std::string& name) {
    return run<Entry>([&](auto done) { return fs->lookup(caller, parent, name, std::move(done)); });
  }
  FileId open(NodeId node, std::uint32_t flags = O_RDWR) {
    return run<Opened>([&](auto done) { return fs->open_file(caller, node, flags, std::move(done)); }).value().file;
  }
  Pending<base::Bytes> start_read(FileId file) {
    return start<base::Bytes>([&](auto done) { return fs->read(file, 0, 100, std::move(done)); });
  }
  Result<base::Bytes> read(FileId file) { return finish<base::Bytes>(start_read(file)); }
  Result<std::uint64_t> write(FileId file, const std::string& data) {
    return run<std::uint64_t>([&](auto done) { return fs->write(file, 0, data, false, std::move(done)); });
  }
  Result<Stat> stat(NodeId node) {
    return run<Stat>([&](auto done) { return fs->get_attributes(caller, node, {}, std::move(done)); });
  }
  Result<void> lock(FileId file, std::uint64_t owner) {
    LockRequest request;
    request.owner = owner;
    request.type = LockType::write;
    return run<void>([&](auto done) { return fs->set_lock(file, request, std::move(done)); });
  }
  Result<void> flush(FileId file, std::uint64_t owner) {
    return run<void>([&](auto done) { return fs->flush(file, owner, std::move(done)); });
  }
  std::string state() {
    return run<base::Bytes>(
               [&](auto done) { return fs->get_xattr(caller, kRootNode, "user.sandbar.state", std::move(done)); })
        .value();
  }
  void lose_and_go_on() {
    sandbox.lose(true);
    sandbox.go_on();
  }

  fakes::RestartingAgent sandbox;
  Caller caller;
  std::unique_ptr<FileSystem> fs;
};

TEST_F(LostSession, NodesAndOpenFilesGoOn) {
  std::filesystem::create_directory(sandbox.path("d"));
  sandbox.put("d/f", "data");
  const Entry directory = lookup(kRootNode, "d").value();
  const Entry entry = lookup(directory.node, "f").value();
  const FileId file = open(entry.node);
  sandbox.lose(true);
  EXPECT_EQ(state(), "lost");
  const auto waiting = start_read(file);
  sandbox.go_on();
  EXPECT_EQ(*finish<base::Bytes>(waiting), "data");
  EXPECT_EQ(state(), "connected");
  EXPECT_EQ(os_errno(write(file, "DATA")), 0);
  EXPECT_EQ(sandbox.get("d/f"), "DATA");
  EXPECT_EQ(lookup(directory.node, "f")->node, entry.node);
  EXPECT_EQ(os_errno(stat(entry.node)), 0);
  EXPECT_EQ(os_errno(stat(kRootNode)), 0);
}

TEST_F(LostSession, ALostLockIsEioUntilTheFileIsClosed) {
  sandbox.put("f", "data");
  const Entry entry = lookup(kRootNode, "f").value();
  const FileId locked = open(entry.node);
  const FileId other = open(entry.node);
  ASSERT_EQ(os_errno(lock(locked, 7)), 0);
  lose_and_go_on();
  EXPECT_EQ(os_errno(read(locked)), EIO);
  EXPECT_EQ(os_errno(write(locked, "x")), EIO);
  EXPECT_EQ(os_errno(lock(locked, 7)), EIO);
  EXPECT_EQ(os_errno(run<void>([&](auto done) { return fs->fsync(locked, false, std::move(done)); })), EIO);
  EXPECT_EQ(*read(other), "data");
  EXPECT_EQ(os_errno(stat(entry.node)), 0) << "the name is nobody's lock";
  EXPECT_EQ(os_errno(flush(locked, 7)), 0);
  EXPECT_EQ(os_errno(read(locked)), EIO) << "a dup of it is open still";
  fs->release(locked, std::nullopt);
  const FileId again = open(entry.node);
  EXPECT_EQ(*read(again), "data");
  EXPECT_EQ(os_errno(lock(again, 7)), 0);
  EXPECT_EQ(sandbox.get("f"), "data");
}

TEST_F(LostSession, AReplacedFileIsStaleAndFoundAnewByItsName) {
  sandbox.put("f", "old");
  const Entry entry = lookup(kRootNode, "f").value();
  const FileId file = open(entry.node);
  sandbox.lose(true);
  sandbox.put("new", "new");
  std::filesystem::rename(sandbox.path("new"), sandbox.path("f"));
  sandbox.go_on();
  EXPECT_EQ(os_errno(write(file, "damage")), ESTALE);
  EXPECT_EQ(os_errno(stat(entry.node)), ESTALE);
  const Entry now = lookup(kRootNode, "f").value();
  EXPECT_NE(now.node, entry.node);
  EXPECT_EQ(*read(open(now.node)), "new");
  EXPECT_EQ(sandbox.get("f"), "new");
}

TEST_F(LostSession, WhatIsNotKnownIsAnError) {
  const auto unlink = [this] {
    return start<void>([&](auto done) { return fs->unlink(caller, kRootNode, "f", std::move(done)); });
  };
  sandbox.put("f", "");
  sandbox.silence();
  const auto removing = unlink();
  ASSERT_TRUE(sandbox.loop.run_until([&] { return !std::filesystem::exists(sandbox.path("f")); }));
  sandbox.lose(true);
  sandbox.put("f", "of somebody else");
  sandbox.go_on();
  const auto removed = finish<void>(removing);
  ASSERT_FALSE(removed.ok());
  EXPECT_EQ(removed.error().code, Errc::unknown);
  EXPECT_EQ(sandbox.get("f"), "of somebody else");
  EXPECT_TRUE(finish<void>(unlink()).ok());
}

}  // namespace
}  // namespace sandbar::vfs
