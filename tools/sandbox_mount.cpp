// SPDX-License-Identifier: Apache-2.0
#include "sandbox_mount_main.h"

int main(int argc, char** argv) { return sandbar::tools::sandbox_mount_main(argc, argv, sandbar::cli::standard_io()); }
