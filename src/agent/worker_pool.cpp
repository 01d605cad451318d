// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_pool.h"

#include <csignal>

#include "agent/identity.h"

namespace sandbar::agent {

WorkerPool::WorkerPool(std::size_t threads) {
  // Inherited by the threads. SIGXFSZ of a write beyond RLIMIT_FSIZE is for the writing thread: blocked, only EFBIG is
  // left of it. The others are the main thread's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkerPool::~WorkerPool() {
  std::deque<base::Task> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  wakeup_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::submit(base::Task task) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  wakeup_.notify_one();
}

void WorkerPool::work() {
  own_umask_for_this_thread();
  for (;;) {
    base::Task task;
    {
      std::unique_lock lock(mutex_);
      wakeup_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace sandbar::agent
