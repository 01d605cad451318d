// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/function.h"
#include "vfs/file_system.h"

namespace sandbar::fakes {

/// A vfs::FileSystem that writes down what it is asked and answers when the test says so, with the values that the test
/// put into it.
class FakeFileSystem final : public vfs::FileSystem {
 public:
  struct Call {
    std::string name = {};
    vfs::OperationId operation = {};
    vfs::Caller caller = {};
    vfs::NodeId node = {};
    vfs::NodeId node2 = {};
    vfs::FileId file = {};
    vfs::FileId file2 = {};
    base::Bytes text = {};   ///< a name
    base::Bytes text2 = {};  ///< another name, or data
    std::uint64_t number = 0;
    std::uint64_t number2 = 0;
    std::uint64_t number3 = 0;
    vfs::Changes changes = {};
    vfs::LockRequest lock = {};
    base::Function<void(std::optional<Error>)> finish = {};
  };
  struct Interrupt {
    vfs::OperationId operation;
    bool dying = false;
  };

  // What answers hold.
  vfs::Entry entry;
  vfs::Stat stat;
  vfs::Opened opened{vfs::FileId(77)};
  base::Bytes bytes;
  std::uint64_t count = 0;
  vfs::StatFs stat_fs_value;
  vfs::LockHolder holder;
  std::vector<vfs::Listed> listing;

  std::vector<Call> calls;
  std::vector<Interrupt> interrupts;
  std::vector<std::pair<vfs::NodeId, std::uint64_t>> forgotten;
  std::vector<std::pair<vfs::FileId, std::optional<std::uint64_t>>> released;
  std::size_t taken = 0;  ///< entries that the last list() put into its sink
  bool throw_next = false;

  /// Answers the call, with the values above or with `error`.
  void answer(std::size_t index, std::optional<Error> error = std::nullopt) {
    auto finish = std::exchange(calls.at(index).finish, nullptr);
    if (finish) finish(std::move(error));
  }
  void answer_all(std::optional<Error> error = std::nullopt) {
    for (std::size_t i = 0; i < calls.size(); ++i) answer(i, error);
  }

