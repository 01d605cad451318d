// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/io.h"

namespace sandbar::tools {

/// sandbox-exec(1): runs a command in a sandbox on descriptors 0, 1 and 2. Returns the exit code: the command's,
/// 128+N where signal N ended it, 125 where we failed, 126 and 127 where it could not be executed or found.
///
/// While it runs INT, TERM, HUP, QUIT, USR1 and USR2 are blocked in the calling thread and sent on; SIGPIPE is ignored
/// from then on. To be called before other threads exist.
int sandbox_exec_main(int argc, char** argv, cli::Io io);

}  // namespace sandbar::tools
