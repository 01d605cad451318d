// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "base/unique_fd.h"
#include "client/grant_source.h"

namespace sandbar::client {

/// Asks the work of another thread to end. Any thread.
class Cancellation {
 public:
  Cancellation();
  void cancel();
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  /// Readable from the cancellation on.
  [[nodiscard]] int fd() const { return event_.get(); }
  /// Sleeps; true as soon as it is cancelled.
  [[nodiscard]] bool wait(std::chrono::milliseconds most) const;

 private:
  base::UniqueFd event_;
  std::atomic<bool> cancelled_{false};
};

/// Runs blocking work of grant sources, a thread each. Its end, which may come on a loop's thread, cancels what runs
/// and waits for it: work has to look at its Cancellation.
class GrantWorkers {
 public:
  using Work = std::function<Result<GrantToken>(const Cancellation&)>;

  GrantWorkers() = default;
  ~GrantWorkers();
  GrantWorkers(const GrantWorkers&) = delete;
  GrantWorkers& operator=(const GrantWorkers&) = delete;

  /// `done` is run by `loop`. Destroying the result cancels the work, and drops `done`, without waiting.
  std::unique_ptr<PendingGrant> run(base::Loop& loop, Work work, base::OneShot<GrantToken> done);

 private:
  struct Job;
  struct Waiter;
  class Handle;
  void join_finished();

  std::mutex mutex_;
  std::list<std::shared_ptr<Job>> jobs_;  ///< guarded by mutex_
};

}  // namespace sandbar::client
