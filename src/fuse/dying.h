// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string_view>

namespace sandbar::fuse {

/// True where /proc/TID/status, given as text, shows a thread that a pending signal is going to kill: SIGKILL (which
/// the kernel gives to every thread of a process that a fatal signal or exit_group(2) ends), or one that is neither
/// blocked, ignored nor caught and whose default action ends the process.
bool status_shows_dying(std::string_view status);

/// The same of a live thread of this machine. A thread that is gone is dying; one of another pid namespace (0) is not
/// known to be.
bool is_dying(pid_t thread);

}  // namespace sandbar::fuse
