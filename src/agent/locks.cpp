// SPDX-License-Identifier: Apache-2.0
#include "agent/locks.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/thread_check.h"

namespace sandbar::agent {
namespace {

bool in_range(std::uint64_t start, std::uint64_t length) {
  return start <= LLONG_MAX && length <= LLONG_MAX && start + length <= base::kLockEnd;
}

}  // namespace

SessionLocks::SessionLocks(base::Loop& loop, Root& root, WorkerPool& pool) : loop_(loop), root_(root), pool_(pool) {}

SessionLocks::~SessionLocks() {
  for (auto& [id, call] : calls_) loop_.cancel(call.timer);
  // Closing descriptors can take long.
  pool_.submit([owners = std::move(owners_)] {});
}

SessionLocks::OwnerPtr SessionLocks::owner_of(const Key& key, const ObjectPtr& object) {
  OwnerPtr& owner = owners_[key];
  if (!owner) owner = std::make_shared<OwnerLocks>(object);
  ++owner->calls;
  return owner;
}

void SessionLocks::leave(const Key& key) {
  --owners_.at(key)->calls;
  forget_if_done(key);
}

void SessionLocks::forget_if_done(const Key& key) {
  const auto it = owners_.find(key);
  if (it->second->busy || it->second->calls != 0 || !it->second->held.empty()) return;
  pool_.submit([owner = std::move(it->second)] {});
  owners_.erase(it);
}

LockCallId SessionLocks::lock(OpenFilePtr file, const wire::Lock& request, base::OneShot<void> done) {
  SANDBAR_ON_LOOP(loop_);
  if (!in_range(request.start, request.length)) {
    loop_.post([done = std::move(done)]() mutable { done(os_error(EINVAL, "lock")); });
    return {};
  }
  const LockCallId id(++last_call_);
  Call& call = calls_[id];
  call.key = {file->object.get(), request.owner, request.kind};
  owner_of(call.key, file->object);
  call.file = std::move(file);
  call.request = request;
  call.done = std::move(done);
  attempt(id);
  return id;
}

void SessionLocks::attempt(LockCallId id) {
  Call& call = calls_.at(id);
  call.timer = {};
  const OwnerPtr& owner = owners_.at(call.key);
  if (!owner->busy) return start_try(id, call, owner);
  call.state = Call::State::queued;
  owner->queued.push_back(id);
}

void SessionLocks::start_try(LockCallId id, Call& call, const OwnerPtr& owner) {
  owner->busy = true;
  call.state = Call::State::trying;
  call.again = false;
  pool_.submit([weak = weak_from_this(), &loop = loop_, &root = root_, owner = OwnerPtr(owner), file = call.file,
                request = call.request, id]() mutable {
    const int error = owner->attempt(root, *file, request);
    owner.reset();  // before the session could end: its locks go with the last reference
    loop.post([weak, id, error] {
      if (const auto self = weak.lock()) self->on_tried(id, error);
    });
  });
}

void SessionLocks::on_tried(LockCallId id, int error) {
  Call& call = calls_.at(id);
  const Key key = call.key;
  const OwnerPtr& owner = owners_.at(key);
  call.state = Call::State::pausing;
  if (error == 0 && !call.done && call.request.type != wire::LockType::unlock) return restore(id, call, owner);
  if (error == 0)
    on_granted(id, call, *owner);
  else if (!call.done)
    end(id, {});
  else if (error == EAGAIN)
    on_held_by_another(id, call, *owner);
  else
    end(id, os_error(error, "lock"));
  try_next(key);
}

void SessionLocks::try_next(const Key& key) {
  const OwnerPtr& owner = owners_.at(key);
  owner->busy = false;
  while (!owner->busy && !owner->queued.empty()) {
    const LockCallId id = owner->queued.front();
    owner->queued.pop_front();
    if (const auto it = calls_.find(id); it != calls_.end()) start_try(id, it->second, owner);
  }
  forget_if_done(key);
}

void SessionLocks::on_granted(LockCallId id, const Call& call, OwnerLocks& owner) {
  const base::LockSpan span = span_of(call.request);
  const wire::LockType type = call.request.type;
  const Object* object = call.key.object;
  if (type == wire::LockType::unlock) {
    owner.held.clear(span.start, span.end);
  } else {
    owner.held.set(span.start, span.end, type);
    ++grants_;
  }
  end(id, {});
  if (type != wire::LockType::write) wake(object);
}

void SessionLocks::on_held_by_another(LockCallId id, Call& call, OwnerLocks& owner) {
  // flock(2): to convert a lock, the kernel gives the old one back first, and it stays lost.
  if (call.key.kind == wire::LockKind::flock && !owner.held.empty()) {
    owner.held.clear();
    wake(call.key.object);
  }
  // What was given back before this request came is free, although another worker may not be there yet.
  if (!call.request.wait && !call.again && !gives_back_before(id, call.key)) return end(id, os_error(EAGAIN, "lock"));
  if (call.request.wait && call.key.kind == wire::LockKind::posix && std::exchange(call.checked, grants_) != grants_) {
    waiting_[call.key.owner].insert(id);
    if (would_deadlock(call)) return end(id, os_error(EDEADLK, "lock"));
  }
  if (call.again) return attempt(id);
  call.timer = loop_.schedule(call.pause, [this, id] { attempt(id); });
  call.pause = std::min(call.pause * 2, kLongestPause);
}

bool SessionLocks::gives_back_before(LockCallId id, const Key& key) const {
  return std::any_of(calls_.begin(), calls_.lower_bound(id), [&key](const auto& earlier) {
    const Call& call = earlier.second;
    return call.key.object == key.object && call.request.type == wire::LockType::unlock;
  });
}

/// A lock that nobody waits for any more. Until what was there before is back, the owner's next request waits.
void SessionLocks::restore(LockCallId id, const Call& call, const OwnerPtr& owner) {
  const base::LockSpan span = span_of(call.request);
  pool_.submit([weak = weak_from_this(), &loop = loop_, owner = OwnerPtr(owner), request = call.request,
                before = owner->held.parts(span.start, span.end), id]() mutable {
    std::vector<LockRanges::Part> lost = owner->restore(request, before);
    owner.reset();
    loop.post([weak, id, lost = std::move(lost)] {
      if (const auto self = weak.lock()) self->on_restored(id, lost);
    });
  });
}

void SessionLocks::on_restored(LockCallId id, const std::vector<LockRanges::Part>& lost) {
  const Key key = calls_.at(id).key;
  for (const LockRanges::Part& part : lost) owners_.at(key)->held.set(part.start, part.end, *part.value);
  end(id, {});
  wake(key.object);
  try_next(key);
}

void SessionLocks::end(LockCallId id, Result<void> result) {
  const auto it = calls_.find(id);
  Call call = std::move(it->second);
  calls_.erase(it);
  if (const auto owner = waiting_.find(call.key.owner); owner != waiting_.end()) {
    owner->second.erase(id);
    if (owner->second.empty()) waiting_.erase(owner);
  }
  leave(call.key);
  call.done(std::move(result));
}

void SessionLocks::wake(const Object* object) {
  std::vector<LockCallId> ready;
  for (auto& [id, call] : calls_) {
    if (call.key.object != object || !call.done) continue;
    if (call.state == Call::State::trying) call.again = true;
    if (call.timer) ready.push_back(id);
  }
  for (const LockCallId id : ready) {
    loop_.cancel(calls_.at(id).timer);
    attempt(id);
  }
}

void SessionLocks::cancel(LockCallId id) {
  SANDBAR_ON_LOOP(loop_);
  const auto it = calls_.find(id);
  if (it == calls_.end() || !it->second.done) return;
  base::OneShot<void> done = std::move(it->second.done);
  loop_.cancel(it->second.timer);
  // The try that is under way comes back to a call without a completion.
  if (it->second.state != Call::State::trying) end(id, {});
  done(make_error(Errc::cancelled, "lock"));
}

void SessionLocks::test(OpenFilePtr file, const wire::TestLock& request, base::OneShot<wire::TestLock::Reply> done) {
  SANDBAR_ON_LOOP(loop_);
  const Key key{file->object.get(), request.owner, wire::LockKind::posix};
  if (request.type == wire::LockType::unlock || !in_range(request.start, request.length)) {
    loop_.post([done = std::move(done)]() mutable { done(os_error(EINVAL, "test a lock")); });
    return;
  }
  struct Test {
    OpenFilePtr file;
    wire::TestLock request;
    base::OneShot<wire::TestLock::Reply> done;
    OwnerPtr owner;
    wire::TestLock::Reply reply;
    int error = 0;
  };
  auto test = std::make_shared<Test>();
  test->owner = owner_of(key, file->object);
  test->file = std::move(file);
  test->request = request;
  test->done = std::move(done);
  pool_.submit([weak = weak_from_this(), &loop = loop_, test = std::move(test), key]() mutable {
    test->error = test->owner->test(*test->file, test->request, test->reply);
    test->owner.reset();
    loop.post([weak, test = std::move(test), key] {
      if (const auto self = weak.lock()) self->leave(key);
      if (test->error != 0)
        test->done(os_error(test->error, "test a lock"));
      else
        test->done(test->reply);
    });
  });
}

// --- Deadlocks ------------------------------------------------------------------------------------------------

/// Who waits for whom, from one call on.
struct SessionLocks::Search {
  std::vector<wire::LockOwner> open;
  std::set<wire::LockOwner> seen;
  std::size_t steps = 0;

