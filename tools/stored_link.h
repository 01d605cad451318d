// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cli/io.h"

namespace sandbar::tools {

/// True for a command line with --readlink: sandbox-mount's other use, which has neither TARGET nor DIR.
bool asks_for_link(const std::vector<const char*>& words);

/// Runs `--readlink PATH` or `--readlink=PATH`, which is to stand alone (else usage: 2). Prints the target of the
/// symlink at PATH, which lies in a mount, as the sandbox stores it: its bytes as they are, and a newline, as
/// readlink(1) does; escaped on a terminal. The exit code.
int print_stored_link(const std::vector<const char*>& words, const char* program, cli::Io io);

}  // namespace sandbar::tools