  vfs::OperationId lookup(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name,
                          Done<vfs::Entry> done) override {
    return record("lookup", {.caller = caller, .node = parent, .text = std::move(name)}, entry, std::move(done));
  }
  void forget(vfs::NodeId node, std::uint64_t lookups) override { forgotten.emplace_back(node, lookups); }
  vfs::OperationId get_attributes(const vfs::Caller& caller, vfs::NodeId node, vfs::FileId file,
                                  Done<vfs::Stat> done) override {
    return record("get_attributes", {.caller = caller, .node = node, .file = file}, stat, std::move(done));
  }
  vfs::OperationId set_attributes(const vfs::Caller& caller, vfs::NodeId node, vfs::FileId file, vfs::Changes changes,
                                  Done<vfs::Stat> done) override {
    return record("set_attributes", {.caller = caller, .node = node, .file = file, .changes = changes}, stat,
                  std::move(done));
  }
  vfs::OperationId read_link(const vfs::Caller& caller, vfs::NodeId node, Done<base::Bytes> done) override {
    return record("read_link", {.caller = caller, .node = node}, bytes, std::move(done));
  }
  vfs::OperationId read_stored_link(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name,
                                    Done<base::Bytes> done) override {
    return record("read_stored_link", {.caller = caller, .node = parent, .text = std::move(name)}, bytes,
                  std::move(done));
  }
  vfs::OperationId make_node(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name, std::uint32_t mode,
                             std::uint64_t device, Done<vfs::Entry> done) override {
    return record("make_node",
                  {.caller = caller, .node = parent, .text = std::move(name), .number = mode, .number2 = device}, entry,
                  std::move(done));
  }
  vfs::OperationId make_directory(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name, std::uint32_t mode,
                                  Done<vfs::Entry> done) override {
    return record("make_directory", {.caller = caller, .node = parent, .text = std::move(name), .number = mode}, entry,
                  std::move(done));
  }
  vfs::OperationId make_symlink(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name, base::Bytes target,
                                Done<vfs::Entry> done) override {
    return record("make_symlink",
                  {.caller = caller, .node = parent, .text = std::move(name), .text2 = std::move(target)}, entry,
                  std::move(done));
  }
  vfs::OperationId make_link(const vfs::Caller& caller, vfs::NodeId node, vfs::NodeId new_parent, base::Bytes new_name,
                             Done<vfs::Entry> done) override {
    return record("make_link", {.caller = caller, .node = node, .node2 = new_parent, .text = std::move(new_name)},
                  entry, std::move(done));
  }
  vfs::OperationId unlink(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name, Done<void> done) override {
    return record("unlink", {.caller = caller, .node = parent, .text = std::move(name)}, std::move(done));
  }
  vfs::OperationId remove_directory(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name,
                                    Done<void> done) override {
    return record("remove_directory", {.caller = caller, .node = parent, .text = std::move(name)}, std::move(done));
  }
  vfs::OperationId rename(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name, vfs::NodeId new_parent,
                          base::Bytes new_name, std::uint32_t flags, Done<void> done) override {
    return record("rename",
                  {.caller = caller,
                   .node = parent,
                   .node2 = new_parent,
                   .text = std::move(name),
                   .text2 = std::move(new_name),
                   .number = flags},
                  std::move(done));
  }
  vfs::OperationId open_file(const vfs::Caller& caller, vfs::NodeId node, std::uint32_t flags,
                             Done<vfs::Opened> done) override {
    return record("open_file", {.caller = caller, .node = node, .number = flags}, opened, std::move(done));
  }
  vfs::OperationId create(const vfs::Caller& caller, vfs::NodeId parent, base::Bytes name, std::uint32_t mode,
                          std::uint32_t flags, Done<vfs::Created> done) override {
    return record("create",
                  {.caller = caller, .node = parent, .text = std::move(name), .number = mode, .number2 = flags},
                  vfs::Created{entry, opened}, std::move(done));
  }
  vfs::OperationId read(vfs::FileId file, std::uint64_t offset, std::uint32_t size, Done<base::Bytes> done) override {
    return record("read", {.file = file, .number = offset, .number2 = size}, bytes, std::move(done));
  }
  vfs::OperationId write(vfs::FileId file, std::uint64_t offset, base::Bytes data, bool append,
                         Done<std::uint64_t> done) override {
    return record("write", {.file = file, .text2 = std::move(data), .number = offset, .number2 = append ? 1U : 0U},
                  count, std::move(done));
  }
  vfs::OperationId flush(vfs::FileId file, std::uint64_t lock_owner, Done<void> done) override {
    return record("flush", {.file = file, .number = lock_owner}, std::move(done));
  }
  void release(vfs::FileId file, std::optional<std::uint64_t> flock_owner) override {
    released.emplace_back(file, flock_owner);
  }
  vfs::OperationId fsync(vfs::FileId file, bool data_only, Done<void> done) override {
    return record("fsync", {.file = file, .number = data_only ? 1U : 0U}, std::move(done));
  }
  vfs::OperationId open_directory(const vfs::Caller& caller, vfs::NodeId node, Done<vfs::Opened> done) override {
    return record("open_directory", {.caller = caller, .node = node}, opened, std::move(done));
  }
  vfs::OperationId list(const vfs::Caller& caller, vfs::FileId directory, std::uint64_t cookie, bool attributes,
                        vfs::ListSink& sink, Done<void> done) override {
    Call call{.caller = caller, .file = directory, .number = cookie, .number2 = attributes ? 1U : 0U};
    call.finish = [this, &sink, cookie, done = std::move(done)](std::optional<Error> error) mutable {
      taken = 0;
      for (const vfs::Listed& listed : listing)
        if (listed.cookie > cookie) {
          if (!sink.add(listed)) break;
          ++taken;
        }
      done(error ? Result<void>(std::move(*error)) : Result<void>());
    };
    return keep("list", std::move(call));
  }
  vfs::OperationId stat_fs(const vfs::Caller& caller, vfs::NodeId node, Done<vfs::StatFs> done) override {
    return record("stat_fs", {.caller = caller, .node = node}, stat_fs_value, std::move(done));
  }
  vfs::OperationId get_xattr(const vfs::Caller& caller, vfs::NodeId node, base::Bytes name,
                             Done<base::Bytes> done) override {
    return record("get_xattr", {.caller = caller, .node = node, .text = std::move(name)}, bytes, std::move(done));
  }
  vfs::OperationId set_xattr(const vfs::Caller& caller, vfs::NodeId node, base::Bytes name, base::Bytes value,
                             std::uint32_t flags, Done<void> done) override {
    return record("set_xattr",
                  {.caller = caller, .node = node, .text = std::move(name), .text2 = std::move(value), .number = flags},
                  std::move(done));
  }
  vfs::OperationId list_xattr(const vfs::Caller& caller, vfs::NodeId node, Done<base::Bytes> done) override {
    return record("list_xattr", {.caller = caller, .node = node}, bytes, std::move(done));
  }
  vfs::OperationId remove_xattr(const vfs::Caller& caller, vfs::NodeId node, base::Bytes name,
                                Done<void> done) override {
    return record("remove_xattr", {.caller = caller, .node = node, .text = std::move(name)}, std::move(done));
  }
  vfs::OperationId test_lock(vfs::FileId file, vfs::LockRequest lock, Done<vfs::LockHolder> done) override {
    return record("test_lock", {.file = file, .lock = lock}, holder, std::move(done));
  }
  vfs::OperationId set_lock(vfs::FileId file, vfs::LockRequest lock, Done<void> done) override {
    return record("set_lock", {.file = file, .lock = lock}, std::move(done));
  }
  vfs::OperationId allocate(vfs::FileId file, std::uint32_t mode, std::uint64_t offset, std::uint64_t length,
                            Done<void> done) override {
    return record("allocate", {.file = file, .number = mode, .number2 = offset, .number3 = length}, std::move(done));
  }
  vfs::OperationId seek(vfs::FileId file, std::uint64_t offset, std::uint32_t whence,
                        Done<std::uint64_t> done) override {
    return record("seek", {.file = file, .number = offset, .number2 = whence}, count, std::move(done));
  }
  vfs::OperationId copy_range(vfs::FileId from, std::uint64_t from_offset, vfs::FileId to, std::uint64_t to_offset,
                              std::uint64_t length, Done<std::uint64_t> done) override {
    return record("copy_range",
                  {.file = from, .file2 = to, .number = from_offset, .number2 = to_offset, .number3 = length}, count,
                  std::move(done));
  }
  void interrupt(vfs::OperationId operation, bool caller_is_dying) override {
    interrupts.push_back({operation, caller_is_dying});
  }
  [[nodiscard]] Counts counts() const override { return {}; }

 private:
  template <class T>
  vfs::OperationId record(const char* name, Call call, T value, Done<T> done) {
    call.finish = [value = std::move(value), done = std::move(done)](std::optional<Error> error) mutable {
      done(error ? Result<T>(std::move(*error)) : Result<T>(std::move(value)));
    };
    return keep(name, std::move(call));
  }
  vfs::OperationId record(const char* name, Call call, Done<void> done) {
    call.finish = [done = std::move(done)](std::optional<Error> error) mutable {
      done(error ? Result<void>(std::move(*error)) : Result<void>());
    };
    return keep(name, std::move(call));
  }
  vfs::OperationId keep(const char* name, Call call) {
    if (std::exchange(throw_next, false)) throw std::bad_alloc();
    call.name = name;
    call.operation = vfs::OperationId(calls.size() + 1000);
    calls.push_back(std::move(call));
    return calls.back().operation;
  }
};

}  // namespace sandbar::fakes
