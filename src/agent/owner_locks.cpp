// SPDX-License-Identifier: Apache-2.0
#include "agent/owner_locks.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

namespace sandbar::agent {
namespace {

struct ::flock make_flock(wire::LockType type, std::uint64_t start, std::uint64_t length) {
  struct ::flock lock {};
  lock.l_type = type == wire::LockType::read ? F_RDLCK : type == wire::LockType::write ? F_WRLCK : F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(start);
  lock.l_len = static_cast<off_t>(length);
  return lock;
}

int set_range(int fd, wire::LockType type, base::LockSpan span) {
  struct ::flock lock = make_flock(type, span.start, span.length());
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

int set_flock(int fd, wire::LockType type) {
  const int operation = type == wire::LockType::read ? LOCK_SH : type == wire::LockType::write ? LOCK_EX : LOCK_UN;
  return ::flock(fd, operation | LOCK_NB) == 0 ? 0 : errno;
}

/// For writing where the client's file is open for writing: never else, as a script that locks itself could not be
/// executed then (ETXTBSY). flock(2) needs no particular access.
int open_descriptor(const OpenFile& file, bool for_writing, base::UniqueFd& into, std::uint32_t& access) {
  const ProcPath path(file.fd->get());
  for (const std::uint32_t mode :
       for_writing ? std::vector<std::uint32_t>{O_RDWR, O_WRONLY} : std::vector<std::uint32_t>{O_RDONLY}) {
    into.reset(::open(path.c_str(), static_cast<int>(mode) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    access = mode;
    if (into) return 0;
  }
  return ENOLCK;
}

}  // namespace

base::LockSpan span_of(const wire::Lock& request) {
  return request.kind == wire::LockKind::flock ? base::LockSpan() : base::LockSpan::of(request.start, request.length);
}

int OwnerLocks::set(wire::LockType type, base::LockSpan span) const { return set_range(fd_.get(), type, span); }

/// The read locks of a descriptor that can only read move to one that can write: taken there first (read locks do not
/// exclude each other), so that nothing comes in between.
int OwnerLocks::become_writable(const OpenFile& file) {
  base::UniqueFd writable;
  std::uint32_t access = 0;
  if (const int error = open_descriptor(file, true, writable, access); error != 0) return error;
  for (const LockRanges::Range& range : held.all())
    if (set_range(writable.get(), wire::LockType::read, {range.start, range.end}) != 0) return ENOLCK;
  fd_ = std::move(writable);
  access_ = access;
  return 0;
}

/// Cutting a hole into a range makes one more of it.
bool OwnerLocks::has_room_for(const wire::Lock& request) const {
  if (held.size() < kMaxRanges) return true;
  if (request.type != wire::LockType::unlock) return false;
  const base::LockSpan span = span_of(request);
  const auto cut = held.find(span.start, span.end, [](wire::LockType) { return true; });
  return !cut || cut->start >= span.start || cut->end <= span.end;
}

int OwnerLocks::prepare(Root& root, const OpenFile& file, const wire::Lock& request) {
  const bool writes = request.kind == wire::LockKind::posix && request.type == wire::LockType::write;
  const bool reads = request.kind == wire::LockKind::posix && request.type == wire::LockType::read;
  if ((writes && !file.writable()) || (reads && !file.readable())) return EBADF;
  if (fd_) return writes && access_ == O_RDONLY ? become_writable(file) : 0;
  Result<Root::OpenFileToken> taken = root.take_open_file();
  if (!taken) return ENOLCK;
  token_ = std::move(taken).value();
  return open_descriptor(file, file.writable(), fd_, access_);
}

int OwnerLocks::attempt(Root& root, const OpenFile& file, const wire::Lock& request) {
  std::lock_guard lock(mutex_);
  if (!has_room_for(request)) return ENOLCK;
  if (request.type == wire::LockType::unlock && !fd_) return 0;
  if (request.type != wire::LockType::unlock)
    if (const int error = prepare(root, file, request); error != 0) return error;
  if (request.kind == wire::LockKind::flock) return set_flock(fd_.get(), request.type);
  const int error = set(request.type, span_of(request));
  return error == EACCES ? EAGAIN : error;  // fcntl(2) allows both
}

std::vector<LockRanges::Part> OwnerLocks::restore(const wire::Lock& granted,
                                                  const std::vector<LockRanges::Part>& before) {
  std::lock_guard lock(mutex_);
  std::vector<LockRanges::Part> lost;
  // An flock(2) that waits has given up what it held already.
  if (granted.kind == wire::LockKind::flock) {
    set_flock(fd_.get(), wire::LockType::unlock);
    return lost;
  }
  for (const LockRanges::Part& part : before) {
    if (part.value == granted.type) continue;
    if (set(part.value.value_or(wire::LockType::unlock), {part.start, part.end}) != 0)
      lost.push_back({part.start, part.end, granted.type});
  }
  return lost;
}

int OwnerLocks::test(const OpenFile& file, const wire::TestLock& request, wire::TestLock::Reply& reply) {
  std::lock_guard lock(mutex_);
  struct ::flock found = make_flock(request.type, request.start, request.length);
  // With the owner's descriptor its own locks are not in its way; an owner without one has none.
  if (::fcntl(fd_ ? fd_.get() : file.fd->get(), F_OFD_GETLK, &found) != 0) return errno;
  if (found.l_type == F_UNLCK) return 0;
  reply.type = found.l_type == F_RDLCK ? wire::LockType::read : wire::LockType::write;
  reply.start = static_cast<std::uint64_t>(found.l_start);
  reply.length = static_cast<std::uint64_t>(found.l_len);
  // -1 for OFD locks: of a client, as a rule.
  reply.pid = found.l_pid > 0 ? static_cast<std::uint32_t>(found.l_pid) : 0;
  return 0;
}

}  // namespace sandbar::agent
