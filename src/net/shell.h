// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "sandbar/result.h"

namespace sandbar::net {

struct Pipe {
  base::UniqueFd read, write;
};

/// Both ends close-on-exec and above stderr, so that giving one to a child as 0, 1 or 2 cannot overwrite the other,
/// even in a process that was started without standard descriptors.
Result<Pipe> make_pipe();

struct ShellCommand {
  std::string command;  ///< for /bin/sh -c
  int in = -1;          ///< -1: /dev/null
  int out = -1;
  int err = -1;                          ///< -1: ours
  std::vector<std::string> environment;  ///< "NAME=value", added to ours, which goes without SANDBOX_TOKEN
};

/// Starts it as the leader of a session of its own: the terminal's signals do not reach it, nor can it ask the
/// terminal. It has no other descriptor of ours, the default SIGPIPE and no blocked signal. 0 or an errno. Any thread.
int spawn_shell(const ShellCommand& command, pid_t& pid);

}  // namespace sandbar::net
