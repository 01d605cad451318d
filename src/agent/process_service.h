// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/child.h"
#include "agent/journal.h"
#include "agent/process.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "base/strong_id.h"
#include "wire/messages.h"

namespace sandbar::agent {

struct SessionTag;
struct WaitTag;
/// Whose processes they are: hung up when that session is over.
using SessionKey = base::StrongId<SessionTag>;
using WaitTicket = base::StrongId<WaitTag>;

/// Processes that are not reaped yet, of all sessions.
constexpr std::size_t kMaxProcesses = 1024;
/// How many results of ended processes are kept, and how long, so that a wait that comes late is still answered.
constexpr std::size_t kMaxResults = 4096;
constexpr base::Duration kResultLife = std::chrono::minutes(10);
/// Signals that are kept for a process that is being started.
constexpr std::size_t kMaxEarlySignals = 64;
/// Threads that start children: each may block in a lookup on a slow file system.
constexpr unsigned kSpawners = 4;

struct ProcessServiceOptions {
  ChildDefaults defaults;
  bool reap_orphans = false;  ///< this process is its PID namespace's init
};

/// The processes of one agent, by the names that their clients gave them. Names are the agent's, not a session's, so
/// that a spawn that is sent again over another connection starts nothing twice. Outlives the sessions. On the loop's
/// thread, but for the starting of children, which has threads of its own.
class ProcessService {
 public:
  ProcessService(base::Loop& loop, Root& root, Journals& journals, ProcessServiceOptions options);
  /// Kills what still runs.
  ~ProcessService();
  ProcessService(const ProcessService&) = delete;
  ProcessService& operator=(const ProcessService&) = delete;

  /// A refused spawn resets the channels. Completions never run inside the call.
  void spawn(SessionKey owner, wire::Spawn request, ProcessChannels channels, base::OneShot<wire::Spawn::Reply> done);
  /// Of a spawn that still waits for its mutation; later it goes on.
  void cancel_spawn(const std::string& id);
  WaitTicket wait(const std::string& id, base::OneShot<wire::WaitProcess::Reply> done);
  /// That wait is answered with Errc::cancelled. Unknown tickets are ignored.
  void cancel_wait(WaitTicket ticket);
  Result<void> signal(const std::string& id, std::uint32_t number);

  /// The session's processes get SIGHUP, and SIGKILL later; those not started yet are not started.
  void session_over(SessionKey owner);
  /// All sessions' as session_over(), but SIGKILL after `grace`; `done` runs once nothing is left, or a little later
  /// where the kernel does not let a process go. Nothing is started any more.
  void shut_down(base::Duration grace, base::Task done);
  /// Takes the status of orphans that became ours; see ProcessServiceOptions. For SIGCHLD.
  void reap_orphans();

  [[nodiscard]] std::size_t running() const { return entries_.size() - finished_.size(); }

 private:
  enum class Stage { waiting, starting, running, finished };
  struct Waiter {
    WaitTicket ticket;
    base::OneShot<wire::WaitProcess::Reply> done;
  };
  struct Entry {
    Stage stage = Stage::waiting;
    std::uint64_t serial = 0;  ///< tells a name's second use from the first
    SessionKey owner;
    wire::Spawn request;         ///< until it is started
    JournalWaitId journal_wait;  ///< while it waits for its mutation
    ProcessChannels channels;
    std::vector<base::OneShot<wire::Spawn::Reply>> spawners;
    std::vector<Waiter> waiters;
    std::vector<int> early_signals;
    bool abandoned = false;  ///< hang up as soon as it runs
    std::unique_ptr<Process> process;
    std::uint32_t pid = 0;
    wire::WaitProcess::Reply status;
  };
  struct Finished {
    std::string id;
    base::TimePoint at;
  };

  Result<void> check(const wire::Spawn& request) const;
  Entry* find(const std::string& id);
  Entry* find(const std::string& id, std::uint64_t serial);
  void repeat(Entry& entry, ProcessChannels channels, base::OneShot<wire::Spawn::Reply> done);
  void await_mutation(const std::string& id, Entry& entry);
  void start(const std::string& id, Entry& entry);
  void on_started(const std::string& id, std::uint64_t serial, Result<Child> child);
  void on_ended(const std::string& id, std::uint64_t serial, wire::WaitProcess::Reply status);
  void refuse(const std::string& id, const Error& reason);
  void forget_old_results();
  void check_shut_down();
  template <class T>
  void post_answer(base::OneShot<T> done, Result<T> answer);

  base::Loop& loop_;
  Root& root_;
  Journals& journals_;
  ProcessServiceOptions options_;
  std::unordered_map<std::string, Entry> entries_;
  std::deque<Finished> finished_;  ///< oldest first
  std::uint64_t last_serial_ = 0;
  std::uint64_t last_ticket_ = 0;
  std::size_t starting_ = 0;
  bool shutting_down_ = false;
  base::Task shut_down_done_;
  std::optional<base::TimerId> shut_down_timer_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  std::unique_ptr<WorkerPool> pool_;  ///< last: its threads end first
};

}  // namespace sandbar::agent
