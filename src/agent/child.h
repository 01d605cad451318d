// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/root.h"
#include "base/bytes.h"
#include "base/unique_fd.h"
#include "sandbar/result.h"

/// Starting one child process: blocking, without knowledge of sessions or channels.
namespace sandbar::agent {

/// What the agent changed for itself at its start and gives back to its children.
struct ChildDefaults {
  mode_t umask = 022;
  std::optional<rlimit> nofile;  ///< none: as the agent's own
  std::optional<rlimit> core;    ///< likewise
};

struct ChildPlan {
  std::vector<base::Bytes> argv;  ///< at least the program; found along PATH when its name has no '/'
  std::vector<base::Bytes> env;   ///< all of it, "NAME=value"
  const Root* root = nullptr;
  base::Bytes cwd;          ///< inside the root; empty is the root itself
  bool pipe_stdin = false;  ///< else /dev/null
  bool pipe_stdout = false;
  bool pipe_stderr = false;
  ChildDefaults defaults;
};

/// A running child: leader of a session and so of a process group of its own. Killed with its group, and not waited
/// for, where its owner goes without having reaped it.
class Child {
 public:
  Child() = default;
  Child(pid_t pid, base::UniqueFd pidfd) : pidfd_(std::move(pidfd)), pid_(pid) {}
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  [[nodiscard]] bool reaped() const { return pid_ < 0; }
  /// To the group. 0, or an errno; never after it is reaped, when the number may be another's.
  int signal(int number) const;
  /// Takes the status away from the kernel; blocks until it has ended.
  void reap();

  // Our ends, non-blocking; none where not asked for.
  base::UniqueFd stdin_pipe;
  base::UniqueFd stdout_pipe;
  base::UniqueFd stderr_pipe;

 private:
  base::UniqueFd pidfd_;
  pid_t pid_ = -1;
};

/// The agent's environment without the names that are secrets or stale (its token, its own working directory), then
/// `added` over it: the last value of a name counts. Errc::invalid for an entry without a name or with a zero byte.
Result<std::vector<base::Bytes>> merged_environment(const std::vector<base::Bytes>& added);

/// Starts the program. Errc::os means that the program itself could not be executed (ENOENT: not found, EACCES: not
/// executable, ...), whichever errno it is; Errc::invalid names the working directory or the argument that is wrong;
/// Errc::limit is all else that the kernel refused. Blocks for as long as the file system takes for the lookups: never
/// on the loop's thread, because they may go through a mount that this very agent serves. Any thread.
Result<Child> start_child(const ChildPlan& plan);

}  // namespace sandbar::agent
