// SPDX-License-Identifier: Apache-2.0
#include "vfs/remote_objects.h"

#include <utility>

namespace sandbar::vfs {

RemoteObjects::RemoteObjects(base::Loop& loop, client::RemoteFs& remote, base::Duration timeout, wire::ObjectId next)
    : loop_(loop), remote_(remote), timeout_(timeout), next_(next.value) {}

wire::ObjectId RemoteObjects::reserve(std::uint64_t count) {
  return wire::ObjectId(std::exchange(next_, next_ + count));
}

void RemoteObjects::release(wire::ObjectId object) {
  released_.push_back(object);
  if (released_.size() >= kBatch) return send();
  if (std::exchange(posted_, true)) return;
  loop_.post([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    posted_ = false;
    send();
  });
}

void RemoteObjects::send() {
  if (released_.empty()) return;
  // Nobody waits for it. One that fails leaves ids that the agent drops with the session.
  remote_.call<wire::Release>({}, {std::exchange(released_, {})}, {}, {timeout_},
                              [](const Result<client::Answer<wire::EmptyReply>>&) {});
}

}  // namespace sandbar::vfs
