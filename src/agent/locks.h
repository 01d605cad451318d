// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "agent/handles.h"
#include "agent/owner_locks.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "wire/messages.h"

namespace sandbar::agent {

/// The locks of one session. Each owner has a descriptor of its own for each object and kind (OwnerLocks), so that the
/// kernel sees owners as different and they exclude each other, other sessions and the sandbox's own processes. What
/// one owner asks for in one object is done in that order. Nothing blocks a worker: whoever waits tries again, at once
/// when this session gives a lock back, else with a growing pause.
///
/// On the loop's thread; the calls themselves run on workers. Destroyed, it gives all locks back.
class SessionLocks : public std::enable_shared_from_this<SessionLocks> {
 public:
  static constexpr std::size_t kMaxRanges = OwnerLocks::kMaxRanges;
  /// Pauses between tries.
  static constexpr base::Duration kFirstPause = std::chrono::milliseconds(1);
  static constexpr base::Duration kLongestPause = std::chrono::milliseconds(50);
  /// Owners and waits that a search for a deadlock looks at before it gives up, and the call waits. (The kernel's own
  /// follows a chain of 10, MAX_DEADLK_ITERATIONS.)
  static constexpr std::size_t kMaxDeadlockSteps = 4096;

  SessionLocks(base::Loop& loop, Root& root, WorkerPool& pool);
  ~SessionLocks();

  /// `done`: EAGAIN for a lock that is held by another, without wire::Lock::wait. With it EDEADLK for a posix lock
  /// whose holder waits, itself or through others of this session, for what this owner holds.
  LockCallId lock(OpenFilePtr file, const wire::Lock& request, base::OneShot<void> done);
  void test(OpenFilePtr file, const wire::TestLock& request, base::OneShot<wire::TestLock::Reply> done);
  /// `done` hears Errc::cancelled, inside this call; if the lock is granted meanwhile, the owner gets back what it held
  /// there before. Unknown and past ids are ignored.
  void cancel(LockCallId call);

  /// Owners that hold or want something.
  [[nodiscard]] std::size_t owners() const { return owners_.size(); }

 private:
  struct Key {
    const Object* object;
    wire::LockOwner owner;
    wire::LockKind kind;
    auto operator<=>(const Key&) const = default;
  };
  using OwnerPtr = std::shared_ptr<OwnerLocks>;
  struct Call {
    Key key{};
    OpenFilePtr file;
    wire::Lock request;
    base::OneShot<void> done;  ///< none: given up
    base::Duration pause = kFirstPause;
    base::TimerId timer;
    enum class State : std::uint8_t { pausing, queued, trying } state = State::pausing;
    bool again = false;                        ///< something was given back during the try
    std::uint64_t checked = ~std::uint64_t{};  ///< grants_ when a deadlock was looked for last
  };

  OwnerPtr owner_of(const Key& key, const ObjectPtr& object);
  void leave(const Key& key);
  void forget_if_done(const Key& key);

  void attempt(LockCallId id);
  void start_try(LockCallId id, Call& call, const OwnerPtr& owner);
  void on_tried(LockCallId id, int error);
  void on_granted(LockCallId id, const Call& call, OwnerLocks& owner);
  void on_held_by_another(LockCallId id, Call& call, OwnerLocks& owner);
  /// Whether an unlock that came before `id` is not done yet.
  [[nodiscard]] bool gives_back_before(LockCallId id, const Key& key) const;
  void restore(LockCallId id, const Call& call, const OwnerPtr& owner);
  void on_restored(LockCallId id, const std::vector<LockRanges::Part>& lost);
  /// The owner's worker is done.
  void try_next(const Key& key);
  void end(LockCallId id, Result<void> result);
  void wake(const Object* object);

  struct Search;
  bool would_deadlock(const Call& call) const;
  void add_holders(const Call& call, Search& search) const;

  base::Loop& loop_;
  Root& root_;
  WorkerPool& pool_;
  std::map<Key, OwnerPtr> owners_;
  std::map<LockCallId, Call> calls_;
  std::map<wire::LockOwner, std::set<LockCallId>> waiting_;  ///< posix calls that were found to be in need of waiting
  std::uint64_t last_call_ = 0;
  std::uint64_t grants_ = 0;  ///< so far: only one more can make a wait part of a new cycle
};

}  // namespace sandbar::agent
