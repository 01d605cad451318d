// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/one_shot.h"
#include "vfs/types.h"

namespace sandbar::vfs {

enum class IdMapMode { user, none, ranges };

/// `count` ids from `local` on are those of the sandbox from `remote` on.
struct IdRange {
  std::uint32_t local = 0;
  std::uint32_t remote = 0;
  std::uint32_t count = 1;
  bool operator==(const IdRange&) const = default;
};

struct Options {
  /// How long an operation may wait for the sandbox before ETIMEDOUT. Lock waits have no limit.
  base::Duration timeout = std::chrono::seconds(60);
  IdMapMode id_map = IdMapMode::user;
  std::uint32_t uid = 0;  ///< the mounting user's; `user` maps it to the agent's and back
  std::uint32_t gid = 0;
  /// `ranges` maps these; none overlaps another on either side.
  std::vector<IdRange> uid_ranges;
  std::vector<IdRange> gid_ranges;
  bool read_only = false;
  /// Show each symlink so that following it stays in the mount; false shows all as they are stored.
  bool safe_links = true;
  std::string directory = "/";  ///< in the agent's root
  std::string target;           ///< shown as the root's user.sandbar.target
  std::string token_file;       ///< shown as user.sandbar.token-file; empty: not shown
  std::string ca_file;          ///< shown as user.sandbar.ca-file; empty: not shown
  bool insecure = false;        ///< user.sandbar.insecure is there
  std::string grant_command;    ///< shown as user.sandbar.grant-command; empty: not shown
};

/// Takes the entries of a listing one after the other.
class ListSink {
 public:
  virtual ~ListSink() = default;
  /// False when it does not fit: nothing further is offered, and this one was not taken.
  virtual bool add(const Listed& entry) = 0;
};

/// The file system that is mounted: inodes with lookup counts, open files, and each operation's way to the sandbox.
/// All on the loop's thread. Every `done` runs exactly once, never inside the call; its errors carry the errno for the
/// caller as Errc::os, or Errc::timeout, disconnected, cancelled (fuse turns those into ETIMEDOUT, ENOTCONN, EINTR).
/// Today each operation asks the sandbox; caches and write-back come behind this interface.
class FileSystem {
 public:
  template <class T>
  using Done = base::OneShot<T>;

  /// Attaches options.directory as the root; `done` gets the file system. Fails with what Attach failed with, and
  /// ENOTDIR for a file.
  static void open(base::Loop& loop, client::RemoteFs& remote, Options options,
                   base::OneShot<std::unique_ptr<FileSystem>> done);

  virtual ~FileSystem() = default;

  virtual OperationId lookup(const Caller& caller, NodeId parent, base::Bytes name, Done<Entry> done) = 0;
  /// The kernel dropped `count` lookups of the node.
  virtual void forget(NodeId node, std::uint64_t count) = 0;
  virtual OperationId get_attributes(const Caller& caller, NodeId node, FileId file, Done<Stat> done) = 0;
  virtual OperationId set_attributes(const Caller& caller, NodeId node, FileId file, Changes changes,
                                     Done<Stat> done) = 0;
  /// The target, with Options::safe_links in a form that cannot lead out of the mount: see file_system_links.cpp.
  virtual OperationId read_link(const Caller& caller, NodeId node, Done<base::Bytes> done) = 0;
  /// The target of a symlink in `parent` as it is stored.
  virtual OperationId read_stored_link(const Caller& caller, NodeId parent, base::Bytes name,
                                       Done<base::Bytes> done) = 0;

