// SPDX-License-Identifier: Apache-2.0
// Operations on open files.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/thread_check.h"
#include "vfs/remote_file_system.h"

namespace sandbar::vfs {
namespace {

/// What means something to the agent. The rest is the kernel's own business here (O_CLOEXEC, O_NONBLOCK, O_NOFOLLOW) or
/// is undone by then (O_CREAT).
constexpr std::uint32_t kOpenFlags =
    O_ACCMODE | O_TRUNC | O_APPEND | O_SYNC | O_DSYNC | O_NOATIME | wire::kOpenToExecute;
/// One copy_file_range, bytes: a second or so of a slow disk, far from options.timeout. The caller goes on by itself.
constexpr std::uint64_t kMaxCopy = 64 * 1024 * 1024;

constexpr auto kNothing = [](auto&&) { return Result<void>{}; };

FileSystem::Done<void> ignore() {
  return [](const Result<void>&) {};
}

/// Whether it may be one of /proc's or a cgroup's files, which seem to be empty and have something to read.
bool is_made_up(const Attributes& attributes) {
  return S_ISREG(attributes.mode) && attributes.size == 0 && attributes.blocks == 0 && attributes.birth == wire::Time{};
}

bool changes_file(std::uint32_t flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0; }

}  // namespace

struct RemoteFileSystem::ReadProgress {
  FileId file;
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  base::Bytes data;
};

struct RemoteFileSystem::WriteProgress {
  FileId file;
  std::uint64_t offset = 0;
  base::Bytes data;
  bool append = false;
  std::uint64_t written = 0;
};

OperationId RemoteFileSystem::open_file(const Caller& caller, NodeId node, std::uint32_t flags, Done<Opened> done) {
  if (options_.read_only && changes_file(flags)) return refuse(std::move(done), EROFS, "open");
  return open_node(caller, node, flags & (kOpenFlags | O_DIRECT), std::move(done));
}

OperationId RemoteFileSystem::open_directory(const Caller& caller, NodeId node, Done<Opened> done) {
  return open_node(caller, node, O_RDONLY | O_DIRECTORY, std::move(done));
}

OperationId RemoteFileSystem::open_node(const Caller& caller, NodeId id, std::uint32_t flags, Done<Opened> done) {
  SANDBAR_ON_LOOP(loop_);
  const Node* node = inodes_.find(id);
  if (node == nullptr) return refuse(std::move(done), ESTALE, "open");
  auto operation = begin(std::move(done), {.nodes = {id}, .files = {}});
  operation->runs_on = true;
  wire::RequestContext context = this->context(caller);
  const wire::Caller opener = *context.caller;
  const wire::Open request{node->object, files_.next_handle(), flags & ~static_cast<std::uint32_t>(O_DIRECT)};
  ask(operation, std::move(context), request, {},
      [this, operation, opener, id, flags, handle = request.handle](AnswerTo<wire::Open> answer) {
        if (!answer) {
          abandon(answer.error(), {}, handle);
          return finish<Opened>(*operation, std::move(answer).error());
        }
        if (operation->finished) return close_handle(handle);
        if (auto stat = heard(id, answer->reply.attributes); !stat) {
          close_handle(handle);
          return finish<Opened>(*operation, std::move(stat).error());
        }
        finish<Opened>(*operation, opened(add_file(id, handle, opener, flags)));
      });
  return operation->id;
}

OpenFile& RemoteFileSystem::add_file(NodeId node, wire::HandleId handle, const wire::Caller& opener,
                                     std::uint32_t flags) {
  inodes_.pin(*inodes_.find(node));
  OpenFile& file = files_.add(node, handle, opener, flags);
  file.directory = (flags & O_DIRECTORY) != 0;
  return file;
}

Opened RemoteFileSystem::opened(const OpenFile& file) {
  // The kernel would keep what it appends at the offset where it believes the end to be. Who only writes cannot map the
  // file and so loses nothing by going past its cache.
  const bool appends_only = (file.flags & O_ACCMODE) == O_WRONLY && (file.flags & O_APPEND) != 0;
  // Through its cache the kernel reads no further than the size. An empty file of a file system without birth times is
  // opened so too; to read only, since a shared mapping of it is refused then.
  const bool made_up = (file.flags & O_ACCMODE) == O_RDONLY && is_made_up(inodes_.find(file.node)->attributes);
  const bool direct = appends_only || made_up || (file.flags & O_DIRECT) != 0;
  return {.file = file.id, .keep_cache = false, .direct = direct};
}

OperationId RemoteFileSystem::create(const Caller& caller, NodeId parent, base::Bytes name, std::uint32_t mode,
                                     std::uint32_t flags, Done<Created> done) {
  int error = 0;
  const Node* directory = check_parent(parent, name, true, error);
  if (directory == nullptr) return refuse(std::move(done), error, "create");
  auto operation = begin(std::move(done), {.nodes = {parent}, .files = {}});
  operation->runs_on = true;
  wire::RequestContext context = this->context(caller);
  const wire::Caller opener = *context.caller;
  wire::Create request{directory->object, std::move(name),     mode & 07777, flags & (kOpenFlags | O_EXCL),
                       objects_.next(),   files_.next_handle()};
  flags &= kOpenFlags | O_DIRECT;
  const wire::ObjectId object = request.object;
  const wire::HandleId handle = request.handle;
  ask(operation, std::move(context), std::move(request), {},
      [this, operation, parent, opener, flags, object, handle](AnswerTo<wire::Create> answer) {
        if (!answer) {
          abandon(answer.error(), object, handle);
          return finish<Created>(*operation, std::move(answer).error());
        }
        if (operation->finished) {
          close_handle(handle);
          return objects_.release(object);
        }
        Node& node = inodes_.adopt(answer->reply.attributes, object, parent, {});
        inodes_.add_lookup(node);
        finish<Created>(*operation, Created{entry(node), opened(add_file(node.id, handle, opener, flags))});
      });
  return operation->id;
}

OperationId RemoteFileSystem::read(FileId id, std::uint64_t offset, std::uint32_t size, Done<base::Bytes> done) {
  SANDBAR_ON_LOOP(loop_);
  if (files_.find(id) == nullptr) return refuse(std::move(done), EBADF, "read");
  if (size == 0) return answer<base::Bytes>(std::move(done), base::Bytes());
  auto operation = begin(std::move(done), {.nodes = {}, .files = {id}});
  read_more(operation, {id, offset, size, {}});
  return operation->id;
}

void RemoteFileSystem::read_more(const OperationPtr<base::Bytes>& operation, ReadProgress progress) {
  const OpenFile& file = files_.pinned(progress.file);
  const auto had = static_cast<std::uint32_t>(progress.data.size());
  const std::uint32_t part = std::min(body_limit(), progress.size - had);
  const wire::Read request{file.handle, progress.offset + had, part};
  ask(operation, context(file), request, {},
      [this, operation, progress = std::move(progress), part](AnswerTo<wire::Read> answer) mutable {
        if (operation->finished) return;
        // The kernel takes a short read for the end of the file, so what came before a failure is not enough.
        if (!answer) return finish<base::Bytes>(*operation, std::move(answer).error());
        if (answer->body.size() > part)
          return finish<base::Bytes>(*operation, make_error(Errc::protocol, "read", "more bytes than were asked for"));
        const bool at_end = answer->body.size() < part;
        progress.data = progress.data.empty() ? std::move(answer->body) : std::move(progress.data) + answer->body;
        if (at_end || progress.data.size() == progress.size)
          return finish<base::Bytes>(*operation, std::move(progress.data));
        read_more(operation, std::move(progress));
      });
}

OperationId RemoteFileSystem::write(FileId id, std::uint64_t offset, base::Bytes data, bool append,
                                    Done<std::uint64_t> done) {
  SANDBAR_ON_LOOP(loop_);
  if (options_.read_only) return refuse(std::move(done), EROFS, "write");
  if (files_.find(id) == nullptr) return refuse(std::move(done), EBADF, "write");
  if (data.empty()) return answer<std::uint64_t>(std::move(done), std::uint64_t{0});
  auto operation = begin(std::move(done), {.nodes = {}, .files = {id}});
  write_more(operation, {id, offset, std::move(data), append, 0});
  return operation->id;
}

void RemoteFileSystem::write_more(const OperationPtr<std::uint64_t>& operation, WriteProgress progress) {
  const OpenFile& file = files_.pinned(progress.file);
  const std::uint64_t part = std::min<std::uint64_t>(body_limit(), progress.data.size() - progress.written);
  const bool whole = part == progress.data.size();
  base::Bytes body = whole ? std::move(progress.data) : progress.data.substr(progress.written, part);
  const wire::Write request{file.handle, progress.append ? 0 : progress.offset + progress.written, progress.append};
  ask(operation, context(file), request, std::move(body),
      [this, operation, progress = std::move(progress), part, whole](AnswerTo<wire::Write> answer) mutable {
        if (operation->finished) return;
        if (!answer && progress.written == 0) return finish<std::uint64_t>(*operation, std::move(answer).error());
        if (!answer) return finish<std::uint64_t>(*operation, progress.written);
        const std::uint64_t count = answer->reply.count;
        if (count > part)
          return finish<std::uint64_t>(*operation, make_error(Errc::protocol, "write", "more bytes than were sent"));
        progress.written += count;
        if (whole || count < part || progress.written == progress.data.size())
          return finish<std::uint64_t>(*operation, progress.written);
        write_more(operation, std::move(progress));
      });
}

void RemoteFileSystem::release(FileId id, std::optional<std::uint64_t> flock_owner) {
  SANDBAR_ON_LOOP(loop_);
  OpenFile* file = files_.find(id);
  if (file == nullptr) return;
  file->released = true;
  ++file->pins;  // over the loop, whose last round would close it
  for (const LockTable::Key& key : locks_.through(id))
    if (key.kind == LockKind::posix || key.owner == flock_owner) unlock(*file, key, {}, ignore());
  --file->pins;
  close_if_idle(*file);
}

void RemoteFileSystem::close_if_idle(OpenFile& file) {
  if (!file.released || file.pins != 0) return;
  drop_page(file);
  close_handle(file.handle);
  locks_.forget(file.id);
  const NodeId node = file.node;
  files_.erase(file.id);
  inodes_.unpin(node);
}

void RemoteFileSystem::close_handle(wire::HandleId handle) {
  remote_.call<wire::Close>({}, {handle}, {}, {options_.timeout},
                            [](const Result<client::Answer<wire::EmptyReply>>&) {});
}

OperationId RemoteFileSystem::fsync(FileId id, bool data_only, Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "fsync");
  return ask_once(std::move(done), {.nodes = {}, .files = {id}}, context(*file), wire::Fsync{file->handle, data_only},
                  {}, kNothing);
}

