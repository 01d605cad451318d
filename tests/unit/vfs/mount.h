// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fakes/fake_loop.h"
#include "fakes/fake_remote.h"
#include "vfs/file_system.h"

namespace sandbar::vfs {

/// One operation's outcome. Fails the test when it is completed twice, or inside the call that started it.
template <class T>
class Pending {
 public:
  FileSystem::Done<T> done() {
    return [state = state_](Result<T> result) {
      EXPECT_FALSE(state->starting) << "completed inside the call";
      EXPECT_FALSE(state->result.has_value()) << "completed twice";
      state->result.emplace(std::move(result));
    };
  }
  void started(OperationId operation) {
    id = operation;
    state_->starting = false;
  }
  [[nodiscard]] bool ready() const { return state_->result.has_value(); }
  Result<T>& result() { return state_->result.value(); }
  /// The errno of a refusal, 0 for success, -1 for an error of another kind or none yet.
  [[nodiscard]] int os_errno() const {
    if (!ready()) return -1;
    if (state_->result->ok()) return 0;
    return state_->result->error().code == Errc::os ? state_->result->error().os_errno : -1;
  }
  [[nodiscard]] bool failed_with(Errc code) const {
    return ready() && !state_->result->ok() && state_->result->error().code == code;
  }

  OperationId id;

 private:
  struct State {
    bool starting = true;
    std::optional<Result<T>> result;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Takes at most `room` entries.
struct FakeSink final : ListSink {
  explicit FakeSink(std::size_t entries = SIZE_MAX) : room(entries) {}
  bool add(const Listed& entry) override {
    EXPECT_FALSE(full) << "offered after a refusal";
    if (taken.size() == room) {
      full = true;
      return false;
    }
    taken.push_back(entry);
    return true;
  }
  std::size_t room;
  bool full = false;
  std::vector<Listed> taken;
};

/// A FileSystem on a FakeRemote, and each operation as a call that starts it or runs it to its end.
class Mount : public testing::Test {
 protected:
  void open(Options options = {}) {
    Pending<std::unique_ptr<FileSystem>> pending;
    FileSystem::open(loop, remote, std::move(options), pending.done());
    pending.started({});
    loop.drain();
    ASSERT_TRUE(pending.ready() && pending.result().ok());
    fs = std::move(*pending.result());
    remote.counts.clear();
  }

  /// Starts an operation of the file system.
  template <class T, class Start>
  Pending<T> start(Start&& call) {
    Pending<T> pending;
    pending.started(call(pending.done()));
    return pending;
  }
  template <class T>
  Pending<T> finish(Pending<T> pending) {
    loop.drain();
    EXPECT_TRUE(pending.ready());
    return pending;
  }

