// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/loop.h"
#include "base/unique_fd.h"

namespace sandbar::tools {

/// Stands between the command of an exec: target and our standard error: the command inherits descriptor 2 and keeps it
/// for as long as it runs, and whoever reads our standard error through a pipe would wait for that. What it says
/// reaches the real standard error until let_go(), and nobody afterwards. On the loop's thread.
class StderrRelay {
 public:
  /// Descriptor 2 becomes a pipe.
  explicit StderrRelay(base::Loop& loop);
  StderrRelay(const StderrRelay&) = delete;
  StderrRelay& operator=(const StderrRelay&) = delete;
  ~StderrRelay();

  /// Hands on what was said up to now.
  void pump();
  void let_go() { real_.reset(); }

 private:
  base::Loop& loop_;
  base::UniqueFd real_;
  base::UniqueFd pipe_;
  base::WatchId watch_;
};

}  // namespace sandbar::tools
