// SPDX-License-Identifier: Apache-2.0
#include "net/asio_loop.h"

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "base/thread_check.h"
#include "base/unique_fd.h"

namespace sandbar::net {
namespace {

namespace asio = boost::asio;

using SharedReady = std::shared_ptr<base::Function<void()>>;

/// What is watched of one descriptor.
struct Watched {
  int fd = -1;
  base::WatchId read_id, write_id;
  SharedReady read, write;
  bool always = false;  ///< a regular file: epoll refuses it (EPERM), poll(2) calls it ready for ever

  [[nodiscard]] std::uint32_t events() const {
    return (read ? static_cast<std::uint32_t>(EPOLLIN) : 0U) | (write ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  }
  [[nodiscard]] bool empty() const { return !read && !write; }
};

template <class F>
class AtExit {
 public:
  explicit AtExit(F what) : what_(std::move(what)) {}
  ~AtExit() { what_(); }
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  F what_;
};

}  // namespace

/// Tasks, timers and watches are kept here and not in Asio's queues: what has not run can then be destroyed while the
/// loop still answers calls of its destructors. Descriptors are in a level-triggered epoll set of ours that Asio
/// waits for as a whole: Asio's own descriptors are edge-triggered, one system call more for each event, and set
/// O_NONBLOCK on what they watch, which a terminal shared with the user's shell must not get.
struct AsioLoop::State {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::atomic<std::thread::id> runner{};
  std::atomic<bool> stopping{false};

  std::mutex mutex;  ///< guards posted and pump_queued
  std::deque<base::Task> posted;
  bool pump_queued = false;
  std::deque<base::Task> batch;  ///< loop's thread

  asio::steady_timer alarm{context};
  base::TimePoint alarm_at = base::TimePoint::max();
  std::map<std::pair<base::TimePoint, std::uint64_t>, base::Task> timers;
  std::unordered_map<std::uint64_t, base::TimePoint> timer_times;
  std::uint64_t last_timer = 0;

  asio::posix::stream_descriptor epoll{context};
  std::unordered_map<std::uint64_t, Watched> watched;   ///< by registration: an event may outlive its descriptor
  std::unordered_map<int, std::uint64_t> registration;  ///< of a descriptor
  std::unordered_map<std::uint64_t, std::uint64_t> watch_owner;
  std::uint64_t last_registration = 0;
  std::uint64_t last_watch = 0;
  std::size_t always_ready = 0;
  bool always_queued = false;

  State() {
    const int fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
    epoll.assign(fd);
    wait_events();
  }

  void queue_pump() {
    asio::post(context, [this] { run_posted(); });
  }
  void run_posted();
  void set_alarm();
  void run_due();
  void wait_events();
  void run_events();
  void run_ready(std::uint64_t registration_id, std::uint32_t events);
  void run_always_ready();
  void apply(std::uint64_t registration_id, Watched& entry, int operation);
  void drop_everything();
};

void AsioLoop::State::run_posted() {
  {
    std::lock_guard lock(mutex);
    pump_queued = false;
    if (batch.empty())
      batch.swap(posted);
    else
      for (; !posted.empty(); posted.pop_front()) batch.push_back(std::move(posted.front()));
  }
  // Also on an exception: the tasks behind the one that threw run when run() is called again.
  const AtExit again([this] {
    std::lock_guard lock(mutex);
    if (pump_queued || (batch.empty() && posted.empty())) return;
    pump_queued = true;
    queue_pump();
  });
  while (!batch.empty() && !context.stopped()) {
    base::Task task = std::move(batch.front());
    batch.pop_front();
    task();
  }
}

void AsioLoop::State::set_alarm() {
  const base::TimePoint next = timers.empty() ? base::TimePoint::max() : timers.begin()->first.first;
  // An alarm that comes too early finds nothing due and sets the right one: cheaper than moving it at each cancel().
  if (next >= alarm_at) return;
  alarm_at = next;
  alarm.expires_at(next);
  alarm.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) run_due();
  });
}

void AsioLoop::State::run_due() {
  alarm_at = base::TimePoint::max();
  const AtExit again([this] { set_alarm(); });
  const base::TimePoint now = std::chrono::steady_clock::now();
  while (!timers.empty() && timers.begin()->first.first <= now && !context.stopped()) {
    base::Task task = std::move(timers.begin()->second);
    timer_times.erase(timers.begin()->first.second);
    timers.erase(timers.begin());
    task();
  }
}

void AsioLoop::State::wait_events() {
  epoll.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& failed) {
    if (!failed) run_events();
  });
}

void AsioLoop::State::run_events() {
  const AtExit again([this] { wait_events(); });
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll.native_handle(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count && !context.stopped(); ++i)
    run_ready(events[static_cast<std::size_t>(i)].data.u64, events[static_cast<std::size_t>(i)].events);
}

void AsioLoop::State::run_ready(std::uint64_t registration_id, std::uint32_t events) {
  // Looked up again for each callback: one may have unwatched the other, or another descriptor of the same batch.
  const auto callback = [&](std::uint32_t wanted, SharedReady Watched::*which) {
    if ((events & wanted) == 0) return;
    const auto entry = watched.find(registration_id);
    if (entry == watched.end()) return;
    const SharedReady ready = entry->second.*which;
    if (ready) (*ready)();
  };
  callback(EPOLLIN | EPOLLHUP | EPOLLERR, &Watched::read);
  callback(EPOLLOUT | EPOLLHUP | EPOLLERR, &Watched::write);
}

