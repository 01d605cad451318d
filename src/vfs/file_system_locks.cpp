// SPDX-License-Identifier: Apache-2.0
// File locks. They live in the agent; here is only who may hold some.
#include <cerrno>

#include "base/thread_check.h"
#include "vfs/remote_file_system.h"

namespace sandbar::vfs {
namespace {

/// A lock of length 0 goes to the end of the file, however it grows.
bool is_whole(std::uint64_t start, std::uint64_t length) { return start == 0 && length == 0; }

}  // namespace

OperationId RemoteFileSystem::test_lock(FileId id, LockRequest lock, Done<LockHolder> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "test a lock");
  const wire::TestLock request{file->handle, wire::LockOwner(lock.owner), lock.type, lock.start, lock.length};
  return ask_once(std::move(done), {.nodes = {}, .files = {id}}, context(*file), request, {},
                  [](auto&& answer) -> Result<LockHolder> { return answer.reply; });
}

OperationId RemoteFileSystem::set_lock(FileId id, LockRequest lock, Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "lock");
  const LockTable::Key key{file->node, lock.owner, lock.kind};
  if (lock.type == LockType::unlock) return unlock(*file, key, lock.start, lock.length, std::move(done));
  const wire::Lock request{file->handle, wire::LockOwner(lock.owner), lock.kind, lock.type, lock.wait, lock.start,
                           lock.length};
  const bool first = locks_.begin(key, id);
  auto operation = begin(std::move(done), {.nodes = {}, .files = {id}});
  operation->lock_wait = lock.wait;
  ask(operation, context(*file), request, {}, [this, operation, key, id, lock, first](AnswerTo<wire::Lock> answer) {
    const bool refused = !answer && answer.error().code == Errc::os;
    // It may have been granted while we gave up. Of an owner that had nothing here it is taken back; one that
    // had a lock keeps it, because unlocking could take what it held before.
    if (!answer && answer.error().code == Errc::cancelled && first)
      unlock(files_.pinned(id), key, lock.start, lock.length, [](const Result<void>&) {});
    locks_.end(key, id, !refused);
    if (!answer) return finish<void>(*operation, std::move(answer).error());
    finish<void>(*operation, {});
  });
  return operation->id;
}

OperationId RemoteFileSystem::unlock(const OpenFile& file, const LockTable::Key& key, std::uint64_t start,
                                     std::uint64_t length, Done<void> done) {
  // Pins the file, so that its Close is sent behind the answer.
  auto operation = begin(std::move(done), {.nodes = {}, .files = {file.id}});
  operation->runs_on = true;
  const wire::Lock request{.handle = file.handle,
                           .owner = wire::LockOwner(key.owner),
                           .kind = key.kind,
                           .type = LockType::unlock,
                           .wait = false,
                           .start = start,
                           .length = length};
  const bool whole = is_whole(start, length);
  ask(operation, context(file), request, {},
      [this, operation, key, whole, sent = locks_.now()](AnswerTo<wire::Lock> answer) {
        if (answer && whole) locks_.clear(key, sent);
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
  return unlock(*file, key, 0, 0, std::move(done));
}

}  // namespace sandbar::vfs
