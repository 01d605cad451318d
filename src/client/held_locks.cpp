// SPDX-License-Identifier: Apache-2.0
#include "client/held_locks.h"

#include <algorithm>

namespace sandbar::client {

void HeldLocks::answered(const wire::Lock& request, const void* file, bool granted) {
  const auto is_same = [&](const Held& held) {
    if (held.file != file || held.owner != request.owner || held.kind != request.kind) return false;
    return file != nullptr || held.handles.front() == request.handle;
  };
  auto it = std::find_if(held_.begin(), held_.end(), is_same);
  const bool unlocks = request.type == wire::LockType::unlock;
  if (it == held_.end()) {
    if (unlocks || !granted) return;
    it = held_.insert(held_.end(), Held{file, request.owner, request.kind, {}, {}});
  }
  const bool is_flock = request.kind == wire::LockKind::flock;
  const base::LockSpan span = is_flock ? base::LockSpan{} : base::LockSpan::of(request.start, request.length);
  if (granted && !unlocks) {
    it->ranges.set(span.start, span.end, request.type);
    if (std::find(it->handles.begin(), it->handles.end(), request.handle) == it->handles.end())
      it->handles.push_back(request.handle);
  } else if (granted || is_flock) {
    it->ranges.clear(span.start, span.end);
  }
  if (it->ranges.empty()) held_.erase(it);
}

void HeldLocks::lose_all() {
  for (const Held& held : held_) spoilt_.insert(held.handles.begin(), held.handles.end());
  held_.clear();
}

void HeldLocks::close(wire::HandleId handle) {
  spoilt_.erase(handle);
  for (Held& held : held_) std::erase(held.handles, handle);
  std::erase_if(held_, [](const Held& held) { return held.handles.empty(); });
}

}  // namespace sandbar::client
