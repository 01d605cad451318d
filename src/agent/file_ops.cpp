// SPDX-License-Identifier: Apache-2.0
#include "agent/file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <exception>
#include <utility>

#include "wire/limits.h"
#include "wire/request_names.h"

namespace sandbar::agent {
namespace {

/// Whether an open is for execve(2), which needs no permission to read. The caller's own permission is asked for here;
/// errno is kept otherwise.
bool may_execute(int path, std::uint32_t flags) {
  if ((flags & wire::kOpenToExecute) == 0 || (flags & (O_ACCMODE | O_TRUNC)) != O_RDONLY) return false;
  const int error = std::exchange(errno, 0);
  const bool may = ::faccessat(path, "", X_OK, AT_EACCESS | AT_EMPTY_PATH) == 0;
  errno = error;
  return may;
}

FileResult perform_as_caller(const FileJob& job) {
  const ActAs caller(job.root.identities(), job.request.context.caller);
  if (!caller.ok()) return os_error(EPERM, "act as the caller", "the agent cannot take this identity");
  if (job.known) return perform_again(job);
  return std::visit(
      [&job](const auto& request) -> FileResult {
        if constexpr (requires { perform(job, request); })
          return perform(job, request);
        else
          return make_error(Errc::unsupported, "handle a request", "it is not the file service's");
      },
      job.request.body);
}

}  // namespace

PerformedFile perform_file_request(const FileJob& job) {
  // What is read belongs to a state at least as new as this.
  const wire::ChangeNumber before = job.root.change();
  FileResult result = make_error(Errc::internal, "perform a request");
  if (Result<void> allowed = job.root.identities().allowed(job.request.context.caller); !allowed)
    return {std::move(allowed).error(), before};
  try {
    result = perform_as_caller(job);
  } catch (const std::exception& e) {
    result = make_error(Errc::internal, "perform a request", e.what());
  }
  // Also of one that failed: some do a part of their work first.
  return {std::move(result), wire::is_mutation(job.request.body) && !job.known ? job.root.count_change() : before};
}

Result<void> check_name(const base::Bytes& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != base::Bytes::npos ||
      name.find('\0') != base::Bytes::npos)
    return os_error(EINVAL, "check a name", "it is not the name of an entry");
  if (name.size() > wire::kMaxName) return os_error(ENAMETOOLONG, "check a name");
  return {};
}

Result<void> check_no_zero(const base::Bytes& text, const char* operation) {
  if (text.find('\0') != base::Bytes::npos) return os_error(EINVAL, operation, "it holds a zero byte");
  return {};
}

Result<void> check_range(std::uint64_t offset, std::uint64_t length, const char* operation) {
  constexpr auto kMost = static_cast<std::uint64_t>(LLONG_MAX);
  if (offset > kMost || length > kMost || offset > kMost - length) return os_error(EINVAL, operation);
  return {};
}

Result<wire::Attributes> full_attributes(int fd) {
  Result<Stat> stat = stat_descriptor(fd);
  if (!stat) return std::move(stat).error();
  find_xattrs(fd, stat->attributes);
  return stat->attributes;
}

FileResult attributes_outcome(int fd) {
  Result<wire::Attributes> attributes = full_attributes(fd);
  if (!attributes) return std::move(attributes).error();
  FileOutcome outcome;
  outcome.reply = wire::AttributesReply{*attributes};
  return outcome;
}

std::uint32_t caller_umask(const FileJob& job) {
  return job.request.context.caller ? job.request.context.caller->umask : 0;
}

Result<int> io_flags(std::uint32_t flags) {
  // 3 means "both checked, neither usable" on Linux: for ioctls on devices, which are not served.
  if ((flags & O_ACCMODE) == O_ACCMODE) return os_error(EINVAL, "open");
  return static_cast<int>(flags & (O_ACCMODE | O_TRUNC | O_APPEND | O_DIRECTORY | O_SYNC | O_DSYNC | O_NOATIME));
}

Result<OpenFilePtr> open_for_io(const FileJob& job, const ObjectPtr& object, int path, std::uint32_t flags) {
  Result<int> usable = io_flags(flags);
  if (!usable) return std::move(usable).error();
  if (S_ISLNK(object->type())) return os_error(ELOOP, "open");
  if (!S_ISREG(object->type()) && !S_ISDIR(object->type()))
    return os_error(ENXIO, "open", "FIFOs, sockets and devices are not opened by the agent");
  auto file = std::make_shared<OpenFile>();
  Result<Root::OpenFileToken> token = job.root.take_open_file();
  if (!token) return std::move(token).error();
  file->token = std::move(token).value();
  // O_NONBLOCK: a lease, or a file of /proc that waits for events, must not hold a worker.
  const int how = *usable | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  base::UniqueFd fd(::open(ProcPath(path).c_str(), how));
  if (!fd && errno == EACCES && may_execute(path, flags)) {
    const ActAs agent(job.root.identities(), std::nullopt);
    fd.reset(::open(ProcPath(path).c_str(), how));
  }
  if (!fd) return os_error(errno, "open");
  file->fd = std::make_shared<const base::UniqueFd>(std::move(fd));
  file->object = object;
  file->set_mode(flags);
  job.root.objects().opened(object, file->fd);
  return file;
}

}  // namespace sandbar::agent
