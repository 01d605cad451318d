// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "base/loop.h"

namespace sandbar::fakes {

/// A Loop whose time moves only when the test says so. Single-threaded; descriptors cannot be watched.
class FakeLoop final : public base::Loop {
 public:
  void post(base::Task task) override { tasks_.push_back(std::move(task)); }
  [[nodiscard]] base::TimePoint now() const override { return now_; }

  base::TimerId schedule(base::Duration after, base::Task task) override {
    const base::TimerId id(++last_timer_);
    timers_.emplace(std::pair(now_ + std::max(after, base::Duration::zero()), id.value), std::move(task));
    return id;
  }
  void cancel(base::TimerId timer) override {
    for (auto it = timers_.begin(); it != timers_.end(); ++it)
      if (it->first.second == timer.value) {
        timers_.erase(it);
        return;
      }
  }

  base::WatchId watch(int, base::Readiness, base::Function<void()>) override { std::abort(); }
  void unwatch(base::WatchId) override { std::abort(); }
  [[nodiscard]] bool is_current() const override { return true; }

  /// Runs what is posted, and what that posts, until nothing is left. Returns how many tasks ran.
  std::size_t drain() {
    std::size_t ran = 0;
    while (!tasks_.empty()) {
      base::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
      ++ran;
    }
    return ran;
  }
  /// Runs exactly one posted task, if there is one.
  bool step() {
    if (tasks_.empty()) return false;
    base::Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    return true;
  }
  /// Lets time pass: timers fire in order, at their own times, each followed by drain().
  void advance(base::Duration by) {
    const base::TimePoint end = now_ + by;
    drain();
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      now_ = std::max(now_, timers_.begin()->first.first);
      base::Task task = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      task();
      drain();
    }
    now_ = end;
  }
  /// Time passes without anything running, as over a suspend of the process.
  void jump(base::Duration by) { now_ += by; }
  [[nodiscard]] std::size_t timers() const { return timers_.size(); }

 private:
  base::TimePoint now_{std::chrono::hours(1)};
  std::uint64_t last_timer_ = 0;
  std::deque<base::Task> tasks_;
  std::map<std::pair<base::TimePoint, std::uint64_t>, base::Task> timers_;
};

}  // namespace sandbar::fakes
