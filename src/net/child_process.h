// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "net/stream.h"
#include "sandbar/result.h"

namespace sandbar::net {

/// Runs `/bin/sh -c COMMAND` and gives its stdin and stdout as a stream; internal to net. The child is the leader of a
/// session of its own: the terminal's signals do not reach it, nor can it stop itself by asking the terminal; its
/// stderr is ours. Destroying the stream closes the pipes and sends TERM to the child's group, KILL 2 s later; when the
/// child is gone, the rest of its group is killed and it is reaped, by the loop (by force where the loop goes first).
/// The program must not ignore SIGCHLD, nor wait for children that are not its own.
Result<std::unique_ptr<Stream>> spawn_command(base::Loop& loop, const std::string& command);

}  // namespace sandbar::net
