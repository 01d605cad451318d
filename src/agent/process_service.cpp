// SPDX-License-Identifier: Apache-2.0
#include "agent/process_service.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/text.h"
#include "base/thread_check.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

/// For a process that the kernel does not let go (an uninterruptible sleep) at shutdown.
constexpr base::Duration kKillPatience = std::chrono::seconds(2);

Error no_such_process(const char* operation, const std::string& id) {
  return make_error(Errc::invalid, operation, "there is no process " + base::printable(id));
}

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

}  // namespace

ProcessService::ProcessService(base::Loop& loop, Root& root, Journals& journals, ProcessServiceOptions options)
    : loop_(loop),
      root_(root),
      journals_(journals),
      options_(options),
      pool_(std::make_unique<WorkerPool>(kSpawners)) {}

ProcessService::~ProcessService() {
  alive_.reset();  // what is dropped below must not call back
  if (shut_down_timer_) loop_.cancel(*shut_down_timer_);
  for (auto& [id, entry] : entries_)
    if (entry.journal_wait) journals_.stop_waiting(entry.journal_wait);
}

Result<void> ProcessService::check(const wire::Spawn& request) const {
  if (request.id.empty() || request.id.size() > wire::kMaxProcessId ||
      !std::all_of(request.id.begin(), request.id.end(), is_id_character))
    return make_error(Errc::invalid, "spawn", "a process id is 1 to 64 letters, digits, '-', '_' and '.'");
  if (shutting_down_) return make_error(Errc::disconnected, "spawn", "the agent is shutting down");
  if (running() >= kMaxProcesses)
    return make_error(Errc::limit, "spawn", "the agent runs " + std::to_string(kMaxProcesses) + " processes already");
  return {};
}

