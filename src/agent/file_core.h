// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/file_ops.h"
#include "agent/id_table.h"
#include "agent/journal.h"
#include "agent/locks.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "wire/messages.h"
#include "wire/request_names.h"

namespace sandbar::agent {

struct FileCallTag;
using FileCallId = base::StrongId<FileCallTag>;

struct FileAnswer {
  wire::Reply reply;
  base::Bytes body;
};

/// The file service of one session without its transport: decides when a request may run, and what its ids mean.
///
/// - Mutations run in the order of their numbers (Journals); others with `after` when that mutation is done. A mutation
///   that was done before is answered as it was then, and what it binds is found again.
/// - A request that names an id which an earlier one is to bind waits for it, and fails with its error.
/// - A close waits for the requests of its handle; an id that is released lives until the requests that name it are
/// done.
/// - All else runs in parallel, on the worker pool.
///
/// On the loop's thread. Workers never touch it: what they do comes back by the loop, and is dropped if it is gone.
class FileCore : public std::enable_shared_from_this<FileCore> {
 public:
  /// Requests under way. The mux refuses more than wire::kMaxRequests; this is our own last line.
  static constexpr std::size_t kMaxCalls = 8192;
  /// Ids of objects. A client that walks millions of files has to release some.
  static constexpr std::size_t kMaxObjects = 2'000'000;

  FileCore(base::Loop& loop, Root& root, WorkerPool& pool, Journals& journals, std::string journal_id);
  ~FileCore();
  FileCore(const FileCore&) = delete;
  FileCore& operator=(const FileCore&) = delete;

  /// `done` never runs inside this call.
  FileCallId submit(wire::Request request, base::Bytes body, base::OneShot<FileAnswer> done);
  /// A request that has not begun, or waits for a lock, is answered with Errc::cancelled. A cancelled mutation uses its
  /// number up. Unknown and past ids are ignored.
  void cancel(FileCallId call);

  /// All locks of the session, and waits for one, which fail. False where there was none.
  bool give_locks_back();

  [[nodiscard]] std::size_t objects() const { return objects_.size(); }
  [[nodiscard]] std::size_t handles() const { return handles_.size(); }

 private:
  enum class Turn : std::uint8_t { none, waiting, begun };
  struct Call {
    std::shared_ptr<FileJob> job;
    wire::RequestNames names;
    base::OneShot<FileAnswer> done;
    std::optional<Error> failure;            ///< known at the start, told when it is the request's turn
    Turn turn = Turn::none;                  ///< in the journal
    JournalTurnId place;                     ///< while `turn` is waiting
    std::optional<MutationResult> repeated;  ///< the answer of one that was done before
    JournalWaitId after;
    bool running = false;
    LockCallId lock;
    // Which of the names count as used, and which ids it is to bind.
    std::array<bool, 3> uses_object{};
    std::array<bool, 2> uses_handle{};
    bool binds_object = false, binds_handle = false;
  };
  using ObjectTable = IdTable<wire::ObjectId, ObjectPtr, FileCallId>;
  using HandleTable = IdTable<wire::HandleId, OpenFilePtr, FileCallId>;

  // Before a request runs.
  void reserve(Call& call);
  void pass_gate(FileCallId id, Call& call);
  void enter_journal(FileCallId id, Call& call);
  void on_gate(FileCallId id, Result<void> passed);
  void on_turn(FileCallId id, Result<MutationTurn> turn);
  void look_at(FileCallId id);
  void drain_ready();
  bool answer_again(FileCallId id, Call& call);
  bool names_ready(FileCallId id, Call& call);
  bool close_ready(FileCallId id, Call& call);

  // Running it.
  void start(FileCallId id, Call& call);
  void run_on_worker(FileCallId id, Call& call);
  void run_lock(FileCallId id, Call& call, const wire::Lock& request);
  void run_test_lock(FileCallId id, Call& call, const wire::TestLock& request);
  void on_performed(FileCallId id, PerformedFile performed);

  // After it.
  void finish(FileCallId id, FileResult result, wire::ChangeNumber change);
  void fail(FileCallId id, Error error);
  bool settle_journal(Call& call, const FileResult& result, wire::ChangeNumber change);
  void answer(Call& call, FileResult result, wire::ChangeNumber change, bool recorded);
  void settle_bindings(Call& call, FileResult& result);
  void bind_listed(const Call& call, FileResult& result);
  void settle_uses(Call& call);
  void bury_dropped();

  base::Loop& loop_;
  Root& root_;
  WorkerPool& pool_;
  Journals& journals_;
  const std::string journal_id_;
  std::shared_ptr<SessionLocks> locks_;
  std::unordered_map<FileCallId, Call> calls_;
  ObjectTable objects_;
  HandleTable handles_;
  std::unordered_map<wire::HandleId, FileCallId> closers_;  ///< closes that wait for other requests of their handle
  std::deque<FileCallId> ready_;                            ///< to be looked at again
  /// Answers of mutations that were not executed, until that is recorded.
  std::unordered_map<FileCallId, base::Task> unrecorded_;
  bool draining_ = false;
  std::uint64_t last_call_ = 0;
};

}  // namespace sandbar::agent
