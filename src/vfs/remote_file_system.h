// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "vfs/file_system.h"
#include "vfs/file_table.h"
#include "vfs/id_map.h"
#include "vfs/inode_table.h"
#include "vfs/lock_table.h"
#include "vfs/operations.h"
#include "vfs/remote_objects.h"

namespace sandbar::vfs {

/// The file system that asks the sandbox at each operation. Its parts: nodes (InodeTable), open files (FileTable),
/// object ids (RemoteObjects), locks (LockTable), operations under way (Operations), owners (IdMap). On the loop's
/// thread; the remote must outlive it, but answers that come after it are ignored. When it is destroyed, what is under
/// way ends with Errc::cancelled and the agent's objects go with the session.
///
/// file_system_names.cpp has what acts on names and inodes, ..._files.cpp on open files, ..._list.cpp on directories,
/// ..._xattrs.cpp on extended attributes, ..._locks.cpp on locks.
class RemoteFileSystem final : public FileSystem {
 public:
  /// `root` is bound to what `attributes` describes.
  RemoteFileSystem(base::Loop& loop, client::RemoteFs& remote, Options options, wire::ObjectId root,
                   const Attributes& attributes);
  ~RemoteFileSystem() override;

  OperationId lookup(const Caller& caller, NodeId parent, base::Bytes name, Done<Entry> done) override;
  void forget(NodeId node, std::uint64_t count) override;
  OperationId get_attributes(const Caller& caller, NodeId node, FileId file, Done<Stat> done) override;
  OperationId set_attributes(const Caller& caller, NodeId node, FileId file, Changes changes, Done<Stat> done) override;
  OperationId read_link(const Caller& caller, NodeId node, Done<base::Bytes> done) override;
  OperationId read_stored_link(const Caller& caller, NodeId parent, base::Bytes name, Done<base::Bytes> done) override;

  OperationId make_node(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode, std::uint64_t device,
                        Done<Entry> done) override;
  OperationId make_directory(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode,
                             Done<Entry> done) override;
  OperationId make_symlink(const Caller& caller, NodeId parent, base::Bytes name, base::Bytes target,
                           Done<Entry> done) override;
  OperationId make_link(const Caller& caller, NodeId node, NodeId new_parent, base::Bytes new_name,
                        Done<Entry> done) override;
  OperationId unlink(const Caller& caller, NodeId parent, base::Bytes name, Done<void> done) override;
  OperationId remove_directory(const Caller& caller, NodeId parent, base::Bytes name, Done<void> done) override;
  OperationId rename(const Caller& caller, NodeId parent, base::Bytes name, NodeId new_parent, base::Bytes new_name,
                     std::uint32_t flags, Done<void> done) override;

  OperationId open_file(const Caller& caller, NodeId node, std::uint32_t flags, Done<Opened> done) override;
  OperationId create(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode, std::uint32_t flags,
                     Done<Created> done) override;
  OperationId read(FileId file, std::uint64_t offset, std::uint32_t size, Done<base::Bytes> done) override;
  OperationId write(FileId file, std::uint64_t offset, base::Bytes data, bool append,
                    Done<std::uint64_t> done) override;
  OperationId flush(FileId file, std::uint64_t lock_owner, Done<void> done) override;
  void release(FileId file, std::optional<std::uint64_t> flock_owner) override;
  OperationId fsync(FileId file, bool data_only, Done<void> done) override;

  OperationId open_directory(const Caller& caller, NodeId node, Done<Opened> done) override;
  OperationId list(const Caller& caller, FileId directory, std::uint64_t cookie, bool attributes, ListSink& sink,
                   Done<void> done) override;

  OperationId stat_fs(const Caller& caller, NodeId node, Done<StatFs> done) override;
  OperationId get_xattr(const Caller& caller, NodeId node, base::Bytes name, Done<base::Bytes> done) override;
  OperationId set_xattr(const Caller& caller, NodeId node, base::Bytes name, base::Bytes value, std::uint32_t flags,
                        Done<void> done) override;
  OperationId list_xattr(const Caller& caller, NodeId node, Done<base::Bytes> done) override;
  OperationId remove_xattr(const Caller& caller, NodeId node, base::Bytes name, Done<void> done) override;

  OperationId test_lock(FileId file, LockRequest lock, Done<LockHolder> done) override;
  OperationId set_lock(FileId file, LockRequest lock, Done<void> done) override;
  OperationId allocate(FileId file, std::uint32_t mode, std::uint64_t offset, std::uint64_t length,
                       Done<void> done) override;
  OperationId seek(FileId file, std::uint64_t offset, std::uint32_t whence, Done<std::uint64_t> done) override;
  OperationId copy_range(FileId from, std::uint64_t from_offset, FileId to, std::uint64_t to_offset,
                         std::uint64_t length, Done<std::uint64_t> done) override;

