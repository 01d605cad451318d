// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "agent/handles.h"
#include "agent/root.h"
#include "base/lock_span.h"
#include "base/range_map.h"
#include "base/strong_id.h"
#include "base/unique_fd.h"
#include "wire/messages.h"

namespace sandbar::agent {

struct LockCallTag;
using LockCallId = base::StrongId<LockCallTag>;

/// Which bytes are locked for reading and for writing (never `unlock`).
using LockRanges = base::RangeMap<wire::LockType>;

/// What a request is about; an flock covers the whole file. In range: SessionLocks has checked it.
base::LockSpan span_of(const wire::Lock& request);

/// What one owner holds in one object by one kind of lock: a descriptor of its own with open file description locks
/// (fcntl(2), F_OFD_SETLK) or an flock(2). The descriptor is closed with it, which gives all back: on a worker, since
/// closing the last one of a deleted file can take long.
class OwnerLocks {
 public:
  /// Separate ranges of one owner in one file; ENOLCK beyond.
  static constexpr std::size_t kMaxRanges = 16384;

  explicit OwnerLocks(ObjectPtr locked) : object(std::move(locked)) {}
  OwnerLocks(const OwnerLocks&) = delete;
  OwnerLocks& operator=(const OwnerLocks&) = delete;

  const ObjectPtr object;  ///< keeps the key's address its own

  // On the loop.
  std::size_t calls = 0;          ///< under way, which keep it in the table
  bool busy = false;              ///< one of them is with a worker
  std::deque<LockCallId> queued;  ///< in order, those that want to be tried next; some may have ended
  /// Changed on the loop, and only while not busy: so that the worker may read it.
  LockRanges held;

  // On a worker, one at a time (`busy`).

  /// One try, which does not block. 0 or an errno; EAGAIN: another holds it.
  int attempt(Root& root, const OpenFile& file, const wire::Lock& request);
  /// After an attempt that was granted and that nobody wants any more: makes `before` the owner's again, which is what
  /// it held there. Returns what it could not get back, with what it has instead: a write lock that became a read lock,
  /// where another read in between.
  std::vector<LockRanges::Part> restore(const wire::Lock& granted, const std::vector<LockRanges::Part>& before);

  // On any worker.

  /// 0 or an errno.
  int test(const OpenFile& file, const wire::TestLock& request, wire::TestLock::Reply& reply);

 private:
  int prepare(Root& root, const OpenFile& file, const wire::Lock& request);
  [[nodiscard]] bool has_room_for(const wire::Lock& request) const;
  int become_writable(const OpenFile& file);
  [[nodiscard]] int set(wire::LockType type, base::LockSpan span) const;

  std::mutex mutex_;  ///< guards the rest; system calls under it do not wait for other lock owners
  base::UniqueFd fd_;
  std::uint32_t access_ = 0;  ///< O_ACCMODE bits of `fd_`
  Root::OpenFileToken token_;
};

}  // namespace sandbar::agent
