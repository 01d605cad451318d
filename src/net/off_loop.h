// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/function.h"
#include "base/loop.h"
#include "sandbar/result.h"

namespace sandbar::net {

/// Work that blocks, on a thread of its own; internal to net. Destroying it forgets it at once: work that hangs keeps
/// only its own thread.
template <class T>
class OffLoop {
 public:
  using Done = base::Function<void(Result<T>)>;

  /// `done` runs on the loop's thread, never inside this call, and not after the OffLoop is gone. `operation` is for
  /// the error where no thread can be had.
  template <class Work>
  OffLoop(base::Loop& loop, const std::string& operation, Work work, Done done) : OffLoop(loop, std::move(done)) {
    try {
      const SignalsBlocked blocked;
      std::thread([shared = shared_, work = std::move(work)]() mutable { deliver(shared, work()); }).detach();
    } catch (const std::system_error& failure) {
      deliver(shared_, os_error(failure.code().value(), operation, "no thread for it"));
    }
  }
  /// For what is known already.
  OffLoop(base::Loop& loop, Result<T> known, Done done) : OffLoop(loop, std::move(done)) {
    deliver(shared_, std::move(known));
  }
  ~OffLoop() {
    Done dropped;  // destroyed after the lock is released
    std::lock_guard lock(shared_->mutex);
    shared_->loop = nullptr;
    std::swap(dropped, shared_->done);
  }
  OffLoop(const OffLoop&) = delete;
  OffLoop& operator=(const OffLoop&) = delete;

 private:
  /// What the thread and the loop share. The thread may outlive the loop, so it reaches it only under the mutex and
  /// only while somebody waits.
  struct Shared {
    std::mutex mutex;
    base::Loop* loop = nullptr;  ///< null: nobody waits any more
    Done done;
  };

  /// Signals are for the threads that know of them: a new thread inherits a mask with all of them blocked.
  class SignalsBlocked {
   public:
    SignalsBlocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

   private:
    sigset_t before_{};
  };

  OffLoop(base::Loop& loop, Done done) {
    shared_->loop = &loop;
    shared_->done = std::move(done);
  }

  static void deliver(const std::shared_ptr<Shared>& shared, Result<T> result) {
    std::lock_guard lock(shared->mutex);
    if (shared->loop == nullptr) return;
    shared->loop->post([weak = std::weak_ptr(shared), result = std::move(result)]() mutable {
      const auto alive = weak.lock();
      if (!alive) return;
      Done done;
      {
        std::lock_guard inner(alive->mutex);
        std::swap(done, alive->done);
      }
      if (done) done(std::move(result));
    });
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace sandbar::net
