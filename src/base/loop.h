// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "base/function.h"
#include "base/strong_id.h"

namespace sandbar::base {

struct TimerTag;
struct WatchTag;
using TimerId = StrongId<TimerTag>;
using WatchId = StrongId<WatchTag>;

using Duration = std::chrono::nanoseconds;
/// Monotonic (CLOCK_MONOTONIC); only differences mean anything. Does not run while the machine sleeps.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

enum class Readiness { readable, writable };

/// One thread's queue of tasks, timers and descriptor events; also the clock of all that runs on it. A session and
/// all that belongs to it live on one Loop, without locks. The real one is net::AsioLoop; tests use
/// fakes::FakeLoop, whose time moves only when the test says so.
///
/// post() may be called from any thread; everything else on the loop's thread (or before run()).
class Loop {
 public:
  Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  virtual ~Loop() = default;

  /// Runs `task` later on the loop's thread, never inside this call; tasks of one thread run in order.
  virtual void post(Task task) = 0;

  [[nodiscard]] virtual TimePoint now() const = 0;
  /// Runs `task` once, `after` from now (at once when not positive, but never inside this call).
  virtual TimerId schedule(Duration after, Task task) = 0;
  /// After this the task does not run any more, also when it was due. Unknown and past ids are ignored.
  virtual void cancel(TimerId timer) = 0;

  /// Calls `ready` again and again while `fd` is ready (level-triggered). The descriptor stays the caller's: it
  /// must stay open until unwatch(), and be watched at most once for each readiness.
  virtual WatchId watch(int fd, Readiness readiness, Function<void()> ready) = 0;
  /// After this `ready` does not run any more. May be called inside `ready`.
  virtual void unwatch(WatchId watch) = 0;

  /// True on the loop's thread, and while no thread runs the loop.
  [[nodiscard]] virtual bool is_current() const = 0;
};

}  // namespace sandbar::base