void AsioLoop::State::run_always_ready() {
  always_queued = false;
  std::vector<std::uint64_t> ids;
  for (const auto& [id, entry] : watched)
    if (entry.always) ids.push_back(id);
  const AtExit again([this] {
    if (always_ready == 0 || always_queued) return;
    always_queued = true;
    asio::post(context, [this] { run_always_ready(); });
  });
  for (const std::uint64_t id : ids) run_ready(id, EPOLLIN | EPOLLOUT);
}

void AsioLoop::State::apply(std::uint64_t registration_id, Watched& entry, int operation) {
  if (entry.always) return;
  epoll_event event{};
  event.events = entry.events();
  event.data.u64 = registration_id;
  if (::epoll_ctl(epoll.native_handle(), operation, entry.fd, &event) == 0 || operation == EPOLL_CTL_DEL) return;
  if (errno != EPERM) throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  entry.always = true;
  ++always_ready;
  if (always_queued) return;
  always_queued = true;
  asio::post(context, [this] { run_always_ready(); });
}

void AsioLoop::State::drop_everything() {
  // A destructor may post or schedule once more (a OneShot tells its owner): until nothing is left.
  for (;;) {
    std::deque<base::Task> tasks;
    {
      std::lock_guard lock(mutex);
      tasks.swap(posted);
      pump_queued = true;
    }
    const auto old_batch = std::exchange(batch, {});
    const auto old_timers = std::exchange(timers, {});
    const auto old_watched = std::exchange(watched, {});
    timer_times.clear();
    registration.clear();
    watch_owner.clear();
    if (tasks.empty() && old_batch.empty() && old_timers.empty() && old_watched.empty()) return;
  }
}

AsioLoop::AsioLoop() : state_(std::make_unique<State>()) {}

AsioLoop::~AsioLoop() { state_->drop_everything(); }

void AsioLoop::run() {
  SANDBAR_ASSERT(state_->runner.load() == std::thread::id());
  state_->runner = std::this_thread::get_id();
  const AtExit left([this] { state_->runner = std::thread::id(); });
  if (!state_->stopping) state_->context.run();
  state_->stopping = false;
  state_->context.restart();
}

void AsioLoop::stop() {
  state_->stopping = true;
  state_->context.stop();
}

void AsioLoop::post(base::Task task) {
  std::lock_guard lock(state_->mutex);
  state_->posted.push_back(std::move(task));
  if (std::exchange(state_->pump_queued, true)) return;
  state_->queue_pump();
}

base::TimePoint AsioLoop::now() const { return std::chrono::steady_clock::now(); }

base::TimerId AsioLoop::schedule(base::Duration after, base::Task task) {
  SANDBAR_ON_LOOP(*this);
  State& state = *state_;
  const base::TimerId id(++state.last_timer);
  // A year is for ever, and keeps now + after from overflowing.
  const base::Duration wait = std::clamp<base::Duration>(after, base::Duration::zero(), std::chrono::hours(24 * 365));
  const base::TimePoint when = now() + wait;
  state.timers.emplace(std::pair(when, id.value), std::move(task));
  state.timer_times.emplace(id.value, when);
  state.set_alarm();
  return id;
}

void AsioLoop::cancel(base::TimerId timer) {
  SANDBAR_ON_LOOP(*this);
  const auto known = state_->timer_times.find(timer.value);
  if (known == state_->timer_times.end()) return;
  const auto entry = state_->timers.extract(std::pair(known->second, timer.value));
  state_->timer_times.erase(known);
}

base::WatchId AsioLoop::watch(int fd, base::Readiness readiness, base::Function<void()> ready) {
  SANDBAR_ON_LOOP(*this);
  State& state = *state_;
  const base::WatchId id(++state.last_watch);
  const auto [place, fresh] = state.registration.try_emplace(fd, state.last_registration + 1);
  if (fresh) ++state.last_registration;
  Watched& entry = state.watched[place->second];
  entry.fd = fd;
  const bool reading = readiness == base::Readiness::readable;
  SANDBAR_ASSERT(!(reading ? entry.read : entry.write));
  (reading ? entry.read : entry.write) = std::make_shared<base::Function<void()>>(std::move(ready));
  (reading ? entry.read_id : entry.write_id) = id;
  state.watch_owner[id.value] = place->second;
  state.apply(place->second, entry, fresh ? EPOLL_CTL_ADD : EPOLL_CTL_MOD);
  return id;
}

void AsioLoop::unwatch(base::WatchId watch) {
  SANDBAR_ON_LOOP(*this);
  State& state = *state_;
  const auto owner = state.watch_owner.find(watch.value);
  if (owner == state.watch_owner.end()) return;
  const std::uint64_t registration_id = owner->second;
  state.watch_owner.erase(owner);
  Watched& entry = state.watched.at(registration_id);
  // Destroyed last: its captures may come back here.
  SharedReady dropped;
  if (entry.read && entry.read_id == watch)
    dropped.swap(entry.read);
  else
    dropped.swap(entry.write);
  if (!entry.empty()) return state.apply(registration_id, entry, EPOLL_CTL_MOD);
  state.apply(registration_id, entry, EPOLL_CTL_DEL);
  if (entry.always) --state.always_ready;
  state.registration.erase(entry.fd);
  state.watched.erase(registration_id);
}

bool AsioLoop::is_current() const {
  const std::thread::id runner = state_->runner.load();
  return runner == std::thread::id() || runner == std::this_thread::get_id();
}

}  // namespace sandbar::net
