// SPDX-License-Identifier: Apache-2.0
// The requests on open files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/file_ops.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

/// Without O_EXCL the entry can come and go between our looks at it; so often before we give up.
constexpr int kCreateTries = 64;
/// One CopyRange request copies at most so much, so that a worker is free again in moments. copy_file_range(2) may copy
/// less than it was asked for, so callers go on with the rest.
constexpr std::uint64_t kMaxCopy = 128ULL << 20;
constexpr std::size_t kCopyBuffer = 256 * 1024;

FileResult opened_outcome(OpenFilePtr file, bool bind) {
  Result<wire::Attributes> attributes = full_attributes(file->fd->get());
  if (!attributes) return std::move(attributes).error();
  FileOutcome outcome;
  outcome.reply = wire::AttributesReply{*attributes};
  if (bind) outcome.objects.push_back(file->object);
  outcome.opened = std::move(file);
  return outcome;
}

/// The file that was made and opened, or the error; EEXIST where something was there already.
Result<OpenFilePtr> create_new(const FileJob& job, int directory, const wire::Create& request) {
  Result<int> usable = io_flags(request.flags);
  if (!usable) return std::move(usable).error();
  Result<Root::OpenFileToken> token = job.root.take_open_file();
  if (!token) return std::move(token).error();
  const WithUmask umask(caller_umask(job));
  auto fd = std::make_shared<const base::UniqueFd>(::openat(
      directory, request.name.c_str(), *usable | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
      umask.apply(request.mode & 07777)));
  if (!*fd) return os_error(errno, "create");
  Result<Stat> stat = stat_descriptor(fd->get());
  if (!stat) return std::move(stat).error();
  auto file = std::make_shared<OpenFile>();
  file->object = job.root.objects().bind(*stat, nullptr, job.targets.object, request.name);
  file->token = std::move(token).value();
  file->set_mode(request.flags);
  file->fd = std::move(fd);
  job.root.objects().opened(file->object, file->fd);
  return file;
}

