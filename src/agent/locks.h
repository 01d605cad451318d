// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <map>
#include <memory>

#include "agent/handles.h"
#include "agent/root.h"
#include "agent/worker_pool.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "wire/messages.h"

namespace sandbar::agent {

struct LockCallTag;
using LockCallId = base::StrongId<LockCallTag>;

/// The locks of one session. Each owner has a descriptor of its own for each object and kind, with open file
/// description locks on it (fcntl(2), F_OFD_SETLK), so that the kernel sees owners as different and they exclude each
/// other, other sessions and the sandbox's own processes; flock(2) likewise. Nothing blocks a worker: whoever waits
/// tries again, at once when this session gives a lock back, else with a growing pause.
///
/// On the loop's thread; the calls themselves run on workers. Destroyed, it gives all locks back.
class SessionLocks : public std::enable_shared_from_this<SessionLocks> {
 public:
  /// Separate ranges of one owner in one file; ENOLCK beyond.
  static constexpr std::size_t kMaxRanges = 16384;
  /// Pauses between tries.
  static constexpr base::Duration kFirstPause = std::chrono::milliseconds(1);
  static constexpr base::Duration kLongestPause = std::chrono::milliseconds(50);

  SessionLocks(base::Loop& loop, Root& root, WorkerPool& pool);
  ~SessionLocks();

  /// `done`: EAGAIN for a lock that is held by another, without wire::Lock::wait.
  LockCallId lock(OpenFilePtr file, const wire::Lock& request, base::OneShot<void> done);
  void test(OpenFilePtr file, const wire::TestLock& request, base::OneShot<wire::TestLock::Reply> done);
  /// `done` hears Errc::cancelled, inside this call; a lock that is granted meanwhile is given back. Unknown and past
  /// ids are ignored.
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
  struct OwnerLocks;
  struct Tried;
  struct Call {
    Key key{};
    OpenFilePtr file;
    wire::Lock request;
    base::OneShot<void> done;
    base::Duration pause = kFirstPause;
    base::TimerId timer;
    bool trying = false;
    bool again = false;  ///< something was given back during the try
  };

  std::shared_ptr<OwnerLocks> owner_of(const Key& key, const ObjectPtr& object);
  void leave(const Key& key);
  void attempt(LockCallId id);
  void on_tried(LockCallId id, const Tried& tried);
  void give_back(const Call& call);
  void end(LockCallId id, Result<void> result);
  void wake(const Object* object);

  base::Loop& loop_;
  Root& root_;
  WorkerPool& pool_;
  std::map<Key, std::shared_ptr<OwnerLocks>> owners_;
  std::map<LockCallId, Call> calls_;
  std::uint64_t last_call_ = 0;
};

}  // namespace sandbar::agent
