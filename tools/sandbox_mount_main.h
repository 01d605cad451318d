// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/io.h"

namespace sandbar::tools {

/// `sandbox-mount TARGET DIR`: returns 0 when the mount is usable (with -f: when it was unmounted), 1 when there is
/// none, 2 for a usage error. Forks unless -f is given: call it before any thread exists. Also called as mount(8)
/// calls its helpers: mount.sandbox TARGET DIR [-sfnv] [-N namespace] [-o options] [-t type].
int sandbox_mount_main(int argc, const char* const* argv, cli::Io io);

}  // namespace sandbar::tools
