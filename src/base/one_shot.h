// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/function.h"
#include "sandbar/result.h"

namespace sandbar::base {

/// The completion of one asynchronous operation: move-only, runs exactly once. One that is dropped without having
/// run is told Errc::cancelled from the destructor, so that no caller waits for ever; so a callback must be able
/// to run while its operation's owner is being destroyed (hold weak references, not `this`, where that matters).
///
/// By convention (libtorrent's) an async_ function never runs its completion inside the call that was given it:
/// it posts. Not thread-safe: belongs to one thread at a time.
template <class T>
class OneShot {
 public:
  OneShot() = default;
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, OneShot> &&
                                              std::is_invocable_v<std::decay_t<F>&, Result<T>>>>
  OneShot(F&& callback) : callback_(std::forward<F>(callback)) {}  // NOLINT(google-explicit-constructor)
  OneShot(OneShot&& other) noexcept : callback_(std::exchange(other.callback_, nullptr)) {}
  OneShot& operator=(OneShot&& other) noexcept {
    if (this != &other) {
      drop();
      callback_ = std::exchange(other.callback_, nullptr);
    }
    return *this;
  }
  OneShot(const OneShot&) = delete;
  OneShot& operator=(const OneShot&) = delete;
  ~OneShot() { drop(); }

  /// True while it has not run.
  explicit operator bool() const noexcept { return static_cast<bool>(callback_); }

  /// Runs the callback, which is gone afterwards; calling an empty one does nothing.
  void operator()(Result<T> result) {
    auto callback = std::exchange(callback_, nullptr);
    if (callback) callback(std::move(result));
  }

 private:
  void drop() {
    if (callback_) (*this)(make_error(Errc::cancelled, "", "the operation was dropped"));
  }

  Function<void(Result<T>)> callback_;
};

}  // namespace sandbar::base
