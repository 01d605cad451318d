// SPDX-License-Identifier: Apache-2.0
#include "fuse/core.h"

#include <algorithm>
#include <bit>

#include "fuse/dying.h"

namespace sandbar::fuse {
namespace {

/// How soon a caller that is killed after a first, harmless interrupt is let go.
constexpr base::Duration kLookAgain = std::chrono::milliseconds(100);

/// Supplementary groups that are passed on; a caller with more acts without the rest. As the protocol's bound.
constexpr std::size_t kMaxGroups = 1024;

}  // namespace

Core& core_of(fuse_req_t request) { return *static_cast<Core*>(fuse_req_userdata(request)); }

Core::~Core() {
  if (session != nullptr) fuse_session_destroy(session);
}

void Core::close() {
  files = nullptr;
  device = nullptr;
  interrupted_.clear();
  if (look_again_timer_) loop.cancel(look_again_timer_);
  look_again_timer_ = {};
}

void Core::expect_interrupt(fuse_req_t request, vfs::OperationId operation) {
  static_assert(sizeof(void*) == sizeof(std::uint64_t), "an operation's number travels as libfuse's void*");
  fuse_req_interrupt_func(request, &Core::on_interrupt, std::bit_cast<void*>(operation.value));
}

void Core::answered(fuse_req_t request) {
  if (!interrupted_.empty()) interrupted_.erase(request);
}

/// libfuse calls this with the request's own mutex held. That is harmless on one thread: interrupt() completes
/// nothing inside its call, and replying takes the session's mutex only.
void Core::on_interrupt(fuse_req_t request, void* operation) {
  Core& core = core_of(request);
  if (core.closed()) return;
  const vfs::OperationId id(std::bit_cast<std::uint64_t>(operation));
  const pid_t thread = fuse_req_ctx(request)->pid;
  const bool dying = is_dying(thread);
  core.files->interrupt(id, dying);
  if (dying || thread == 0) return;
  core.interrupted_[request] = Interrupted{id, thread};
  if (!core.look_again_timer_) core.look_again_timer_ = core.loop.schedule(kLookAgain, [&core] { core.look_again(); });
}

void Core::look_again() {
  look_again_timer_ = {};
  for (auto it = interrupted_.begin(); it != interrupted_.end();) {
    if (!is_dying(it->second.thread)) {
      ++it;
      continue;
    }
    files->interrupt(it->second.operation, true);
    it = interrupted_.erase(it);
  }
  if (!interrupted_.empty()) look_again_timer_ = loop.schedule(kLookAgain, [this] { look_again(); });
}

vfs::Caller Core::caller_of(fuse_req_t request) const {
  const fuse_ctx* context = fuse_req_ctx(request);
  vfs::Caller caller;
  caller.uid = context->uid;
  caller.gid = context->gid;
  // Of what makes a new name; 0 in other requests.
  caller.umask = context->umask;
  if (!options.needs_groups(context->uid)) return caller;
  caller.groups.resize(32);
  int count = fuse_req_getgroups(request, static_cast<int>(caller.groups.size()), caller.groups.data());
  if (count > static_cast<int>(caller.groups.size())) {
    caller.groups.resize(std::min<std::size_t>(static_cast<std::size_t>(count), kMaxGroups));
    count = fuse_req_getgroups(request, static_cast<int>(caller.groups.size()), caller.groups.data());
  }
  // A caller whose /proc entry cannot be read (another pid namespace) acts without supplementary groups.
  caller.groups.resize(std::min(caller.groups.size(), static_cast<std::size_t>(std::max(count, 0))));
  return caller;
}

}  // namespace sandbar::fuse
