// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/loop.h"

namespace boost::asio {
class io_context;
}

namespace sandbar::net {

/// The real Loop, on Boost.Asio. run() makes the calling thread the loop's thread.
class AsioLoop final : public base::Loop {
 public:
  AsioLoop();
  ~AsioLoop() override;

  /// Runs until stop(). What is still queued then is destroyed with the loop, not run.
  void run();
  /// Any thread; also from a task.
  void stop();

  void post(base::Task task) override;
  [[nodiscard]] base::TimePoint now() const override;
  base::TimerId schedule(base::Duration after, base::Task task) override;
  void cancel(base::TimerId timer) override;
  base::WatchId watch(int fd, base::Readiness readiness, base::Function<void()> ready) override;
  void unwatch(base::WatchId watch) override;
  [[nodiscard]] bool is_current() const override;

  /// For net's own streams only.
  boost::asio::io_context& context();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sandbar::net
