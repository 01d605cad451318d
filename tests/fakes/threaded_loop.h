// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/loop.h"

namespace sandbar::fakes {

/// A Loop for tests whose workers post from other threads: runs, with the real clock, until a condition holds. No
/// descriptors can be watched.
class ThreadedLoop final : public base::Loop {
 public:
  void post(base::Task task) override {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    wakeup_.notify_one();
  }
  [[nodiscard]] base::TimePoint now() const override { return std::chrono::steady_clock::now(); }
  base::TimerId schedule(base::Duration after, base::Task task) override {
    const base::TimerId id(++last_timer_);
    timers_.emplace(std::pair(now() + after, id.value), std::move(task));
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
  [[nodiscard]] bool is_current() const override { return std::this_thread::get_id() == owner_; }

  /// False when the condition does not hold within a minute: the test has failed.
  template <class Condition>
  bool run_until(Condition condition) {
    const base::TimePoint end = now() + std::chrono::minutes(1);
    while (!condition()) {
      if (now() > end) return false;
      turn(end);
    }
    return true;
  }

 private:
  void turn(base::TimePoint end) {
    if (!timers_.empty()) end = std::min(end, timers_.begin()->first.first);
    std::vector<base::Task> tasks;
    {
      std::unique_lock lock(mutex_);
      wakeup_.wait_until(lock, end, [this] { return !tasks_.empty(); });
      tasks.swap(tasks_);
    }
    for (base::Task& task : tasks) task();
    while (!timers_.empty() && timers_.begin()->first.first <= now()) {
      base::Task task = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      task();
    }
  }

  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable wakeup_;
  std::vector<base::Task> tasks_;  // under mutex_
  std::map<std::pair<base::TimePoint, std::uint64_t>, base::Task> timers_;
  std::uint64_t last_timer_ = 0;
};

}  // namespace sandbar::fakes
