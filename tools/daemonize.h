// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "cli/io.h"

namespace sandbar::tools {

/// Where descriptors 0 to 2 are closed, opens /dev/null there: what we open must not take their place.
void open_standard_streams();

/// True for HUP where nohup(1) asked for it. INT is ignored too in what a script starts with `&`; there a kill -INT is
/// meant for us.
bool is_to_be_ignored(int signal);

/// The background process' way to tell the one that waits in front of it how it went.
class StartReport {
 public:
  /// In front of nobody (-f): messages go to `io.err`.
  StartReport(std::string program, cli::Io io) : program_(std::move(program)), io_(io) {}
  StartReport(std::string program, cli::Io io, base::UniqueFd pipe)
      : program_(std::move(program)), io_(io), pipe_(std::move(pipe)) {}

  /// In the background: the waiting process exits with 0, and this one lets go of its terminal, standard streams and
  /// working directory. False where nobody waits any more: then there is to be no mount.
  bool ready();
  /// One line; the waiting process shows it and exits with 1.
  void failed(const std::string& message);

 private:
  std::string program_;
  cli::Io io_;
  base::UniqueFd pipe_;
};

struct Background {
  bool in_child = false;
  int exit_code = 0;    ///< the parent's, after the child reported
  base::UniqueFd pipe;  ///< the child's end, for StartReport
};

/// Forks. The child is in a session of its own, without the descriptors above 2 that it was started with, so that it
/// keeps no pipe of a shell open. The parent waits for its report and passes INT, TERM and HUP on to it; after such a
/// signal it ends by that signal once the child is gone. Before any thread.
Background go_to_background(const std::string& program, cli::Io io);

}  // namespace sandbar::tools
