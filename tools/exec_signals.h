// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "sandbar/process.h"

namespace sandbar::tools {

/// Sends INT, TERM, HUP, QUIT, USR1 and USR2 on to a process; those that are ignored (nohup, a background job) stay
/// so. They are blocked in the thread that makes this, and in threads that it starts later; the old mask comes back
/// in the end.
///
/// Without a process that could get it (before the start, after the end) a signal ends this program as it would end
/// any other.
class SignalForwarder {
 public:
  SignalForwarder();
  ~SignalForwarder();
  SignalForwarder(const SignalForwarder&) = delete;
  SignalForwarder& operator=(const SignalForwarder&) = delete;

  /// The start is under way: signals wait from now on.
  void starting();
  /// Those that waited, and later ones, go to `process`, which must live until over().
  void running(Process& process);
  void over();

 private:
  enum class Stage { idle, starting, running };

  void run();
  void handle(int number);
  void send(int number);

  sigset_t signals_;
  sigset_t old_mask_;
  base::UniqueFd signal_fd_;
  base::UniqueFd wake_;
  std::mutex mutex_;
  // Guarded by mutex_.
  Stage stage_ = Stage::idle;
  Process* process_ = nullptr;
  std::vector<int> waiting_;

  std::thread thread_;
};

}  // namespace sandbar::tools
