// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/loop.h"

namespace sandbar::fakes {

/// Another loop on which time runs `factor` times as fast: for what waits for real processes and for long timers.
class FastLoop final : public base::Loop {
 public:
  FastLoop(base::Loop& real, int factor) : real_(real), factor_(factor), start_(real.now()) {}

  void post(base::Task task) override { real_.post(std::move(task)); }
  [[nodiscard]] base::TimePoint now() const override { return start_ + (real_.now() - start_) * factor_; }
  base::TimerId schedule(base::Duration after, base::Task task) override {
    return real_.schedule(after / factor_, std::move(task));
  }
  void cancel(base::TimerId timer) override { real_.cancel(timer); }
  base::WatchId watch(int fd, base::Readiness readiness, base::Function<void()> ready) override {
    return real_.watch(fd, readiness, std::move(ready));
  }
  void unwatch(base::WatchId watch) override { real_.unwatch(watch); }
  [[nodiscard]] bool is_current() const override { return real_.is_current(); }

 private:
  base::Loop& real_;
  int factor_;
  base::TimePoint start_;
};

}  // namespace sandbar::fakes
