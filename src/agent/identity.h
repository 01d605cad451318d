// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sandbar/result.h"
#include "wire/messages.h"

namespace sandbar::agent {

/// Who the agent is, and acting as somebody else on one thread. Credentials are a thread's own in the kernel: raw
/// system calls are used where glibc would change all threads (setgroups, capset).
///
/// An agent that may switch (root with CAP_SETUID and CAP_SETGID) acts as any caller: file system uid and gid,
/// supplementary groups, and for all but uid 0 no effective capabilities, so that the kernel's own checks decide. Any
/// other agent acts as itself only.
class Identities {
 public:
  /// Of the calling process. Call before threads exist that switch.
  static Identities of_process();

  [[nodiscard]] std::uint32_t uid() const { return uid_; }
  [[nodiscard]] std::uint32_t gid() const { return gid_; }
  [[nodiscard]] bool can_switch() const { return can_switch_; }
  /// EPERM for a caller that this agent cannot act as. None is the agent itself.
  [[nodiscard]] Result<void> allowed(const std::optional<wire::Caller>& caller) const;

 private:
  friend class ActAs;

  [[nodiscard]] bool is_own(const wire::Caller& caller) const;
  [[nodiscard]] bool become(const wire::Caller& caller) const;
  void become_agent() const;

  std::uint32_t uid_ = 0;
  std::uint32_t gid_ = 0;
  std::vector<std::uint32_t> groups_;
  std::array<std::uint32_t, 2> effective_{}, permitted_{}, inheritable_{};
  bool can_switch_ = false;
};

/// The calling thread acts as `caller` until the end of this scope, then as it did before. Nests. When ok() is false
/// (EPERM) nothing has changed. A thread that cannot get its old identity back ends the process.
class ActAs {
 public:
  /// `caller` outlives the scope.
  ActAs(const Identities& identities, const std::optional<wire::Caller>& caller);
  ActAs(const Identities& identities, std::optional<wire::Caller>&& caller) = delete;
  /// As the agent itself.
  ActAs(const Identities& identities, std::nullopt_t);
  ~ActAs();
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  ActAs(const Identities& identities, const wire::Caller* caller);

  const Identities& identities_;
  const wire::Caller* previous_ = nullptr;
  bool switched_ = false;
  bool ok_ = true;
};

/// Gives the calling thread a umask of its own (unshare(CLONE_FS)), 0 at first. Where that is refused (seccomp), the
/// whole process' umask becomes 0.
void own_umask_for_this_thread();

/// The umask of new objects within the scope. A thread without a umask of its own masks `mode` itself, which is inexact
/// only in a directory with a default ACL.
class WithUmask {
 public:
  explicit WithUmask(std::uint32_t umask);
  ~WithUmask();
  WithUmask(const WithUmask&) = delete;
  WithUmask& operator=(const WithUmask&) = delete;
  [[nodiscard]] std::uint32_t apply(std::uint32_t mode) const { return mode & ~mask_here_; }

 private:
  std::uint32_t mask_here_ = 0;
  bool set_ = false;
};

}  // namespace sandbar::agent
