// SPDX-License-Identifier: Apache-2.0
#include "agent/root.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "agent/objects.h"
#include "base/text.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

/// openat2(2) answers EAGAIN when a rename or mount somewhere raced with a ".."; so often before we give up.
constexpr int kResolveTries = 64;

int open_in_root(int root, const char* path, std::uint64_t flags, std::uint64_t resolve = 0) {
  open_how how{};
  how.flags = flags;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve;
  for (int i = 0; i < kResolveTries; ++i) {
    const long fd = ::syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) return static_cast<int>(fd);
  }
  return -1;
}

/// An O_PATH descriptor of what `path` leads to inside the root; `flags` are added.
Result<base::UniqueFd> resolve_path(int root, base::BytesView path, std::uint64_t flags) {
  const std::string text(path.empty() ? base::BytesView(".") : path);
  if (text.find('\0') != std::string::npos) return os_error(EINVAL, "resolve a path", "it holds a zero byte");
  base::UniqueFd fd(open_in_root(root, text.c_str(), O_PATH | O_CLOEXEC | flags));
  if (!fd) return os_error(errno, "resolve " + base::printable(path.substr(0, wire::kMaxErrorText / 8)));
  return fd;
}

std::size_t descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  // Unlimited does not exist for this one, but be sane: a descriptor costs the kernel memory.
  return std::min<std::size_t>(limit.rlim_cur, 1U << 20);
}

/// The kernel's own name for what a descriptor refers to (d_path), as /proc shows it; empty when it is longer than
/// PATH_MAX.
std::string kernel_path(int fd) {
  std::array<char, PATH_MAX> path;  // not cleared: this runs for each request that names a directory
  const ssize_t length = ::readlink(ProcPath(fd).c_str(), path.data(), path.size());
  return {path.data(), length < 0 ? 0 : static_cast<std::size_t>(length)};
}

/// What of `path` is below `top`; both are the kernel's.
std::optional<std::string> below(const std::string& top, const std::string& path) {
  if (top.empty() || path.empty() || path.front() != '/') return std::nullopt;
  if (path == top) return std::string();
  const std::string prefix = top == "/" ? top : top + '/';
  if (!path.starts_with(prefix)) return std::nullopt;
  return path.substr(prefix.size());
}

/// For what d_path cannot tell: up through "..", which no rename can make skip a level, until the root or the top.
bool is_above(int root, int directory) {
  const Result<Stat> want = stat_descriptor(root);
  Result<Stat> at = stat_descriptor(directory);
  base::UniqueFd fd(::openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  while (fd && want && at && at->identity() != want->identity()) {
    const ObjectIdentity below = at->identity();
    fd.reset(::openat(fd.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return false;
    at = stat_descriptor(fd.get());
    if (at && at->identity() == below) return false;  // the top of all
  }
  return fd && want && at;
}

std::string absolute(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string out = real;
  std::free(real);  // NOLINT: realpath(3) allocates with malloc
  return out;
}

}  // namespace

Result<std::unique_ptr<Root>> Root::open(const std::string& path, RootOptions options) {
  const std::string what = "serve " + base::printable(path);
  std::unique_ptr<Root> root(new Root);
  root->fd_.reset(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root->fd_) return os_error(errno, what);
  root->path_ = absolute(path);
  if (const base::UniqueFd probe(open_in_root(root->fd(), ".", O_PATH | O_CLOEXEC)); !probe)
    return errno == ENOSYS || errno == EPERM
               ? make_error(Errc::unsupported, what,
                            "openat2(2) does not work here: Linux 5.6 is needed, and a seccomp "
                            "filter that allows it")
               : os_error(errno, what);
  if (const base::UniqueFd probe(::open(ProcPath(root->fd()).c_str(), O_PATH | O_CLOEXEC)); !probe)
    return make_error(Errc::unsupported, what, "/proc is not mounted");
  root->identities_ = Identities::of_process();
  const std::size_t limit = descriptor_limit();
  root->max_open_files_ = options.max_open_files != 0 ? options.max_open_files : limit / 8 * 3;
  root->objects_ = std::make_unique<ObjectStore>(
      *root, ObjectStore::Options{options.max_cached_descriptors != 0 ? options.max_cached_descriptors : limit / 2,
                                  options.file_handles});
  return root;
}

Root::~Root() = default;

Result<base::UniqueFd> Root::resolve(base::BytesView path) const { return resolve_path(fd_.get(), path, 0); }

Result<base::UniqueFd> Root::resolve_directory(base::BytesView path) const {
  return resolve_path(fd_.get(), path, O_DIRECTORY);
}

Result<base::UniqueFd> Root::open_canonical(const std::string& path) const {
  base::UniqueFd fd(open_in_root(fd_.get(), path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC,
                                 RESOLVE_NO_SYMLINKS));
  if (!fd) return os_error(errno, "open a directory");
  return fd;
}

std::optional<std::string> Root::path_of(int directory) const {
  return below(kernel_path(fd_.get()), kernel_path(directory));
}

bool Root::holds(int directory) const {
  if (path_ == "/") return true;  // nothing is outside
  if (const std::string path = kernel_path(directory); !path.empty())
    return below(kernel_path(fd_.get()), path).has_value();
  const ActAs agent(identities_, std::nullopt);
  return is_above(fd_.get(), directory);
}

Result<Root::OpenFileToken> Root::take_open_file() {
  OpenFileToken token(open_files_);
  if (open_files_->fetch_add(1) >= max_open_files_)
    return os_error(EMFILE, "open", "too many open files of all clients");
  return token;
}

}  // namespace sandbar::agent
