// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "base/lock_span.h"
#include "base/range_map.h"
#include "wire/messages.h"

namespace sandbar::client {

/// Which handles hold locks, as far as the answers tell; and which have lost some with a session: those are *spoilt*
/// until they are closed, because whoever works through them believes in a lock that others may have had meanwhile.
/// Few locks are held at a time, so these are lists. On the loop's thread.
class HeldLocks {
 public:
  /// A lock was asked for: granted, or refused by the agent (an flock is given back before it is converted). `file`
  /// tells the files of handles apart; null where that is not known.
  void answered(const wire::Lock& request, const void* file, bool granted);
  /// All that is held is lost. Spoilt are the handles through which the owners have locked the file.
  void lose_all();
  /// The handle is closed.
  void close(wire::HandleId handle);
  [[nodiscard]] bool is_spoilt(wire::HandleId handle) const { return spoilt_.contains(handle); }

 private:
  struct Held {
    const void* file = nullptr;
    wire::LockOwner owner;
    wire::LockKind kind = wire::LockKind::posix;
    std::vector<wire::HandleId> handles;
    base::RangeMap<wire::LockType> ranges;
  };
  std::vector<Held> held_;
  std::unordered_set<wire::HandleId> spoilt_;
};

}  // namespace sandbar::client
