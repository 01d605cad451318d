// SPDX-License-Identifier: Apache-2.0
// The requests on what a file system keeps beside names and data: attributes, extended attributes, its own figures.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "agent/file_ops.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};  ///< to chown(2): leave it

/// The open file if the request names one (it may be unlinked), else the object.
Result<FdRef> file_or_object(const FileJob& job) {
  if (job.targets.file) return job.targets.file->fd;
  return job.root.objects().descriptor(job.targets.object);
}

Result<void> change_owner(int fd, const wire::SetAttributes& request) {
  if (!request.uid && !request.gid) return {};
  if (request.uid == kNobody || request.gid == kNobody) return os_error(EINVAL, "change the owner");
  if (::fchownat(fd, "", request.uid.value_or(kNobody), request.gid.value_or(kNobody),
                 AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
    return os_error(errno, "change the owner");
  return {};
}

/// Whether a caller who may not change the mode has got what they wanted: with a size it is their kernel that asks for
/// a mode without setuid or setgid bits, of a file that they may write. Truncating has cleared them by now, and it may
/// clear more than a kernel asks for (setgid without the group's execute bit).
bool setid_is_cleared(int fd, const wire::SetAttributes& request) {
  constexpr mode_t kSetId = S_ISUID | S_ISGID;
  struct stat now {};
  if (!request.size || ::fstat(fd, &now) != 0) return false;
  const mode_t differs = (now.st_mode ^ *request.mode) & 07777;
  return (differs & ~kSetId) == 0 && (differs & now.st_mode) == 0;
}

Result<void> change_mode(int fd, std::uint32_t type, const wire::SetAttributes& request) {
  if (!request.mode) return {};
  // Linux gives symlinks no mode of their own; some file systems would have set one.
  if (S_ISLNK(type)) return os_error(EOPNOTSUPP, "change the mode");
  if (::chmod(ProcPath(fd).c_str(), *request.mode & 07777) == 0) return {};
  const int error = errno;
  return error == EPERM && setid_is_cleared(fd, request) ? Result<void>() : os_error(error, "change the mode");
}

Result<void> truncate_to(const FileJob& job, int fd, std::uint32_t type, const wire::SetAttributes& request) {
  if (!request.size) return {};
  if (Result<void> checked = check_range(*request.size, 0, "truncate"); !checked) return checked;
  const auto size = static_cast<off_t>(*request.size);
  if (job.targets.file && job.targets.file->writable())
    return ::ftruncate(fd, size) == 0 ? Result<void>() : os_error(errno, "truncate");
  if (S_ISDIR(type)) return os_error(EISDIR, "truncate");
  if (!S_ISREG(type)) return os_error(EINVAL, "truncate");
  // As truncate(2) does it, but without waiting for somebody's lease.
  const base::UniqueFd writable(::open(ProcPath(fd).c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!writable || ::ftruncate(writable.get(), size) != 0) return os_error(errno, "truncate");
  return {};
}

timespec time_to_set(const std::optional<wire::Time>& time, bool now) {
  if (now) return {0, UTIME_NOW};
  if (!time) return {0, UTIME_OMIT};
  return {time->seconds, static_cast<long>(time->nanoseconds)};
}

Result<void> change_times(int fd, const wire::SetAttributes& request) {
  if (!request.accessed && !request.modified && !request.accessed_now && !request.modified_now) return {};
  const timespec times[2] = {time_to_set(request.accessed, request.accessed_now),
                             time_to_set(request.modified, request.modified_now)};
  // The magic link, which utimensat(2) follows to the object and no further; AT_EMPTY_PATH came with Linux 5.8 only.
  if (::utimensat(AT_FDCWD, ProcPath(fd).c_str(), times, 0) != 0) return os_error(errno, "change the times");
  return {};
}

/// The descriptor of a request on extended attributes whose name is fit for the kernel.
Result<FdRef> xattr_target(const FileJob& job, const base::Bytes& name) {
  if (Result<void> checked = check_no_zero(name, "use an extended attribute"); !checked)
    return std::move(checked).error();
  return job.root.objects().descriptor(job.targets.object);
}

}  // namespace

FileResult perform(const FileJob& job, const wire::GetAttributes&) {
  Result<FdRef> fd = file_or_object(job);
  if (!fd) return std::move(fd).error();
  return attributes_outcome((*fd)->get());
}

FileResult perform(const FileJob& job, const wire::SetAttributes& request) {
  Result<FdRef> fd = file_or_object(job);
  if (!fd) return std::move(fd).error();
  const std::uint32_t type = (job.targets.file ? job.targets.file->object : job.targets.object)->type();
  // The owner and the size first: changing them clears setuid and setgid bits, which the mode may bring back. The times
  // last: truncating sets them.
  Result<void> done = change_owner((*fd)->get(), request);
  if (done) done = truncate_to(job, (*fd)->get(), type, request);
  if (done) done = change_mode((*fd)->get(), type, request);
  if (done) done = change_times((*fd)->get(), request);
  if (!done) return std::move(done).error();
  return attributes_outcome((*fd)->get());
}

FileResult perform(const FileJob& job, const wire::StatFs&) {
  Result<FdRef> fd = job.root.objects().descriptor(job.targets.object);
  if (!fd) return std::move(fd).error();
  struct statfs from {};
  if (::fstatfs((*fd)->get(), &from) != 0) return os_error(errno, "read the file system's figures");
  wire::StatFs::Reply reply;
  reply.block_size = static_cast<std::uint64_t>(from.f_bsize);
  reply.fragment_size = static_cast<std::uint64_t>(from.f_frsize != 0 ? from.f_frsize : from.f_bsize);
  reply.blocks = from.f_blocks;
  reply.blocks_free = from.f_bfree;
  reply.blocks_available = from.f_bavail;
  reply.files = from.f_files;
  reply.files_free = from.f_ffree;
  reply.name_max = static_cast<std::uint64_t>(from.f_namelen);
  FileOutcome outcome;
  outcome.reply = reply;
  return outcome;
}

FileResult perform(const FileJob& job, const wire::GetXattr& request) {
  Result<FdRef> fd = xattr_target(job, request.name);
  if (!fd) return std::move(fd).error();
  FileOutcome outcome;
  outcome.body.resize(wire::kMaxXattrValue);
  const ssize_t length =
      ::getxattr(ProcPath((*fd)->get()).c_str(), request.name.c_str(), outcome.body.data(), outcome.body.size());
  if (length < 0) return os_error(errno, "read an extended attribute");
  outcome.body.resize(static_cast<std::size_t>(length));
  return outcome;
}

FileResult perform(const FileJob& job, const wire::SetXattr& request) {
  Result<FdRef> fd = xattr_target(job, request.name);
  if (!fd) return std::move(fd).error();
  if (::setxattr(ProcPath((*fd)->get()).c_str(), request.name.c_str(), job.body.data(), job.body.size(),
                 static_cast<int>(request.flags)) != 0)
    return os_error(errno, "set an extended attribute");
  return FileOutcome{};
}

FileResult perform(const FileJob& job, const wire::ListXattr&) {
  Result<FdRef> fd = job.root.objects().descriptor(job.targets.object);
  if (!fd) return std::move(fd).error();
  FileOutcome outcome;
  outcome.body.resize(wire::kMaxXattrValue);  // XATTR_LIST_MAX is the same; the kernel answers E2BIG beyond it
  const ssize_t length = ::listxattr(ProcPath((*fd)->get()).c_str(), outcome.body.data(), outcome.body.size());
  if (length < 0) return os_error(errno, "list extended attributes");
  outcome.body.resize(static_cast<std::size_t>(length));
  return outcome;
}

FileResult perform(const FileJob& job, const wire::RemoveXattr& request) {
  Result<FdRef> fd = xattr_target(job, request.name);
  if (!fd) return std::move(fd).error();
  if (::removexattr(ProcPath((*fd)->get()).c_str(), request.name.c_str()) != 0)
    return os_error(errno, "remove an extended attribute");
  return FileOutcome{};
}

}  // namespace sandbar::agent