  using Bytes = base::Bytes;
  Pending<Entry> start_lookup(NodeId parent, Bytes name) {
    return start<Entry>([&](auto done) { return fs->lookup(caller, parent, name, std::move(done)); });
  }
  Pending<Entry> lookup(NodeId parent, Bytes name) { return finish(start_lookup(parent, std::move(name))); }
  /// Looks up a path from the root; the kernel then holds a lookup of each name on the way.
  Entry find(const std::string& path) {
    Entry entry;
    entry.node = kRootNode;
    for (std::size_t at = 1; at < path.size();) {
      std::size_t end = path.find('/', at);
      if (end == std::string::npos) end = path.size();
      auto found = lookup(entry.node, path.substr(at, end - at));
      EXPECT_EQ(found.os_errno(), 0) << path;
      if (found.os_errno() != 0) return {};
      entry = *found.result();
      at = end + 1;
    }
    return entry;
  }
  Pending<Stat> start_stat(NodeId node, FileId file = {}) {
    return start<Stat>([&](auto done) { return fs->get_attributes(caller, node, file, std::move(done)); });
  }
  Pending<Stat> stat(NodeId node, FileId file = {}) { return finish(start_stat(node, file)); }
  Pending<Stat> change(NodeId node, Changes changes, FileId file = {}) {
    return finish(
        start<Stat>([&](auto done) { return fs->set_attributes(caller, node, file, changes, std::move(done)); }));
  }
  Pending<Opened> start_open(NodeId node, std::uint32_t flags) {
    return start<Opened>([&](auto done) { return fs->open_file(caller, node, flags, std::move(done)); });
  }
  Pending<Opened> open_file(NodeId node, std::uint32_t flags) { return finish(start_open(node, flags)); }
  FileId open_id(NodeId node, std::uint32_t flags) {
    auto opened = open_file(node, flags);
    EXPECT_EQ(opened.os_errno(), 0);
    return opened.os_errno() == 0 ? opened.result()->file : FileId{};
  }
  FileId open_directory(NodeId node) {
    auto opened = finish(start<Opened>([&](auto done) { return fs->open_directory(caller, node, std::move(done)); }));
    EXPECT_EQ(opened.os_errno(), 0);
    return opened.os_errno() == 0 ? opened.result()->file : FileId{};
  }
  Pending<Created> start_create(NodeId parent, Bytes name, std::uint32_t flags) {
    return start<Created>([&](auto done) { return fs->create(caller, parent, name, 0644, flags, std::move(done)); });
  }
  Pending<Created> create(NodeId parent, Bytes name, std::uint32_t flags) {
    return finish(start_create(parent, std::move(name), flags));
  }
  Pending<Entry> make_directory(NodeId parent, Bytes name) {
    return finish(
        start<Entry>([&](auto done) { return fs->make_directory(caller, parent, name, 0755, std::move(done)); }));
  }
  Pending<Bytes> start_read(FileId file, std::uint64_t offset, std::uint32_t size) {
    return start<Bytes>([&](auto done) { return fs->read(file, offset, size, std::move(done)); });
  }
  Pending<Bytes> read(FileId file, std::uint64_t offset, std::uint32_t size) {
    return finish(start_read(file, offset, size));
  }
  Pending<std::uint64_t> start_write(FileId file, std::uint64_t offset, Bytes data) {
    return start<std::uint64_t>([&](auto done) { return fs->write(file, offset, data, false, std::move(done)); });
  }
  Pending<std::uint64_t> write(FileId file, std::uint64_t offset, Bytes data) {
    return finish(start_write(file, offset, std::move(data)));
  }
  Pending<void> unlink(NodeId parent, Bytes name) {
    return finish(start<void>([&](auto done) { return fs->unlink(caller, parent, name, std::move(done)); }));
  }
  Pending<void> start_list(FileId file, std::uint64_t cookie, bool attributes, ListSink& sink) {
    return start<void>([&](auto done) { return fs->list(caller, file, cookie, attributes, sink, std::move(done)); });
  }
  Pending<void> list(FileId file, std::uint64_t cookie, bool attributes, ListSink& sink) {
    return finish(start_list(file, cookie, attributes, sink));
  }
  Pending<Bytes> get_xattr(NodeId node, Bytes name) {
    return finish(start<Bytes>([&](auto done) { return fs->get_xattr(caller, node, name, std::move(done)); }));
  }
  Pending<void> set_xattr(NodeId node, Bytes name, Bytes value, std::uint32_t flags = 0) {
    return finish(
        start<void>([&](auto done) { return fs->set_xattr(caller, node, name, value, flags, std::move(done)); }));
  }
  Pending<void> start_lock(FileId file, LockRequest lock) {
    return start<void>([&](auto done) { return fs->set_lock(file, lock, std::move(done)); });
  }
  Pending<void> lock(FileId file, LockRequest request) { return finish(start_lock(file, request)); }
  Pending<void> flush(FileId file, std::uint64_t owner) {
    return finish(start<void>([&](auto done) { return fs->flush(file, owner, std::move(done)); }));
  }
  void release(FileId file) {
    fs->release(file, std::nullopt);
    loop.drain();
  }
  void forget(NodeId node, std::uint64_t count = 1) {
    fs->forget(node, count);
    loop.drain();
  }

  /// Nothing is known, open or under way but the root, on either side, and no id was used wrongly.
  void expect_clean() {
    loop.drain();
    EXPECT_EQ(fs->counts().nodes, 1U);
    EXPECT_EQ(fs->counts().files, 0U);
    expect_ids_right();
    EXPECT_EQ(remote.bound_objects(), 1U);
    EXPECT_EQ(remote.bound_handles(), 0U);
  }
  void expect_ids_right() {
    EXPECT_EQ(fs->counts().operations, 0U);
    EXPECT_EQ(remote.unknown_ids, 0U);
    EXPECT_EQ(remote.unknown_releases, 0U);
    EXPECT_EQ(remote.bound_twice, 0U);
  }

  fakes::FakeLoop loop;
  fakes::FakeRemote remote{loop};
  Caller caller;
  std::unique_ptr<FileSystem> fs;
};

}  // namespace sandbar::vfs
