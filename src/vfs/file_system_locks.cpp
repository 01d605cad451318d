// SPDX-License-Identifier: Apache-2.0
// File locks. They live in the agent; here is only who may hold some.
#include <cerrno>

#include "base/thread_check.h"
#include "vfs/remote_file_system.h"

namespace sandbar::vfs {

OperationId RemoteFileSystem::test_lock(FileId id, LockRequest lock, Done<LockHolder> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "test a lock");
  const wire::TestLock request{file->handle, wire::LockOwner(lock.owner), lock.type, lock.start, lock.length};
  return ask_once(std::move(done), {.nodes = {}, .files = {id}}, context(*file), request, {},
                  [this, node = file->node, owner = lock.owner](auto&& answer) -> Result<LockHolder> {
                    LockHolder holder = answer.reply;
                    // A process number of the sandbox would be taken for one of this machine: it is 0 instead.
                    holder.pid = locks_.process_of(node, owner, holder);
                    return holder;
                  });
}

OperationId RemoteFileSystem::set_lock(FileId id, LockRequest lock, Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "lock");
  const LockTable::Key key{file->node, lock.owner, lock.kind};
  const LockSpan span = LockSpan::of(lock.start, lock.length);
  if (lock.type == LockType::unlock) return unlock(*file, key, span, std::move(done));
  const wire::Lock request{file->handle, wire::LockOwner(lock.owner), lock.kind, lock.type, lock.wait, lock.start,
                           lock.length};
  const LockTable::RequestId asked = locks_.begin(key, id, {lock.type, span, lock.pid});
  auto operation = begin(std::move(done), {.nodes = {}, .files = {id}});
  operation->lock_wait = lock.wait;
  ask(operation, context(*file), request, {}, [this, operation, key, id, asked](AnswerTo<wire::Lock> answer) {
    if (answer) {
      locks_.granted(asked);
    } else if (answer.error().code == Errc::os) {
      locks_.refused(asked);
    } else {
      const auto before = locks_.abandoned(asked);
      if (answer.error().code != Errc::disconnected) give_back(files_.pinned(id), key, before);
    }
    if (!answer) return finish<void>(*operation, std::move(answer).error());
    finish<void>(*operation, {});
  });
  return operation->id;
}

/// A lock may have been granted while we gave up. The agent does one owner's requests in their order, so these come
/// behind that lock, and before whatever the owner asks for next. (A write lock that would have become a read lock is
/// the one case in which another can be faster, and this fails.)
void RemoteFileSystem::give_back(const OpenFile& file, const LockTable::Key& key,
                                 const std::vector<LockTable::Ranges::Part>& before) {
  if (before.empty()) return locks_.settled(key);
  for (const LockTable::Ranges::Part& part : before) {
    const bool last = &part == &before.back();
    send_lock(
        file, key, part.value.value_or(LockType::unlock), {part.start, part.end}, [](const Result<void>&) {},
        [this, key, last](bool answered) {
          if (answered && last) locks_.settled(key);
        });
  }
}

OperationId RemoteFileSystem::unlock(const OpenFile& file, const LockTable::Key& key, LockSpan span, Done<void> done) {
  const std::uint64_t sent = locks_.unlocking(key, span);
  return send_lock(file, key, LockType::unlock, span, std::move(done), [this, key, span, sent](bool answered) {
    if (answered) locks_.unlocked(key, span, sent);
  });
}

template <class Then>
OperationId RemoteFileSystem::send_lock(const OpenFile& file, const LockTable::Key& key, LockType type, LockSpan span,
                                        Done<void> done, Then then) {
  // Pins the file, so that its Close is sent behind the answer.
  auto operation = begin(std::move(done), {.nodes = {}, .files = {file.id}});
  operation->runs_on = true;
  const wire::Lock request{.handle = file.handle,
                           .owner = wire::LockOwner(key.owner),
                           .kind = key.kind,
                           .type = type,
                           .wait = false,
                           .start = span.start,
                           .length = span.length()};
  ask(operation, context(file), request, {}, [operation, this, then](AnswerTo<wire::Lock> answer) {
    then(answer.ok() || answer.error().code == Errc::os);
    if (!answer) return finish<void>(*operation, std::move(answer).error());
    finish<void>(*operation, {});
  });
  return operation->id;
}

OperationId RemoteFileSystem::flush(FileId id, std::uint64_t lock_owner, Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "close");
  // fcntl(2): closing any descriptor of a file gives back all that the process holds on it.
  const LockTable::Key key{file->node, lock_owner, LockKind::posix};
  if (!locks_.holds(key)) return answer<void>(std::move(done), {});
  return unlock(*file, key, {}, std::move(done));
}

}  // namespace sandbar::vfs
