// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>

#include "base/loop.h"
#include "vfs/types.h"

namespace sandbar::fuse {

/// What each thread's last lookup found. A path's walk is one LOOKUP a component, and because nothing may be kept
/// (attributes are valid for no time) the kernel follows each with a GETATTR, for the permission check or for stat(2)
/// itself: two round trips for what the first has answered. That GETATTR, the same thread's next request, belongs to
/// the same system call, so the lookup's answer is as new as it asks for. Anything else the thread does in between, and
/// a little time, ends that. On the loop's thread.
class LastLookup {
 public:
  /// `thread` is the caller's; 0 (of another pid namespace) is not remembered.
  void found(pid_t thread, vfs::NodeId node, const vfs::Stat& stat, base::TimePoint now);
  /// The thread does something else.
  void forget(pid_t thread);
  /// What was found, once.
  std::optional<vfs::Stat> take(pid_t thread, vfs::NodeId node, base::TimePoint now);

 private:
  struct Slot {
    pid_t thread = 0;
    vfs::NodeId node;
    vfs::Stat stat;
    base::TimePoint until;
  };
  Slot& slot(pid_t thread) { return slots_[static_cast<std::size_t>(thread) % slots_.size()]; }

  std::array<Slot, 64> slots_;
};

}  // namespace sandbar::fuse
