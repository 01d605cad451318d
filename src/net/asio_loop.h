// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/loop.h"

namespace sandbar::net {

/// The real Loop, on Boost.Asio. run() makes the calling thread the loop's thread.
class AsioLoop final : public base::Loop {
 public:
  AsioLoop();
  ~AsioLoop() override;

  /// Runs until stop(), which may also come first. What is still queued then waits for the next run(), or is destroyed
  /// with the loop. An exception of a task leaves run(); the loop can be run again.
  void run();
  /// Any thread; also from a task.
  void stop();

  void post(base::Task task) override;
  [[nodiscard]] base::TimePoint now() const override;
  base::TimerId schedule(base::Duration after, base::Task task) override;
  void cancel(base::TimerId timer) override;
  /// A regular file, which epoll(7) refuses, counts as always ready. Flags of the descriptor are not changed.
  base::WatchId watch(int fd, base::Readiness readiness, base::Function<void()> ready) override;
  void unwatch(base::WatchId watch) override;
  [[nodiscard]] bool is_current() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sandbar::net
