// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function.h"

namespace sandbar::agent {

/// Threads for what may block: the agent's file operations. The queue is bounded by what its users have outstanding
/// (wire::kMaxRequests a session). All signals are blocked in the threads, and each has a umask of its own (0).
///
/// Tasks run in any order on any thread, with the agent's identity; they post their results to the loop, which must
/// outlive the pool. The pool outlives nothing that its tasks use: destroy it before the Root.
class WorkerPool {
 public:
  explicit WorkerPool(std::size_t threads = 16);
  /// Waits for the tasks that run; those that have not begun are dropped.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Any thread.
  void submit(base::Task task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wakeup_;
  std::deque<base::Task> queue_;  // under mutex_
  bool stopping_ = false;         // under mutex_
  std::vector<std::thread> threads_;
};

}  // namespace sandbar::agent
