// SPDX-License-Identifier: Apache-2.0
// The requests that find, make, move and remove names. Each acts on a descriptor of the directory and one name.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include "agent/file_ops.h"
#include "agent/link_resolver.h"
#include "base/link_target.h"

namespace sandbar::agent {
namespace {

constexpr std::uint32_t kRenameFlags = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;

/// The directory of a request and the checked name in it.
struct Place {
  FdRef directory;
  const char* name = nullptr;
};

Result<Place> place_of(const FileJob& job, const ObjectPtr& parent, const base::Bytes& name) {
  if (Result<void> checked = check_name(name); !checked) return std::move(checked).error();
  if (!S_ISDIR(parent->type())) return os_error(ENOTDIR, "find a name");
  Result<FdRef> directory = job.root.objects().descriptor(parent);
  if (!directory) return std::move(directory).error();
  return Place{std::move(directory).value(), name.c_str()};
}

FileResult bound(const FileJob& job, FdRef fd, ObjectPtr parent, const base::Bytes& name) {
  Result<Stat> stat = stat_descriptor(fd->get());
  if (!stat) return std::move(stat).error();
  find_xattrs(fd->get(), stat->attributes);
  FileOutcome outcome;
  outcome.reply = wire::AttributesReply{stat->attributes};
  outcome.objects.push_back(job.root.objects().bind(*stat, std::move(fd), std::move(parent), name));
  return outcome;
}

/// Binds the entry as it is now: what was just made, unless somebody has replaced it already.
FileResult bind_entry(const FileJob& job, const Place& place, const ObjectPtr& parent, const base::Bytes& name) {
  auto fd = std::make_shared<const base::UniqueFd>(
      ::openat(place.directory->get(), place.name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!*fd) return os_error(errno, "look up");
  return bound(job, std::move(fd), parent, name);
}

/// Errors that say that a place does not lead to what was there (any more), and not that it could not be looked at.
bool leads_nowhere(const Error& error) {
  return error.code == Errc::os && (error.os_errno == ENOENT || error.os_errno == ENOTDIR || error.os_errno == ELOOP ||
                                    error.os_errno == ENAMETOOLONG);
}

Error not_there() { return os_error(ESTALE, "find the object again", "it is gone, has moved or was replaced"); }

Result<FdRef> entry_of(int directory, const char* name) {
  auto fd = std::make_shared<const base::UniqueFd>(::openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!*fd) return os_error(errno, "look up");
  return FdRef(std::move(fd));
}

/// What `path` leads to inside the root, a symlink at its end not followed.
Result<FdRef> resolve_unfollowed(const Root& root, const base::Bytes& path) {
  const std::size_t slash = path.rfind('/');
  const base::Bytes name = slash == path.npos ? path : path.substr(slash + 1);
  if (!check_name(name)) return os_error(ENOENT, "look up");  // no name of its own: "/", or dots
  Result<base::UniqueFd> directory = root.resolve_directory(slash == path.npos ? "/" : path.substr(0, slash + 1));
  if (!directory) return std::move(directory).error();
  return entry_of(directory->get(), name.c_str());
}

Result<FdRef> resolve_followed(const Root& root, const base::Bytes& path) {
  Result<base::UniqueFd> fd = root.resolve(path);
  if (!fd) return std::move(fd).error();
  return FdRef(std::make_shared<const base::UniqueFd>(std::move(fd).value()));
}

/// `found` if it is the object that is asked for; else ESTALE, or the error why that cannot be told.
Result<FdRef> if_same(Result<FdRef> found, const wire::Restore& request) {
  if (!found) return leads_nowhere(found.error()) ? not_there() : std::move(found).error();
  Result<Stat> stat = stat_descriptor((*found)->get());
  if (!stat) return std::move(stat).error();
  if (stat->identity() != ObjectIdentity{request.device, request.inode, request.birth}) return not_there();
  return found;
}

/// See wire::ReadLink::Reply::inside.
base::Bytes place_inside(const FileJob& job, const base::Bytes& target) {
  Result<FdRef> directory = job.root.objects().descriptor(job.targets.second);
  Result<FdRef> top = job.root.objects().descriptor(job.targets.third);
  if (!directory || !top) return {};
  return path_below(job.root, (*top)->get(), (*directory)->get(), target);
}

}  // namespace

FileResult perform(const FileJob& job, const wire::Attach& request) {
  Result<base::UniqueFd> fd = job.root.resolve(request.path);
  if (!fd) return std::move(fd).error();
  return bound(job, std::make_shared<const base::UniqueFd>(std::move(fd).value()), nullptr, request.path);
}

FileResult perform(const FileJob& job, const wire::Lookup& request) {
  Result<Place> place = place_of(job, job.targets.object, request.name);
  if (!place) return std::move(place).error();
  return bind_entry(job, *place, job.targets.object, request.name);
}

FileResult perform(const FileJob& job, const wire::Restore& request) {
  if (job.targets.object) {
    Result<Place> place = place_of(job, job.targets.object, request.path);
    if (!place) return std::move(place).error();
    Result<FdRef> fd = if_same(entry_of(place->directory->get(), place->name), request);
    if (!fd) return std::move(fd).error();
    return bound(job, std::move(fd).value(), job.targets.object, request.path);
  }
  Result<FdRef> fd = if_same(resolve_unfollowed(job.root, request.path), request);
  // An attached path may end in a symlink: whichever is the object is meant.
  if (!fd) fd = if_same(resolve_followed(job.root, request.path), request);
  if (!fd) return std::move(fd).error();
  return bound(job, std::move(fd).value(), nullptr, request.path);
}

FileResult perform(const FileJob& job, const wire::ReadLink& request) {
  if (!S_ISLNK(job.targets.object->type())) return os_error(EINVAL, "read a link");
  Result<FdRef> fd = job.root.objects().descriptor(job.targets.object);
  if (!fd) return std::move(fd).error();
  base::Bytes target(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat((*fd)->get(), "", target.data(), target.size());
  if (length < 0) return os_error(errno, "read a link");
  target.resize(static_cast<std::size_t>(length));
  wire::ReadLink::Reply reply{std::move(target), {}};
  if (job.targets.second && !base::stays_below(reply.target, request.depth))
    reply.inside = place_inside(job, reply.target);
  FileOutcome outcome;
  outcome.reply = std::move(reply);
  return outcome;
}

FileResult perform(const FileJob& job, const wire::MakeDirectory& request) {
  Result<Place> place = place_of(job, job.targets.object, request.name);
  if (!place) return std::move(place).error();
  {
    const WithUmask umask(caller_umask(job));
    if (::mkdirat(place->directory->get(), place->name, umask.apply(request.mode & 07777)) != 0)
      return os_error(errno, "make a directory");
  }
  return bind_entry(job, *place, job.targets.object, request.name);
}

FileResult perform(const FileJob& job, const wire::MakeNode& request) {
  const std::uint32_t type = request.mode & S_IFMT;
  if (type == S_IFDIR) return os_error(EPERM, "make a node");
  Result<Place> place = place_of(job, job.targets.object, request.name);
  if (!place) return std::move(place).error();
  {
    const WithUmask umask(caller_umask(job));
    if (::mknodat(place->directory->get(), place->name, umask.apply(request.mode & (S_IFMT | 07777)),
                  static_cast<dev_t>(request.rdev)) != 0)
      return os_error(errno, "make a node");
  }
  return bind_entry(job, *place, job.targets.object, request.name);
}

FileResult perform(const FileJob& job, const wire::MakeSymlink& request) {
  if (Result<void> checked = check_no_zero(request.target, "make a symlink"); !checked)
    return std::move(checked).error();
  Result<Place> place = place_of(job, job.targets.object, request.name);
  if (!place) return std::move(place).error();
  if (::symlinkat(request.target.c_str(), place->directory->get(), place->name) != 0)
    return os_error(errno, "make a symlink");
  return bind_entry(job, *place, job.targets.object, request.name);
}

FileResult perform(const FileJob& job, const wire::MakeLink& request) {
  Result<Place> place = place_of(job, job.targets.second, request.new_name);
  if (!place) return std::move(place).error();
  Result<FdRef> object = job.root.objects().descriptor(job.targets.object);
  if (!object) return std::move(object).error();
  // By the magic link: AT_EMPTY_PATH would need CAP_DAC_READ_SEARCH, which a caller does not have. What it leads to is
  // not followed further, even when it is a symlink.
  if (::linkat(AT_FDCWD, ProcPath((*object)->get()).c_str(), place->directory->get(), place->name, AT_SYMLINK_FOLLOW) !=
      0)
    return os_error(errno, "make a link");
  return attributes_outcome((*object)->get());
}

FileResult perform(const FileJob& job, const wire::Unlink& request) {
  Result<Place> place = place_of(job, job.targets.object, request.name);
  if (!place) return std::move(place).error();
  if (::unlinkat(place->directory->get(), place->name, 0) != 0) return os_error(errno, "unlink");
  return FileOutcome{};
}

FileResult perform(const FileJob& job, const wire::RemoveDirectory& request) {
  Result<Place> place = place_of(job, job.targets.object, request.name);
  if (!place) return std::move(place).error();
  if (::unlinkat(place->directory->get(), place->name, AT_REMOVEDIR) != 0) return os_error(errno, "remove a directory");
  return FileOutcome{};
}

FileResult perform(const FileJob& job, const wire::Rename& request) {
  if ((request.flags & ~kRenameFlags) != 0) return os_error(EINVAL, "rename");
  Result<Place> from = place_of(job, job.targets.object, request.name);
  if (!from) return std::move(from).error();
  Result<Place> to = place_of(job, job.targets.second, request.new_name);
  if (!to) return std::move(to).error();
  if (::renameat2(from->directory->get(), from->name, to->directory->get(), to->name, request.flags) != 0)
    return os_error(errno, "rename");
  job.root.objects().renamed(job.targets.object, request.name, job.targets.second, request.new_name,
                             (request.flags & RENAME_EXCHANGE) != 0);
  return FileOutcome{};
}

}  // namespace sandbar::agent
