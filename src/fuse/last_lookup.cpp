// SPDX-License-Identifier: Apache-2.0
#include "fuse/last_lookup.h"

namespace sandbar::fuse {
namespace {

/// The caller has to be woken up and to come back. What is changed elsewhere within this time can be missed only by
/// an fstat(2) that directly follows an open(2) with O_PATH.
constexpr base::Duration kFresh = std::chrono::milliseconds(2);

}  // namespace

void LastLookup::found(pid_t thread, vfs::NodeId node, const vfs::Stat& stat, base::TimePoint now) {
  if (thread <= 0) return;
  slot(thread) = Slot{thread, node, stat, now + kFresh};
}

void LastLookup::forget(pid_t thread) {
  if (thread <= 0) return;
  Slot& known = slot(thread);
  if (known.thread == thread) known.thread = 0;
}

std::optional<vfs::Stat> LastLookup::take(pid_t thread, vfs::NodeId node, base::TimePoint now) {
  if (thread <= 0) return std::nullopt;
  Slot& known = slot(thread);
  if (known.thread != thread) return std::nullopt;
  known.thread = 0;
  if (known.node != node || now > known.until) return std::nullopt;
  return known.stat;
}

}  // namespace sandbar::fuse
