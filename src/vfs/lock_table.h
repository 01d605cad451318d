// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/lock_span.h"
#include "base/range_map.h"
#include "base/strong_id.h"
#include "vfs/types.h"

namespace sandbar::vfs {

using base::kLockEnd;
using base::LockSpan;

/// Who may hold locks on which files, so that closing a file without locks costs no round trip; it errs on the side of
/// "may hold". And what exactly each holds as far as the answers tell, for giving back a lock that was granted to
/// nobody and for naming its process. Few locks are held at a time, so these are lists. On the loop's thread.
class LockTable {
 public:
  struct Key {
    NodeId node;
    std::uint64_t owner = 0;
    LockKind kind = LockKind::posix;
    bool operator==(const Key&) const = default;
  };
  using Ranges = base::RangeMap<LockType>;
  struct RequestTag;
  using RequestId = base::StrongId<RequestTag>;
  struct Wanted {
    LockType type = LockType::read;
    LockSpan span;
    std::uint32_t pid = 0;
  };

  /// A lock is being asked for through `file`.
  RequestId begin(const Key& key, FileId file, const Wanted& wanted);
  void granted(RequestId request);
  void refused(RequestId request);
  /// It may be granted, or have been, and nobody waits for it any more: what the owner held there before, which is to
  /// be asked for again (no value: unlock). Where other requests of the owner are under way their outcome counts, and
  /// nothing is told. Until settled() the owner counts as one that may hold anything.
  std::vector<Ranges::Part> abandoned(RequestId request);
  void settled(const Key& key);

  /// An unlock is about to be sent. Returns the moment, for unlocked().
  std::uint64_t unlocking(const Key& key, LockSpan span);
  /// The unlock that was sent at the moment `sent` is answered. (Answers can come in another order than the agent acted
  /// in, so a lock that was asked for later may be there already.)
  void unlocked(const Key& key, LockSpan span, std::uint64_t sent);

  [[nodiscard]] bool holds(const Key& key) const;
  /// The process that holds a posix lock of `node` that is exactly like `holder`, and is not `owner`'s; 0: none here.
  [[nodiscard]] std::uint32_t process_of(NodeId node, std::uint64_t owner, const LockHolder& holder) const;
  /// The owners that asked for locks through `file`. On its last close: POSIX owners left there are open file
  /// descriptions (F_OFD_SETLK), because processes gave theirs back at close(2).
  [[nodiscard]] std::vector<Key> through(FileId file) const;
  /// The file is closed: nothing is held through it any more.
  void forget(FileId file);

 private:
  struct Request {
    RequestId id;
    Key key;
    FileId file;
    Wanted wanted;
  };
  struct Record {
    Key key;
    FileId file;
    std::size_t pending = 0;
    bool taken = false;
    std::uint64_t begun = 0;  // last
  };
  struct Owner {
    Key key;
    std::uint32_t pid = 0;
    std::size_t doubts = 0;
    Ranges held;
  };
  Record* find(const Key& key, FileId file);
  Owner* owner(const Key& key);
  Owner& make_owner(const Key& key);
  Request end(RequestId request, bool taken);
  void drop_empty();

  std::uint64_t last_request_ = 0;
  std::uint64_t clock_ = 0;
  std::vector<Request> requests_;
  std::vector<Record> records_;
  std::vector<Owner> owners_;
};

}  // namespace sandbar::vfs