template <class T>
void ProcessService::post_answer(base::OneShot<T> done, Result<T> answer) {
  loop_.post([done = std::move(done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
}

ProcessService::Entry* ProcessService::find(const std::string& id) {
  const auto place = entries_.find(id);
  return place == entries_.end() ? nullptr : &place->second;
}

ProcessService::Entry* ProcessService::find(const std::string& id, std::uint64_t serial) {
  Entry* entry = find(id);
  return entry != nullptr && entry->serial == serial ? entry : nullptr;
}

void ProcessService::spawn(SessionKey owner, wire::Spawn request, ProcessChannels channels,
                           base::OneShot<wire::Spawn::Reply> done) {
  SANDBAR_ON_LOOP(loop_);
  if (Entry* known = find(request.id)) return repeat(*known, std::move(channels), std::move(done));
  if (auto checked = check(request); !checked) {
    channels.reset(checked.error());
    return post_answer<wire::Spawn::Reply>(std::move(done), std::move(checked).error());
  }
  forget_old_results();
  const std::string id = request.id;
  Entry& entry = entries_[id];
  entry.serial = ++last_serial_;
  entry.owner = owner;
  entry.request = std::move(request);
  entry.channels = std::move(channels);
  entry.spawners.push_back(std::move(done));
  if (entry.request.after)
    await_mutation(id, entry);
  else
    start(id, entry);
}

void ProcessService::repeat(Entry& entry, ProcessChannels channels, base::OneShot<wire::Spawn::Reply> done) {
  channels.reset(make_error(Errc::unsupported, "spawn", "the process was started before, with other streams"));
  if (entry.pid != 0)
    post_answer<wire::Spawn::Reply>(std::move(done), wire::Spawn::Reply{entry.pid});
  else
    entry.spawners.push_back(std::move(done));
}

void ProcessService::await_mutation(const std::string& id, Entry& entry) {
  entry.stage = Stage::waiting;
  auto ready = [this, alive = std::weak_ptr(alive_), id, serial = entry.serial](Result<void> result) {
    if (alive.expired()) return;
    Entry* waiting = find(id, serial);
    if (waiting == nullptr || waiting->stage != Stage::waiting) return;
    waiting->journal_wait = {};
    if (!result) return refuse(id, result.error());
    start(id, *waiting);
  };
  entry.journal_wait = journals_.when_finished(entry.request.after->journal, entry.request.after->mutation, ready);
}

void ProcessService::start(const std::string& id, Entry& entry) {
  entry.stage = Stage::starting;
  auto env = merged_environment(entry.request.env);
  ChildPlan plan;
  plan.argv = std::move(entry.request.argv);
  plan.root = &root_;
  plan.cwd = std::move(entry.request.cwd);
  plan.pipe_stdin = entry.channels.in != nullptr;
  plan.pipe_stdout = entry.channels.out != nullptr;
  plan.pipe_stderr = entry.channels.err != nullptr;
  plan.defaults = options_.defaults;
  ++starting_;
  auto started = [this, alive = std::weak_ptr(alive_), id, serial = entry.serial](Result<Child> child) {
    if (!alive.expired()) on_started(id, serial, std::move(child));
  };
  if (!env) {
    loop_.post([started, error = std::move(env).error()]() mutable { started(std::move(error)); });
    return;
  }
  plan.env = std::move(*env);
  pool_->submit([&loop = loop_, plan = std::move(plan), started]() mutable {
    // Only the posted task looks at `alive`, on the loop's thread. A child that nobody is left for is killed there.
    loop.post([started, child = start_child(plan)]() mutable { started(std::move(child)); });
  });
}

void ProcessService::on_started(const std::string& id, std::uint64_t serial, Result<Child> child) {
  --starting_;
  Entry* entry = find(id, serial);
  SANDBAR_ASSERT(entry != nullptr);
  if (!child) {
    refuse(id, child.error());
    reap_orphans();
    return;
  }
  entry->stage = Stage::running;
  entry->request = {};
  entry->pid = static_cast<std::uint32_t>(child->pid());
  entry->process =
      std::make_unique<Process>(loop_, std::move(*child), std::move(entry->channels),
                                [this, id, serial](wire::WaitProcess::Reply status) { on_ended(id, serial, status); });
  for (auto& done : entry->spawners) post_answer<wire::Spawn::Reply>(std::move(done), wire::Spawn::Reply{entry->pid});
  entry->spawners.clear();
  for (const int number : entry->early_signals) static_cast<void>(entry->process->signal(number));
  entry->early_signals.clear();
  if (entry->abandoned) entry->process->hang_up();
  reap_orphans();
}

void ProcessService::on_ended(const std::string& id, std::uint64_t serial, wire::WaitProcess::Reply status) {
  Entry* entry = find(id, serial);
  SANDBAR_ASSERT(entry != nullptr);
  status.change = root_.count_change();
  entry->stage = Stage::finished;
  entry->status = status;
  entry->process.reset();
  finished_.push_back({id, loop_.now()});
  for (auto& waiter : entry->waiters) post_answer<wire::WaitProcess::Reply>(std::move(waiter.done), status);
  entry->waiters.clear();
  forget_old_results();
  reap_orphans();
  check_shut_down();
}

void ProcessService::refuse(const std::string& id, const Error& reason) {
  const auto place = entries_.find(id);
  Entry entry = std::move(place->second);
  entries_.erase(place);
  if (entry.journal_wait) journals_.stop_waiting(entry.journal_wait);
  entry.channels.reset(reason);
  for (auto& done : entry.spawners) post_answer<wire::Spawn::Reply>(std::move(done), reason);
  for (auto& waiter : entry.waiters) post_answer<wire::WaitProcess::Reply>(std::move(waiter.done), reason);
  check_shut_down();
}

void ProcessService::cancel_spawn(const std::string& id) {
  Entry* entry = find(id);
  if (entry != nullptr && entry->stage == Stage::waiting && entry->spawners.size() == 1)
    refuse(id, make_error(Errc::cancelled, "spawn", "given up while it waited for the files"));
}

WaitTicket ProcessService::wait(const std::string& id, base::OneShot<wire::WaitProcess::Reply> done) {
  SANDBAR_ON_LOOP(loop_);
  Entry* entry = find(id);
  if (entry == nullptr)
    post_answer<wire::WaitProcess::Reply>(std::move(done), no_such_process("wait", id));
  else if (entry->stage == Stage::finished)
    post_answer<wire::WaitProcess::Reply>(std::move(done), entry->status);
  else
    entry->waiters.push_back({WaitTicket(++last_ticket_), std::move(done)});
  return WaitTicket(last_ticket_);
}

void ProcessService::cancel_wait(WaitTicket ticket) {
  for (auto& [id, entry] : entries_) {
    const auto waiter = std::find_if(entry.waiters.begin(), entry.waiters.end(),
                                     [ticket](const Waiter& each) { return each.ticket == ticket; });
    if (waiter == entry.waiters.end()) continue;
    auto done = std::move(waiter->done);
    entry.waiters.erase(waiter);
    return post_answer<wire::WaitProcess::Reply>(std::move(done), make_error(Errc::cancelled, "wait", "given up"));
  }
}

Result<void> ProcessService::signal(const std::string& id, std::uint32_t number) {
  SANDBAR_ON_LOOP(loop_);
  if (number == 0 || number > static_cast<std::uint32_t>(SIGRTMAX))
    return make_error(Errc::invalid, "signal", "there is no signal " + std::to_string(number));
  Entry* entry = find(id);
  if (entry == nullptr) return no_such_process("signal", id);
  if (entry->process) return entry->process->signal(static_cast<int>(number));
  if (entry->stage == Stage::finished) return {};
  if (entry->early_signals.size() >= kMaxEarlySignals)
    return make_error(Errc::limit, "signal", "too many for a process that is not started yet");
  entry->early_signals.push_back(static_cast<int>(number));
  return {};
}

void ProcessService::session_over(SessionKey owner) {
  SANDBAR_ON_LOOP(loop_);
  std::vector<std::string> unstarted;
  for (auto& [id, entry] : entries_) {
    if (entry.owner != owner) continue;
    if (entry.stage == Stage::waiting) unstarted.push_back(id);
    entry.abandoned = true;
    if (entry.process) entry.process->hang_up();
  }
  for (const auto& id : unstarted) refuse(id, make_error(Errc::disconnected, "spawn", "its session is over"));
}

void ProcessService::shut_down(base::Duration grace, base::Task done) {
  SANDBAR_ON_LOOP(loop_);
  shutting_down_ = true;
  shut_down_done_ = std::move(done);
  std::vector<SessionKey> owners;
  for (const auto& [id, entry] : entries_) owners.push_back(entry.owner);
  for (const SessionKey owner : owners) session_over(owner);
  shut_down_timer_ = loop_.schedule(grace, [this] {
    for (auto& [id, entry] : entries_)
      if (entry.process) entry.process->kill();
    shut_down_timer_ = loop_.schedule(kKillPatience, [this] {
      shut_down_timer_.reset();
      std::exchange(shut_down_done_, nullptr)();
    });
  });
  check_shut_down();
}

void ProcessService::check_shut_down() {
  if (!shut_down_done_ || running() > 0) return;
  if (shut_down_timer_) loop_.cancel(*shut_down_timer_);
  shut_down_timer_.reset();
  loop_.post(std::exchange(shut_down_done_, nullptr));
}

void ProcessService::forget_old_results() {
  while (!finished_.empty()) {
    const Finished& oldest = finished_.front();
    if (finished_.size() <= kMaxResults && loop_.now() - oldest.at < kResultLife) return;
    entries_.erase(oldest.id);
    finished_.pop_front();
  }
}

void ProcessService::reap_orphans() {
  // A child that is being started is not in the table yet, and must not be taken for an orphan.
  if (!options_.reap_orphans || starting_ > 0) return;
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) return;
    const auto pid = static_cast<std::uint32_t>(info.si_pid);
    // One of ours whose turn comes by its own watch; the kernel shows it first, so others wait until it is reaped.
    for (const auto& [id, entry] : entries_)
      if (entry.process && entry.pid == pid) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace sandbar::agent