/// Opens what is there. A symlink is ELOOP: the client's kernel resolves links.
Result<OpenFilePtr> open_existing(const FileJob& job, int directory, const wire::Create& request) {
  auto path = std::make_shared<const base::UniqueFd>(
      ::openat(directory, request.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!*path) return os_error(errno, "open");
  Result<Stat> stat = stat_descriptor(path->get());
  if (!stat) return std::move(stat).error();
  if (S_ISDIR(stat->attributes.mode)) return os_error(EISDIR, "open");
  const ObjectPtr object = job.root.objects().bind(*stat, path, job.targets.object, request.name);
  return open_for_io(job, object, path->get(), request.flags);
}

/// The count so far, or the error of the first call.
FileResult counted(std::uint64_t count, int error, std::uint64_t offset, const char* operation) {
  if (count == 0 && error != 0) return os_error(error, operation);
  FileOutcome outcome;
  outcome.reply = wire::Write::Reply{count, offset};
  return outcome;
}

/// The position after an append tells where it landed: the kernel moves it to the end of what it wrote, under the
/// inode's lock. One call only, since the pieces of several could be apart. RWF_APPEND: the file may have been opened
/// without O_APPEND, which its program can set later.
FileResult append(OpenFile& file, const base::Bytes& data) {
  std::lock_guard lock(file.position_mutex);
  const iovec part{const_cast<char*>(data.data()), data.size()};  // NOLINT: iovec knows no const
  const ssize_t written = ::pwritev2(file.fd->get(), &part, 1, -1, RWF_APPEND);
  if (written < 0) return os_error(errno, "append");
  const off_t end = ::lseek(file.fd->get(), 0, SEEK_CUR);
  if (end < written) return os_error(EIO, "append");
  return counted(static_cast<std::uint64_t>(written), 0, static_cast<std::uint64_t>(end - written), "append");
}

bool no_copy_in_kernel(int error) {
  return error == EXDEV || error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == ETXTBSY;
}

/// What copy_file_range(2) refuses for good, and not for want of support.
bool overlaps(const FileJob& job, const wire::CopyRange& request, std::uint64_t length) {
  if (job.targets.file->object->identity() != job.targets.second_file->object->identity()) return false;
  return request.from_offset < request.to_offset + length && request.to_offset < request.from_offset + length;
}

Result<std::uint64_t> copy_by_hand(int from, off_t from_at, int to, off_t to_at, std::uint64_t length) {
  base::Bytes buffer(kCopyBuffer, '\0');
  std::uint64_t done = 0;
  while (done < length) {
    const std::size_t want = std::min<std::uint64_t>(buffer.size(), length - done);
    const ssize_t got = ::pread(from, buffer.data(), want, from_at + static_cast<off_t>(done));
    if (got < 0 && done == 0) return os_error(errno, "copy");
    if (got <= 0) break;
    const ssize_t put = ::pwrite(to, buffer.data(), static_cast<std::size_t>(got), to_at + static_cast<off_t>(done));
    if (put < 0 && done == 0) return os_error(errno, "copy");
    if (put <= 0) break;
    done += static_cast<std::uint64_t>(put);
  }
  return done;
}

Result<std::uint64_t> copy(const FileJob& job, const wire::CopyRange& request, std::uint64_t length) {
  const int from = job.targets.file->fd->get();
  const int to = job.targets.second_file->fd->get();
  auto from_at = static_cast<off64_t>(request.from_offset);
  auto to_at = static_cast<off64_t>(request.to_offset);
  std::uint64_t done = 0;
  while (done < length) {
    const ssize_t copied = ::copy_file_range(from, &from_at, to, &to_at, length - done, 0);
    if (copied < 0 && done == 0) {
      if (!no_copy_in_kernel(errno) || overlaps(job, request, length)) return os_error(errno, "copy");
      return copy_by_hand(from, from_at, to, to_at, length);
    }
    // Nothing at the start: the end of the file, or one of /proc whose size is 0 and which only read(2) knows.
    if (copied == 0 && done == 0) return copy_by_hand(from, from_at, to, to_at, length);
    if (copied <= 0) break;
    done += static_cast<std::uint64_t>(copied);
  }
  return done;
}

}  // namespace

FileResult perform(const FileJob& job, const wire::Open& request) {
  if ((request.flags & (O_CREAT | O_EXCL)) != 0) return os_error(EINVAL, "open", "creating is another request");
  Result<FdRef> path = job.root.objects().descriptor(job.targets.object);
  if (!path) return std::move(path).error();
  Result<OpenFilePtr> file = open_for_io(job, job.targets.object, (*path)->get(), request.flags);
  if (!file) return std::move(file).error();
  return opened_outcome(std::move(file).value(), false);
}

FileResult perform(const FileJob& job, const wire::Create& request) {
  if (Result<void> checked = check_name(request.name); !checked) return std::move(checked).error();
  if ((request.flags & O_DIRECTORY) != 0) return os_error(EINVAL, "create");
  if (!S_ISDIR(job.targets.object->type())) return os_error(ENOTDIR, "create");
  Result<FdRef> directory = job.root.objects().descriptor(job.targets.object);
  if (!directory) return std::move(directory).error();
  for (int i = 0; i < kCreateTries; ++i) {
    Result<OpenFilePtr> file = create_new(job, (*directory)->get(), request);
    const bool existed = !file && file.error().os_errno == EEXIST && (request.flags & O_EXCL) == 0;
    if (existed) file = open_existing(job, (*directory)->get(), request);
    const bool vanished = existed && !file && file.error().os_errno == ENOENT;
    if (vanished) continue;
    if (!file) return std::move(file).error();
    return opened_outcome(std::move(file).value(), true);
  }
  return os_error(EBUSY, "create", "the name comes and goes");
}

FileResult perform(const FileJob& job, const wire::Close&) {
  OpenFile& file = *job.targets.file;
  if (!file.writable()) return FileOutcome{};
  // What a file system has to say at the end (NFS, quotas) comes from close(2) of any descriptor of the open file; the
  // last one is closed with the last reference.
  const int copy = ::fcntl(file.fd->get(), F_DUPFD_CLOEXEC, 0);
  if (copy >= 0 && ::close(copy) != 0 && errno != EINTR) return os_error(errno, "close");
  return FileOutcome{};
}

