// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "vfs/types.h"

namespace sandbar::vfs {

/// Who may hold locks on which files, so that closing a file without locks costs no round trip. It errs on the side of
/// "may hold". Few locks are held at a time, so it is a list. On the loop's thread.
class LockTable {
 public:
  struct Key {
    NodeId node;
    std::uint64_t owner = 0;
    LockKind kind = LockKind::posix;
    bool operator==(const Key&) const = default;
  };

  /// A lock is being asked for through `file`. True when `key` held or asked for none before.
  bool begin(const Key& key, FileId file);
  /// It was answered: `taken` unless it is certain that it was refused.
  void end(const Key& key, FileId file, bool taken);
  [[nodiscard]] bool holds(const Key& key) const;
  /// The moment at which a request is sent, for clear().
  [[nodiscard]] std::uint64_t now() const { return clock_; }
  /// All that the owner asked for on the node up to the moment `sent` is given back. (Answers can come in another order
  /// than the agent acted in, so a lock that was asked for later may be there already.)
  void clear(const Key& key, std::uint64_t sent);
  /// The owners that asked for locks through `file`. On its last close: POSIX owners left there are open file
  /// descriptions (F_OFD_SETLK), because processes gave theirs back at close(2).
  [[nodiscard]] std::vector<Key> through(FileId file) const;
  /// The file is closed: nothing is held through it any more.
  void forget(FileId file);

 private:
  struct Record {
    Key key;
    FileId file;
    std::size_t pending = 0;
    bool taken = false;
    std::uint64_t begun = 0;  // last
  };
  Record* find(const Key& key, FileId file);

  std::uint64_t clock_ = 0;
  std::vector<Record> records_;
};

}  // namespace sandbar::vfs
