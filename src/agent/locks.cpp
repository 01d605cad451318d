// SPDX-License-Identifier: Apache-2.0
#include "agent/locks.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <utility>
#include <vector>

#include "agent/range_set.h"
#include "base/thread_check.h"

namespace sandbar::agent {
namespace {

constexpr auto kFileEnd = static_cast<std::uint64_t>(LLONG_MAX) + 1;

struct ::flock make_flock(wire::LockType type, std::uint64_t start, std::uint64_t length) {
  struct ::flock lock {};
  lock.l_type = type == wire::LockType::read ? F_RDLCK : type == wire::LockType::write ? F_WRLCK : F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(start);
  lock.l_len = static_cast<off_t>(length);
  return lock;
}

}  // namespace

/// The outcome of one try.
struct SessionLocks::Tried {
  bool granted = false;
  int error = 0;
};

/// What one owner holds in one object by one kind of lock.
struct SessionLocks::OwnerLocks {
  explicit OwnerLocks(ObjectPtr locked) : object(std::move(locked)) {}

  const ObjectPtr object;  ///< keeps the key's address its own
  // On the loop: calls under way, which keep it in the table.
  std::size_t calls = 0;
  std::atomic<bool> holds_nothing{true};

  // Workers, under the mutex. System calls under it do not block.
  std::mutex mutex;
  base::UniqueFd fd;
  std::uint32_t access = 0;  ///< O_ACCMODE bits of `fd`
  Root::OpenFileToken token;
  RangeSet held;

  Tried attempt(Root& root, const OpenFile& file, const wire::Lock& request);
  Tried test(const OpenFile& file, const wire::TestLock& request, wire::TestLock::Reply& reply);