  void interrupt(OperationId operation, bool caller_is_dying) override;
  [[nodiscard]] Counts counts() const override;

 private:
  /// For how long a stat or statfs of the root waits for the sandbox.
  static constexpr base::Duration kRootPatience = std::chrono::milliseconds(500);

  struct ReadProgress;
  struct WriteProgress;
  struct Listing;
  template <class Req>
  using AnswerTo = Result<client::Answer<typename Req::Reply>>;

  // --- Operations (remote_file_system.cpp and below) ---

  /// Starts an operation: pins what it needs until its last request is answered.
  template <class T>
  OperationPtr<T> begin(Done<T> done, Pins pins);
  /// Runs `done`, once; then the operation is no more. Nothing of `this` may be used behind it.
  template <class T>
  void finish(OperationOf<T>& operation, Result<T> result);
  /// An operation that ends without asking the sandbox: `done` gets `result` from the loop.
  template <class T>
  OperationId answer(Done<T> done, Result<T> result);
  template <class T>
  OperationId refuse(Done<T> done, int error, const char* operation);
  /// Sends a request. `then` gets the answer, also when the operation is finished by then.
  template <class Req, class T, class Then>
  void ask(const OperationPtr<T>& operation, wire::RequestContext context, Req request, base::Bytes body, Then then);
  /// The usual operation: one request, whose answer `make` turns into the result.
  template <class Req, class T, class Make>
  OperationId ask_once(Done<T> done, Pins pins, wire::RequestContext context, Req request, base::Bytes body, Make make);

  void pin(const Pins& pins);
  void settle(Operation& operation);
  void on_failure(const Operation& operation, const Error& error);

  /// What the kernel itself does before someone who may write, but is not the owner, writes or truncates: setuid and
  /// setgid bits go. The agent does that as itself, since the caller may not. A chmod of such a caller never gets
  /// here: the kernel refuses it (default_permissions).
  [[nodiscard]] bool only_clears_setid(const Caller& caller, const Node& node, const Changes& changes) const;
  [[nodiscard]] wire::RequestContext context(const Caller& caller) const;
  [[nodiscard]] static wire::RequestContext context(const OpenFile& file);
  [[nodiscard]] std::uint32_t body_limit() const;

  // --- Names and inodes ---

  /// 0, or the errno for a name that cannot be right.
  static int check_name(base::BytesView name);
  /// The node of `parent` when `name` can be looked up or, with `changes`, changed in it; else null and `error`.
  Node* check_parent(NodeId parent, base::BytesView name, bool changes, int& error);
  template <class Req>
  OperationId ask_entry(const Caller& caller, NodeId parent, Req request, Done<Entry> done);
  OperationId remove_name(const Caller& caller, NodeId parent, base::Bytes name, bool directory, Done<void> done);
  /// 0, or the errno for owners that no id of the sandbox stands for.
  int fill_changes(const Changes& changes, wire::SetAttributes& request) const;
  [[nodiscard]] Attributes shown(const Node& node) const;
  /// Of the root, what is ours: none where there is no such.
  [[nodiscard]] std::optional<base::Bytes> own_xattr(base::BytesView name) const;
  OperationId get_acl(const Caller& caller, NodeId node, wire::GetXattr request, Done<base::Bytes> done);
  /// A POSIX ACL with this machine's ids, and with the sandbox's (EINVAL where there is none).
  [[nodiscard]] Result<base::Bytes> shown_acl(base::Bytes value) const;
  [[nodiscard]] Result<base::Bytes> remote_acl(base::Bytes value) const;
  [[nodiscard]] Entry entry(const Node& node) const;
  Result<Stat> heard(NodeId node, const Attributes& attributes);
  /// umount(8) looks at the mount point first (stat, statfs), and must not wait for a link that is silent: there what
  /// was heard last will do.
  template <class T, class Known>
  void answer_early(OperationId id, Known known);
  /// After a request that failed, or was given up, without telling whether it bound these: they are not wanted.
  void abandon(const Error& error, wire::ObjectId object, wire::HandleId handle);

  /// How far a directory lies below the mount's root, as far as that is known: a link there may climb so far.
  [[nodiscard]] std::size_t depth_of(NodeId directory) const {
    return inodes_.directories().depth(directory).value_or(0);
  }

  // --- Open files ---

