// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/io.h"

namespace sandbar::tools {

/// `sandboxd VERB ...`: exit code 0, 1 failed, 2 usage.
int sandboxd_main(int argc, const char* const* argv, cli::Io io);

}  // namespace sandbar::tools
