// SPDX-License-Identifier: Apache-2.0
#include "sandboxd_main.h"

int main(int argc, char** argv) { return sandbar::tools::sandboxd_main(argc, argv, sandbar::cli::standard_io()); }
