// SPDX-License-Identifier: Apache-2.0
#include "agent/identity.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/log.h"

namespace sandbar::agent {
namespace {

/// As whom this thread acts now; null: the agent.
thread_local const wire::Caller* acting_as = nullptr;
thread_local bool has_own_umask = false;

using CapabilityWords = std::array<std::uint32_t, 2>;

bool get_capabilities(CapabilityWords& effective, CapabilityWords& permitted, CapabilityWords& inheritable) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    effective[i] = data[i].effective;
    permitted[i] = data[i].permitted;
    inheritable[i] = data[i].inheritable;
  }
  return true;
}

bool set_capabilities(const CapabilityWords& effective, const CapabilityWords& permitted,
                      const CapabilityWords& inheritable) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  for (std::size_t i = 0; i < 2; ++i) data[i] = {effective[i], permitted[i], inheritable[i]};
  return ::syscall(SYS_capset, &header, data.data()) == 0;
}

/// Not ::setgroups: glibc makes that one change every thread.
bool set_thread_groups(const std::vector<std::uint32_t>& groups) {
  return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

/// setfsuid(2) and setfsgid(2) report no errors; an invalid id changes nothing and tells the current one.
bool set_thread_fsuid(std::uint32_t uid) {
  ::setfsuid(uid);
  return static_cast<std::uint32_t>(::setfsuid(static_cast<uid_t>(-1))) == uid;
}
bool set_thread_fsgid(std::uint32_t gid) {
  ::setfsgid(gid);
  return static_cast<std::uint32_t>(::setfsgid(static_cast<gid_t>(-1))) == gid;
}

bool has(const CapabilityWords& words, unsigned capability) {
  return (words[capability / 32] >> (capability % 32) & 1U) != 0;
}

}  // namespace

Identities Identities::of_process() {
  Identities own;
  own.uid_ = ::geteuid();
  own.gid_ = ::getegid();
  const int count = ::getgroups(0, nullptr);
  if (count > 0) {
    own.groups_.resize(static_cast<std::size_t>(count));
    const int got = ::getgroups(count, own.groups_.data());
    own.groups_.resize(static_cast<std::size_t>(std::max(got, 0)));
  }
  const bool known = get_capabilities(own.effective_, own.permitted_, own.inheritable_);
  // setgroups(2) can be denied for good in a user namespace: tried here with what we have.
  own.can_switch_ = own.uid_ == 0 && known && has(own.effective_, CAP_SETUID) && has(own.effective_, CAP_SETGID) &&
                    set_thread_groups(own.groups_);
  return own;
}

bool Identities::is_own(const wire::Caller& caller) const {
  if (caller.uid != uid_) return false;
  if (can_switch_) return caller.gid == gid_ && caller.groups == groups_;
  // The kernel acts with the agent's own groups, whatever the caller's.
  return caller.gid == gid_ || std::find(groups_.begin(), groups_.end(), caller.gid) != groups_.end();
}

Result<void> Identities::allowed(const std::optional<wire::Caller>& caller) const {
  if (!caller || can_switch_ || is_own(*caller)) return {};
  return os_error(EPERM, "act as uid " + std::to_string(caller->uid),
                  "the agent runs as uid " + std::to_string(uid_) + " and can act as nobody else");
}

bool Identities::become(const wire::Caller& caller) const {
  if (!can_switch_) return false;
  if (!set_thread_groups(caller.groups) || !set_thread_fsgid(caller.gid) || !set_thread_fsuid(caller.uid)) return false;
  // A fsuid that is not 0 drops the capabilities that file permissions know (capabilities(7)); CAP_SYS_ADMIN, which
  // trusted.* attributes need, and others remain without this.
  return caller.uid == 0 || set_capabilities({}, permitted_, inheritable_);
}

void Identities::become_agent() const {
  if (!can_switch_) return;
  // Going on as somebody else would be a hole: no way to continue.
  SANDBAR_ASSERT(set_capabilities(effective_, permitted_, inheritable_));
  SANDBAR_ASSERT(set_thread_fsuid(uid_) && set_thread_fsgid(gid_) && set_thread_groups(groups_));
}

ActAs::ActAs(const Identities& identities, const std::optional<wire::Caller>& caller)
    : ActAs(identities, caller ? &*caller : nullptr) {}

ActAs::ActAs(const Identities& identities, std::nullopt_t)
    : ActAs(identities, static_cast<const wire::Caller*>(nullptr)) {}

ActAs::ActAs(const Identities& identities, const wire::Caller* caller) : identities_(identities), previous_(acting_as) {
  const wire::Caller* wanted = caller != nullptr && !identities.is_own(*caller) ? caller : nullptr;
  if (wanted == previous_) return;
  switched_ = true;
  if (previous_ != nullptr) identities_.become_agent();
  acting_as = wanted;
  if (wanted == nullptr || identities_.become(*wanted)) return;
  ok_ = false;
}

ActAs::~ActAs() {
  if (!switched_) return;
  if (acting_as != nullptr) identities_.become_agent();
  acting_as = previous_;
  if (previous_ != nullptr) SANDBAR_ASSERT(identities_.become(*previous_));
}

void own_umask_for_this_thread() {
  has_own_umask = ::unshare(CLONE_FS) == 0;
  ::umask(0);
  if (!has_own_umask) base::log_debug("threads share one umask here: default ACLs apply to what the umask leaves");
}

WithUmask::WithUmask(std::uint32_t umask) {
  umask &= 0777;
  if (umask == 0) return;
  if (!has_own_umask) {
    mask_here_ = umask;
    return;
  }
  set_ = true;
  ::umask(umask);
}

WithUmask::~WithUmask() {
  if (set_) ::umask(0);
}

}  // namespace sandbar::agent
