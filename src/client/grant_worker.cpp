// SPDX-License-Identifier: Apache-2.0
#include "client/grant_worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "base/assert.h"

namespace sandbar::client {

Cancellation::Cancellation() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Cancellation::cancel() {
  cancelled_ = true;
  const std::uint64_t one = 1;
  if (event_) SANDBAR_ASSERT(::write(event_.get(), &one, sizeof one) == sizeof one);
}

bool Cancellation::wait(std::chrono::milliseconds most) const {
  pollfd event{fd(), POLLIN, 0};  // one that could not be made is -1, which poll(2) leaves out
  ::poll(&event, 1, static_cast<int>(most.count()));
  return cancelled_;
}

/// The loop's side: what is to be told.
struct GrantWorkers::Waiter {
  base::OneShot<GrantToken> done;
};

/// The two sides' common part.
struct GrantWorkers::Job {
  Cancellation cancellation;
  std::mutex mutex;
  base::Loop* loop = nullptr;    ///< guarded by mutex: null once nobody waits, and then perhaps gone
  std::weak_ptr<Waiter> waiter;  ///< guarded by mutex; locked on the loop's thread only
  std::atomic<bool> finished{false};
  std::thread thread;  ///< of whoever holds the list

  void finish(Result<GrantToken> result) {
    const std::lock_guard lock(mutex);
    if (loop != nullptr)
      loop->post([to = waiter, result = std::move(result)]() mutable {
        if (const auto known = to.lock()) known->done(std::move(result));
      });
    finished = true;
  }
  void abandon() {
    {
      const std::lock_guard lock(mutex);
      loop = nullptr;
    }
    cancellation.cancel();
  }
};

class GrantWorkers::Handle final : public PendingGrant {
 public:
  Handle(std::shared_ptr<Job> job, std::shared_ptr<Waiter> waiter) : job_(std::move(job)), waiter_(std::move(waiter)) {}
  ~Handle() override {
    job_->abandon();
    // Last: whoever is told that it was dropped may do anything.
    const std::shared_ptr<Waiter> dropped = std::move(waiter_);
  }

 private:
  std::shared_ptr<Job> job_;
  std::shared_ptr<Waiter> waiter_;
};

GrantWorkers::~GrantWorkers() {
  for (const auto& job : jobs_) job->cancellation.cancel();
  for (const auto& job : jobs_) job->thread.join();
}

void GrantWorkers::join_finished() {
  jobs_.remove_if([](const std::shared_ptr<Job>& job) {
    if (!job->finished) return false;
    job->thread.join();
    return true;
  });
}

std::unique_ptr<PendingGrant> GrantWorkers::run(base::Loop& loop, Work work, base::OneShot<GrantToken> done) {
  auto waiter = std::make_shared<Waiter>();
  waiter->done = std::move(done);
  auto job = std::make_shared<Job>();
  job->loop = &loop;
  job->waiter = waiter;
  const std::lock_guard lock(mutex_);
  join_finished();
  // A new thread has the mask of its maker: the program's signals are for its other threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    job->thread = std::thread([job, work = std::move(work)] { job->finish(work(job->cancellation)); });
    jobs_.push_back(job);
  } catch (const std::system_error& error) {
    job->finish(os_error(error.code().value(), "start a thread"));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::make_unique<Handle>(std::move(job), std::move(waiter));
}

}  // namespace sandbar::client