OperationId RemoteFileSystem::allocate(FileId id, std::uint32_t mode, std::uint64_t offset, std::uint64_t length,
                                       Done<void> done) {
  SANDBAR_ON_LOOP(loop_);
  if (options_.read_only) return refuse(std::move(done), EROFS, "fallocate");
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "fallocate");
  return ask_once(std::move(done), {.nodes = {}, .files = {id}}, context(*file),
                  wire::Allocate{file->handle, mode, offset, length}, {}, kNothing);
}

OperationId RemoteFileSystem::seek(FileId id, std::uint64_t offset, std::uint32_t whence, Done<std::uint64_t> done) {
  SANDBAR_ON_LOOP(loop_);
  const OpenFile* file = files_.find(id);
  if (file == nullptr) return refuse(std::move(done), EBADF, "lseek");
  // The kernel answers the others itself.
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return refuse(std::move(done), EINVAL, "lseek");
  return ask_once(std::move(done), {.nodes = {}, .files = {id}}, context(*file),
                  wire::Seek{file->handle, offset, whence}, {},
                  [](auto&& answer) -> Result<std::uint64_t> { return answer.reply.offset; });
}

OperationId RemoteFileSystem::copy_range(FileId from_id, std::uint64_t from_offset, FileId to_id,
                                         std::uint64_t to_offset, std::uint64_t length, Done<std::uint64_t> done) {
  SANDBAR_ON_LOOP(loop_);
  if (options_.read_only) return refuse(std::move(done), EROFS, "copy_file_range");
  const OpenFile* from = files_.find(from_id);
  const OpenFile* to = files_.find(to_id);
  if (from == nullptr || to == nullptr) return refuse(std::move(done), EBADF, "copy_file_range");
  const std::uint64_t most = std::min(length, kMaxCopy);
  const wire::CopyRange request{from->handle, from_offset, to->handle, to_offset, most};
  return ask_once(std::move(done), {.nodes = {}, .files = {from_id, to_id}}, context(*to), request, {},
                  [most](auto&& answer) -> Result<std::uint64_t> {
                    if (answer.reply.count > most)
                      return make_error(Errc::protocol, "copy_file_range", "more bytes than were asked for");
                    return answer.reply.count;
                  });
}

}  // namespace sandbar::vfs