  bool step() { return ++steps <= kMaxDeadlockSteps; }
};

/// The owners that hold something of what `call` wants.
void SessionLocks::add_holders(const Call& call, Search& search) const {
  const base::LockSpan span = span_of(call.request);
  const auto excludes = [&](wire::LockType held) {
    return held == wire::LockType::write || call.request.type == wire::LockType::write;
  };
  for (auto it = owners_.lower_bound({call.key.object, {}, {}}); it != owners_.end(); ++it) {
    const auto& [key, owner] = *it;
    if (key.object != call.key.object || !search.step()) return;
    if (key.kind == wire::LockKind::posix && key.owner != call.key.owner &&
        owner->held.find(span.start, span.end, excludes) && search.seen.insert(key.owner).second)
      search.open.push_back(key.owner);
  }
}

/// As the kernel does for posix locks on a disk (posix_locks_deadlock). There it leaves out open file description
/// locks, which a client's kernel does not tell apart: two of those that wait for each other fail, too, where they
/// would wait for ever.
bool SessionLocks::would_deadlock(const Call& call) const {
  Search search;
  add_holders(call, search);
  while (!search.open.empty()) {
    const wire::LockOwner owner = search.open.back();
    search.open.pop_back();
    if (owner == call.key.owner) return true;
    const auto waits = waiting_.find(owner);
    if (waits == waiting_.end()) continue;
    for (const LockCallId id : waits->second) {
      if (!search.step()) return false;
      const Call& wait = calls_.at(id);
      if (wait.done) add_holders(wait, search);
    }
  }
  return false;
}

}  // namespace sandbar::agent
