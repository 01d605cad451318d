// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

namespace sandbar::cli {

/// The streams a tool speaks through, so that a test can run `int <tool>_main(int argc, char** argv, cli::Io io)` in
/// its own process and read what was said. References: the streams outlive the tool. What carries a command's
/// bytes (sandbox-exec's stdin and stdout) does not go through here but through the descriptors.
struct Io {
  std::istream& in;
  std::ostream& out;  ///< results, for people or one JSON document
  std::ostream& err;  ///< diagnostics, each line "PROGRAM: message"
};

/// std::cin, std::cout, std::cerr: what a program's one-line main passes.
Io standard_io();

}  // namespace sandbar::cli