  OperationId open_node(const Caller& caller, NodeId node, std::uint32_t flags, Done<Opened> done);
  OpenFile& add_file(NodeId node, wire::HandleId handle, const wire::Caller& opener, std::uint32_t flags);
  Opened opened(const OpenFile& file);
  void read_more(const OperationPtr<base::Bytes>& operation, ReadProgress progress);
  void write_more(const OperationPtr<std::uint64_t>& operation, WriteProgress progress);
  void close_if_idle(OpenFile& file);
  void close_handle(wire::HandleId handle);

  // --- Directories ---

  void run_listing(const OperationPtr<void>& operation, const Listing& listing);
  void fetch_page(const OperationPtr<void>& operation, const Listing& listing);
  void take_page(const OperationPtr<void>& operation, const Listing& listing, Result<ListPage> page);
  /// False when nothing could be offered.
  bool serve(OpenFile& file, const Listing& listing, std::size_t position);
  Node* node_of(NodeId directory, ListPage& page, ListPage::Item& item);
  void drop_page(OpenFile& file);
  void drop_objects(const ListPage& page);

  // --- Locks ---

  OperationId unlock(const OpenFile& file, const LockTable::Key& key, LockSpan span, Done<void> done);
  /// Asks for what the owner held `before`; Done, if anybody cared, was told already.
  void give_back(const OpenFile& file, const LockTable::Key& key, const std::vector<LockTable::Ranges::Part>& before);
  /// `then(answered)` is told whether the sandbox has answered.
  template <class Then>
  OperationId send_lock(const OpenFile& file, const LockTable::Key& key, LockType type, LockSpan span, Done<void> done,
                        Then then);

  base::Loop& loop_;
  client::RemoteFs& remote_;
  const Options options_;
  const IdMap ids_;
  const std::uint64_t generation_;
  RemoteObjects objects_;
  InodeTable inodes_;
  FileTable files_;
  LockTable locks_;
  Operations operations_;
  StatFs file_system_;                                                 ///< as last heard
  std::shared_ptr<const int> alive_ = std::make_shared<const int>(0);  // answers hold it weakly
};

template <class T>
OperationPtr<T> RemoteFileSystem::begin(Done<T> done, Pins pins) {
  auto operation = std::make_shared<OperationOf<T>>(std::move(done));
  operation->id = operations_.next();
  operation->pins = std::move(pins);
  pin(operation->pins);
  operations_.add(operation);
  return operation;
}

template <class T>
void RemoteFileSystem::finish(OperationOf<T>& operation, Result<T> result) {
  if (std::exchange(operation.finished, true)) return;
  operations_.remove(operation.id);
  if (operation.early) loop_.cancel(operation.early);
  if (!operation.calling) settle(operation);
  auto done = std::move(operation.done);
  done(std::move(result));
}

template <class T>
OperationId RemoteFileSystem::answer(Done<T> done, Result<T> result) {
  loop_.post([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
  return operations_.next();
}

template <class T>
OperationId RemoteFileSystem::refuse(Done<T> done, int error, const char* operation) {
  return answer<T>(std::move(done), os_error(error, operation));
}

template <class Req, class T, class Then>
void RemoteFileSystem::ask(const OperationPtr<T>& operation, wire::RequestContext context, Req request,
                           base::Bytes body, Then then) {
  const client::CallOptions call{operation->lock_wait ? base::Duration::zero() : options_.timeout};
  operation->calling = true;
  operation->call = remote_.call<Req>(
      std::move(context), std::move(request), std::move(body), call,
      [this, alive = std::weak_ptr(alive_), operation, then = std::move(then)](AnswerTo<Req> answer) mutable {
        if (alive.expired()) return;
        operation->calling = false;
        operation->call = {};
        if (!answer) on_failure(*operation, answer.error());
        if (operation->finished) settle(*operation);
        then(std::move(answer));
      });
}

template <class T, class Known>
void RemoteFileSystem::answer_early(OperationId id, Known known) {
  operations_.find(id)->early = loop_.schedule(kRootPatience, [this, alive = std::weak_ptr(alive_), id, known] {
    if (alive.expired()) return;
    if (const auto operation = operations_.find(id))
      finish(static_cast<OperationOf<T>&>(*operation), Result<T>(known()));
  });
}

template <class Req, class T, class Make>
OperationId RemoteFileSystem::ask_once(Done<T> done, Pins pins, wire::RequestContext context, Req request,
                                       base::Bytes body, Make make) {
  auto operation = begin(std::move(done), std::move(pins));
  ask(operation, std::move(context), std::move(request), std::move(body),
      [this, operation, make = std::move(make)](AnswerTo<Req> answer) mutable {
        if (operation->finished) return;
        if (!answer) return finish<T>(*operation, std::move(answer).error());
        finish<T>(*operation, make(std::move(*answer)));
      });
  return operation->id;
}

}  // namespace sandbar::vfs