FileResult perform(const FileJob& job, const wire::Read& request) {
  if (request.size > wire::kMaxBody) return os_error(EINVAL, "read");
  if (Result<void> checked = check_range(request.offset, request.size, "read"); !checked)
    return std::move(checked).error();
  FileOutcome outcome;
  outcome.body.resize(request.size);
  std::size_t have = 0;
  while (have < request.size) {
    const ssize_t got = ::pread(job.targets.file->fd->get(), outcome.body.data() + have, request.size - have,
                                static_cast<off_t>(request.offset + have));
    if (got < 0 && have == 0) return os_error(errno, "read");
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  outcome.body.resize(have);
  return outcome;
}

FileResult perform(const FileJob& job, const wire::Write& request) {
  OpenFile& file = *job.targets.file;
  if (request.append) return append(file, job.body);
  if (const int failed = file.stop_appending(); failed != 0) return os_error(failed, "write");
  if (Result<void> checked = check_range(request.offset, job.body.size(), "write"); !checked)
    return os_error(EFBIG, "write");
  std::size_t done = 0;
  int error = 0;
  do {
    const ssize_t put = ::pwrite(file.fd->get(), job.body.data() + done, job.body.size() - done,
                                 static_cast<off_t>(request.offset + done));
    if (put < 0) error = errno;
    if (put <= 0) break;
    done += static_cast<std::size_t>(put);
  } while (done < job.body.size());
  return counted(done, error, request.offset, "write");
}

FileResult perform(const FileJob& job, const wire::Fsync& request) {
  const int fd = job.targets.file->fd->get();
  if ((request.data_only ? ::fdatasync(fd) : ::fsync(fd)) != 0) return os_error(errno, "sync");
  return FileOutcome{};
}

FileResult perform(const FileJob& job, const wire::Allocate& request) {
  if (Result<void> checked = check_range(request.offset, request.length, "allocate"); !checked)
    return os_error(EFBIG, "allocate");
  if (::fallocate(job.targets.file->fd->get(), static_cast<int>(request.mode), static_cast<off_t>(request.offset),
                  static_cast<off_t>(request.length)) != 0)
    return os_error(errno, "allocate");
  return FileOutcome{};
}

FileResult perform(const FileJob& job, const wire::Seek& request) {
  if (request.whence != SEEK_DATA && request.whence != SEEK_HOLE) return os_error(EINVAL, "seek");
  if (Result<void> checked = check_range(request.offset, 0, "seek"); !checked) return os_error(ENXIO, "seek");
  OpenFile& file = *job.targets.file;
  std::lock_guard lock(file.position_mutex);
  const off_t found = ::lseek(file.fd->get(), static_cast<off_t>(request.offset), static_cast<int>(request.whence));
  if (found < 0) return os_error(errno, "seek");
  file.list_position = OpenFile::kUnknownPosition;
  FileOutcome outcome;
  outcome.reply = wire::Seek::Reply{static_cast<std::uint64_t>(found)};
  return outcome;
}

FileResult perform(const FileJob& job, const wire::CopyRange& request) {
  const std::uint64_t length = std::min(request.length, kMaxCopy);
  Result<void> checked = check_range(request.from_offset, length, "copy");
  if (checked) checked = check_range(request.to_offset, length, "copy");
  if (!checked) return std::move(checked).error();
  if (!job.targets.file->readable() || !job.targets.second_file->writable()) return os_error(EBADF, "copy");
  if (const int failed = job.targets.second_file->stop_appending(); failed != 0) return os_error(failed, "copy");
  Result<std::uint64_t> copied = copy(job, request, length);
  if (!copied) return std::move(copied).error();
  FileOutcome outcome;
  outcome.reply = wire::CountReply{*copied};
  return outcome;
}

}  // namespace sandbar::agent