  virtual OperationId make_node(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode,
                                std::uint64_t device, Done<Entry> done) = 0;
  virtual OperationId make_directory(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode,
                                     Done<Entry> done) = 0;
  virtual OperationId make_symlink(const Caller& caller, NodeId parent, base::Bytes name, base::Bytes target,
                                   Done<Entry> done) = 0;
  virtual OperationId make_link(const Caller& caller, NodeId node, NodeId new_parent, base::Bytes new_name,
                                Done<Entry> done) = 0;
  virtual OperationId unlink(const Caller& caller, NodeId parent, base::Bytes name, Done<void> done) = 0;
  virtual OperationId remove_directory(const Caller& caller, NodeId parent, base::Bytes name, Done<void> done) = 0;
  virtual OperationId rename(const Caller& caller, NodeId parent, base::Bytes name, NodeId new_parent,
                             base::Bytes new_name, std::uint32_t flags, Done<void> done) = 0;

  virtual OperationId open_file(const Caller& caller, NodeId node, std::uint32_t flags, Done<Opened> done) = 0;
  virtual OperationId create(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode,
                             std::uint32_t flags, Done<Created> done) = 0;
  virtual OperationId read(FileId file, std::uint64_t offset, std::uint32_t size, Done<base::Bytes> done) = 0;
  /// With `append` (the open file has O_APPEND now) the sandbox picks the offset.
  virtual OperationId write(FileId file, std::uint64_t offset, base::Bytes data, bool append,
                            Done<std::uint64_t> done) = 0;
  /// close(2) of one descriptor: gives back the owner's POSIX locks; errors reach the caller of close.
  virtual OperationId flush(FileId file, std::uint64_t lock_owner, Done<void> done) = 0;
  /// The last reference is gone. Answered at once; what is still to be done goes on. `flock_owner` gives back its
  /// flock.
  virtual void release(FileId file, std::optional<std::uint64_t> flock_owner) = 0;
  virtual OperationId fsync(FileId file, bool data_only, Done<void> done) = 0;

  virtual OperationId open_directory(const Caller& caller, NodeId node, Done<Opened> done) = 0;
  /// Offers entries behind `cookie` (0: from the start) to `sink` until it is full or the directory ends, then runs
  /// `done`. `sink` lives until then. With `attributes`, each taken entry that has one counts as one lookup.
  virtual OperationId list(const Caller& caller, FileId directory, std::uint64_t cookie, bool attributes,
                           ListSink& sink, Done<void> done) = 0;

  virtual OperationId stat_fs(const Caller& caller, NodeId node, Done<StatFs> done) = 0;
  virtual OperationId get_xattr(const Caller& caller, NodeId node, base::Bytes name, Done<base::Bytes> done) = 0;
  virtual OperationId set_xattr(const Caller& caller, NodeId node, base::Bytes name, base::Bytes value,
                                std::uint32_t flags, Done<void> done) = 0;
  virtual OperationId list_xattr(const Caller& caller, NodeId node, Done<base::Bytes> done) = 0;
  virtual OperationId remove_xattr(const Caller& caller, NodeId node, base::Bytes name, Done<void> done) = 0;

  virtual OperationId test_lock(FileId file, LockRequest lock, Done<LockHolder> done) = 0;
  virtual OperationId set_lock(FileId file, LockRequest lock, Done<void> done) = 0;
  virtual OperationId allocate(FileId file, std::uint32_t mode, std::uint64_t offset, std::uint64_t length,
                               Done<void> done) = 0;
  virtual OperationId seek(FileId file, std::uint64_t offset, std::uint32_t whence, Done<std::uint64_t> done) = 0;
  virtual OperationId copy_range(FileId from, std::uint64_t from_offset, FileId to, std::uint64_t to_offset,
                                 std::uint64_t length, Done<std::uint64_t> done) = 0;

  /// The kernel interrupts the operation. Only a lock wait, or any operation of a caller that is being killed, ends by
  /// it (EINTR): an interrupt must not make a stat fail. Unknown ids are ignored.
  virtual void interrupt(OperationId operation, bool caller_is_dying) = 0;

  struct Counts {
    std::size_t nodes = 0;
    std::size_t files = 0;
    std::size_t operations = 0;  ///< under way
  };
  [[nodiscard]] virtual Counts counts() const = 0;
};

}  // namespace sandbar::vfs
