// SPDX-License-Identifier: Apache-2.0
// Mutations whose numbers come again: what of them may be executed twice, and how those that were done bind their ids.
#include <fcntl.h>
#include <linux/falloc.h>

#include <cerrno>
#include <type_traits>
#include <utility>

#include "agent/file_ops.h"

namespace sandbar::agent {
namespace {

bool is_known(const FileJob& job, const Stat& stat) {
  const wire::Attributes& known = *job.known;
  return stat.identity() == ObjectIdentity{known.device, known.inode, known.birth} &&
         (stat.attributes.mode & S_IFMT) == (known.mode & S_IFMT);
}

Error not_the_same() { return os_error(ESTALE, "find again what a mutation made", "it is gone or has moved"); }

/// The entry of a request that has made or opened one.
struct Found {
  FdRef fd;
  ObjectPtr object;
};

Result<Found> find_entry(const FileJob& job, const base::Bytes& name) {
  if (Result<void> checked = check_name(name); !checked) return std::move(checked).error();
  Result<FdRef> directory = job.root.objects().descriptor(job.targets.object);
  if (!directory) return std::move(directory).error();
  auto fd = std::make_shared<const base::UniqueFd>(
      ::openat((*directory)->get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!*fd) return errno == ENOENT || errno == ENOTDIR ? not_the_same() : os_error(errno, "look up");
  Result<Stat> stat = stat_descriptor(fd->get());
  if (!stat) return std::move(stat).error();
  if (!is_known(job, *stat)) return not_the_same();
  ObjectPtr object = job.root.objects().bind(*stat, fd, job.targets.object, name);
  return Found{std::move(fd), std::move(object)};
}

FileResult again(const FileJob& job, const wire::Open& request) {
  Result<FdRef> path = job.root.objects().descriptor(job.targets.object);
  if (!path) return std::move(path).error();
  Result<Stat> stat = stat_descriptor((*path)->get());
  if (!stat) return std::move(stat).error();
  if (!is_known(job, *stat)) return not_the_same();
  Result<OpenFilePtr> file =
      open_for_io(job, job.targets.object, (*path)->get(), request.flags & ~static_cast<std::uint32_t>(O_TRUNC));
  if (!file) return std::move(file).error();
  FileOutcome outcome;
  outcome.opened = std::move(file).value();
  return outcome;
}

FileResult again(const FileJob& job, const wire::Create& request) {
  Result<Found> found = find_entry(job, request.name);
  if (!found) return std::move(found).error();
  Result<OpenFilePtr> file =
      open_for_io(job, found->object, found->fd->get(), request.flags & ~static_cast<std::uint32_t>(O_TRUNC));
  if (!file) return std::move(file).error();
  FileOutcome outcome;
  outcome.objects.push_back(std::move(found->object));
  outcome.opened = std::move(file).value();
  return outcome;
}

template <class R>
requires requires(const R& r) { r.parent, r.name, r.object; }
FileResult again(const FileJob& job, const R& request) {
  Result<Found> found = find_entry(job, request.name);
  if (!found) return std::move(found).error();
  FileOutcome outcome;
  outcome.objects.push_back(std::move(found->object));
  return outcome;
}

/// Those that set something to a value that the request itself has. Not those that act on what they find (append, copy,
/// rename, remove, make: the second time they find what the first has done), and not those that take the time of the
/// moment.
template <class R>
bool sets_values(const R& request) {
  if constexpr (std::is_same_v<R, wire::Write>) return !request.append;
  if constexpr (std::is_same_v<R, wire::SetAttributes>) return !request.accessed_now && !request.modified_now;
  // XATTR_CREATE and XATTR_REPLACE ask what is there.
  if constexpr (std::is_same_v<R, wire::SetXattr>) return request.flags == 0;
  // It truncates to 0, as SetAttributes does.
  if constexpr (std::is_same_v<R, wire::Open>) return true;
  // The other modes move the data behind the range.
  if constexpr (std::is_same_v<R, wire::Allocate>)
    return (request.mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) == 0;
  return false;
}

}  // namespace

FileResult perform_again(const FileJob& job) {
  return std::visit(
      [&job](const auto& request) -> FileResult {
        if constexpr (requires { again(job, request); })
          return again(job, request);
        else
          return FileOutcome{};
      },
      job.request.body);
}

bool may_execute_twice(const wire::RequestBody& body) {
  return std::visit([](const auto& request) { return sets_values(request); }, body);
}

}  // namespace sandbar::agent