 private:
  int prepare(Root& root, const OpenFile& file, const wire::Lock& request);
  int open_descriptor(const OpenFile& file, bool for_writing, base::UniqueFd& into, std::uint32_t& access_of) const;
  int become_writable(const OpenFile& file);
  int apply(const wire::Lock& request);
};

/// For writing where the client's file is open for writing: never else, as a script that locks itself could not be
/// executed then (ETXTBSY). flock(2) needs no particular access.
int SessionLocks::OwnerLocks::open_descriptor(const OpenFile& file, bool for_writing, base::UniqueFd& into,
                                              std::uint32_t& access_of) const {
  const ProcPath path(file.fd->get());
  for (const std::uint32_t mode :
       for_writing ? std::vector<std::uint32_t>{O_RDWR, O_WRONLY} : std::vector<std::uint32_t>{O_RDONLY}) {
    into.reset(::open(path.c_str(), static_cast<int>(mode) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    access_of = mode;
    if (into) return 0;
  }
  return ENOLCK;
}

/// The read locks of a descriptor that can only read move to one that can write: taken there first (read locks do not
/// exclude each other), so that nothing comes in between.
int SessionLocks::OwnerLocks::become_writable(const OpenFile& file) {
  base::UniqueFd writable;
  std::uint32_t writable_access = 0;
  if (const int error = open_descriptor(file, true, writable, writable_access); error != 0) return error;
  for (const auto& [start, end] : held.ranges()) {
    struct ::flock lock = make_flock(wire::LockType::read, start, end == kFileEnd ? 0 : end - start);
    if (::fcntl(writable.get(), F_OFD_SETLK, &lock) != 0) return ENOLCK;
  }
  fd = std::move(writable);
  access = writable_access;
  return 0;
}

int SessionLocks::OwnerLocks::prepare(Root& root, const OpenFile& file, const wire::Lock& request) {
  const bool writes = request.kind == wire::LockKind::posix && request.type == wire::LockType::write;
  const bool reads = request.kind == wire::LockKind::posix && request.type == wire::LockType::read;
  if ((writes && !file.writable()) || (reads && !file.readable())) return EBADF;
  if (held.size() >= kMaxRanges) return ENOLCK;
  if (fd) return writes && access == O_RDONLY ? become_writable(file) : 0;
  Result<Root::OpenFileToken> taken = root.take_open_file();
  if (!taken) return ENOLCK;
  token = std::move(taken).value();
  return open_descriptor(file, file.writable(), fd, access);
}

int SessionLocks::OwnerLocks::apply(const wire::Lock& request) {
  if (request.kind == wire::LockKind::flock) {
    const int operation = request.type == wire::LockType::read    ? LOCK_SH
                          : request.type == wire::LockType::write ? LOCK_EX
                                                                  : LOCK_UN;
    return ::flock(fd.get(), operation | LOCK_NB) == 0 ? 0 : errno;
  }
  struct ::flock lock = make_flock(request.type, request.start, request.length);
  return ::fcntl(fd.get(), F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

SessionLocks::Tried SessionLocks::OwnerLocks::attempt(Root& root, const OpenFile& file, const wire::Lock& request) {
  std::lock_guard lock(mutex);
  const bool unlock = request.type == wire::LockType::unlock;
  Tried tried;
  if (!unlock) tried.error = prepare(root, file, request);
  if (tried.error == 0 && fd) tried.error = apply(request);
  if (tried.error == 0) {
    tried.granted = true;
    const bool whole = request.kind == wire::LockKind::flock;
    const std::uint64_t start = whole ? 0 : request.start;
    const std::uint64_t end = whole || request.length == 0 ? kFileEnd : request.start + request.length;
    unlock ? held.remove(start, end) : held.add(start, end);
  }
  if (held.empty()) {
    fd.reset();
    token = {};
  }
  holds_nothing = held.empty();
  return tried;
}

SessionLocks::Tried SessionLocks::OwnerLocks::test(const OpenFile& file, const wire::TestLock& request,
                                                   wire::TestLock::Reply& reply) {
  std::lock_guard lock(mutex);
  Tried tried;
  struct ::flock found = make_flock(request.type, request.start, request.length);
  // With the owner's descriptor its own locks are not in its way; an owner without one has none.
  if (::fcntl(fd ? fd.get() : file.fd->get(), F_OFD_GETLK, &found) != 0) {
    tried.error = errno;
    return tried;
  }
  if (found.l_type == F_UNLCK) return tried;
  reply.type = found.l_type == F_RDLCK ? wire::LockType::read : wire::LockType::write;
  reply.start = static_cast<std::uint64_t>(found.l_start);
  reply.length = static_cast<std::uint64_t>(found.l_len);
  // -1 for OFD locks: of a client, as a rule.
  reply.pid = found.l_pid > 0 ? static_cast<std::uint32_t>(found.l_pid) : 0;
  return tried;
}

SessionLocks::SessionLocks(base::Loop& loop, Root& root, WorkerPool& pool) : loop_(loop), root_(root), pool_(pool) {}

SessionLocks::~SessionLocks() {
  for (auto& [id, call] : calls_) loop_.cancel(call.timer);
}

std::shared_ptr<SessionLocks::OwnerLocks> SessionLocks::owner_of(const Key& key, const ObjectPtr& object) {
  std::shared_ptr<OwnerLocks>& owner = owners_[key];
  if (!owner) owner = std::make_shared<OwnerLocks>(object);
  ++owner->calls;
  return owner;
}

void SessionLocks::leave(const Key& key) {
  const auto it = owners_.find(key);
  if (--it->second->calls == 0 && it->second->holds_nothing) owners_.erase(it);
}

LockCallId SessionLocks::lock(OpenFilePtr file, const wire::Lock& request, base::OneShot<void> done) {
  SANDBAR_ON_LOOP(loop_);
  const LockCallId id(++last_call_);
  const Key key{file->object.get(), request.owner, request.kind};
  if (request.start > LLONG_MAX || request.length > LLONG_MAX || request.start + request.length > kFileEnd) {
    loop_.post([done = std::move(done)]() mutable { done(os_error(EINVAL, "lock")); });
    return {};
  }
  owner_of(key, file->object);
  Call& call = calls_[id];
  call.key = key;
  call.file = std::move(file);
  call.request = request;
  call.done = std::move(done);
  attempt(id);
  return id;
}

void SessionLocks::attempt(LockCallId id) {
  Call& call = calls_.at(id);
  call.trying = true;
  call.again = false;
  call.timer = {};
  pool_.submit([weak = weak_from_this(), &loop = loop_, &root = root_, owner = owners_.at(call.key), file = call.file,
                request = call.request, id]() mutable {
    const Tried tried = owner->attempt(root, *file, request);
    owner.reset();  // before the session could end: its locks go with the last reference
    loop.post([weak, id, tried] {
      if (const auto self = weak.lock()) self->on_tried(id, tried);
    });
  });
}

void SessionLocks::on_tried(LockCallId id, const Tried& tried) {
  Call& call = calls_.at(id);
  call.trying = false;
  if (!call.done) {  // given up meanwhile
    if (tried.granted && call.request.type != wire::LockType::unlock) give_back(call);
    return end(id, {});
  }
  if (tried.granted) {
    const Object* object = call.key.object;
    const bool frees = call.request.type != wire::LockType::write;
    end(id, {});
    if (frees) wake(object);
    return;
  }
  if (tried.error != EAGAIN && tried.error != EACCES) return end(id, os_error(tried.error, "lock"));
  if (!call.request.wait) return end(id, os_error(EAGAIN, "lock"));
  if (call.again) return attempt(id);
  call.timer = loop_.schedule(call.pause, [this, id] { attempt(id); });
  call.pause = std::min(call.pause * 2, kLongestPause);
}

/// A lock that nobody waits for any more. An older lock of the same owner in that range goes with it: it has been
/// replaced, and what it was is not known.
void SessionLocks::give_back(const Call& call) {
  wire::Lock unlock = call.request;
  unlock.type = wire::LockType::unlock;
  unlock.wait = false;
  lock(call.file, unlock, [](const Result<void>&) {});
}

void SessionLocks::end(LockCallId id, Result<void> result) {
  const auto it = calls_.find(id);
  Call call = std::move(it->second);
  calls_.erase(it);
  leave(call.key);
  call.done(std::move(result));
}

void SessionLocks::wake(const Object* object) {
  std::vector<LockCallId> ready;
  for (auto& [id, call] : calls_) {
    if (call.key.object != object || !call.done) continue;
    if (call.trying)
      call.again = true;
    else
      ready.push_back(id);
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
  if (!it->second.trying) end(id, {});
  done(make_error(Errc::cancelled, "lock"));
}

void SessionLocks::test(OpenFilePtr file, const wire::TestLock& request, base::OneShot<wire::TestLock::Reply> done) {
  SANDBAR_ON_LOOP(loop_);
  const Key key{file->object.get(), request.owner, wire::LockKind::posix};
  if (request.type == wire::LockType::unlock || request.start > LLONG_MAX || request.length > LLONG_MAX) {
    loop_.post([done = std::move(done)]() mutable { done(os_error(EINVAL, "test a lock")); });
    return;
  }
  struct Test {
    OpenFilePtr file;
    wire::TestLock request;
    base::OneShot<wire::TestLock::Reply> done;
    std::shared_ptr<OwnerLocks> owner;
    wire::TestLock::Reply reply;
    Tried tried;
  };
  auto test = std::make_shared<Test>();
  test->owner = owner_of(key, file->object);
  test->file = std::move(file);
  test->request = request;
  test->done = std::move(done);
  pool_.submit([weak = weak_from_this(), &loop = loop_, test = std::move(test), key]() mutable {
    test->tried = test->owner->test(*test->file, test->request, test->reply);
    test->owner.reset();
    loop.post([weak, test = std::move(test), key] {
      if (const auto self = weak.lock()) self->leave(key);
      if (test->tried.error != 0)
        test->done(os_error(test->tried.error, "test a lock"));
      else
        test->done(test->reply);
    });
  });
}

}  // namespace sandbar::agent
