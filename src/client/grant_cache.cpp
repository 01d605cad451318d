// SPDX-License-Identifier: Apache-2.0
#include "client/grant_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"

namespace sandbar::client {
namespace {

/// flock(2) cannot be waited for together with a cancellation.
constexpr std::chrono::milliseconds kLockRetry{20};
constexpr std::size_t kMaxFailure = 4096;

/// CLOCK_BOOTTIME, nanoseconds: the same for all processes, and never set.
std::uint64_t boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

bool is_private(const struct stat& attributes) {
  return attributes.st_uid == ::geteuid() && (attributes.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/// `name` below `parent` (or absolute), made when missing. A link is not followed, as `name`'s last part.
Result<base::UniqueFd> open_private(int parent, const std::string& name, bool make) {
  const std::string operation = "keep grants in " + base::printable(name);
  if (make && ::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) return os_error(errno, operation);
  base::UniqueFd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder && (errno == ELOOP || errno == ENOTDIR))
    return make_error(Errc::invalid, operation, "it is a link or no folder: somebody may want to see them");
  if (!folder) return os_error(errno, operation);
  struct stat attributes {};
  if (::fstat(folder.get(), &attributes) != 0) return os_error(errno, operation);
  if (!is_private(attributes))
    return make_error(Errc::invalid, operation, "it is another user's, or others have rights on it; remove it");
  return folder;
}

Result<base::UniqueFd> open_below(const base::UniqueFd& parent, std::initializer_list<const char*> names) {
  int at = parent.get();
  base::UniqueFd folder;
  for (const char* name : names) {
    auto next = open_private(at, name, true);
    if (!next) return next;
    folder = std::move(*next);
    at = folder.get();
  }
  return folder;
}

std::optional<std::string> read_file(int fd, std::size_t most) {
  std::string text(most + 1, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::pread(fd, text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have > most) return std::nullopt;
  text.resize(have);
  return text;
}

bool write_file(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

Result<GrantCache> GrantCache::open() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return open_in(runtime != nullptr ? runtime : "", "/tmp/sandbar-" + std::to_string(::geteuid()));
}

Result<GrantCache> GrantCache::open_in(const std::string& runtime_folder, const std::string& fallback) {
  // One that is another user's is what sudo leaves behind, and none of ours.
  if (!runtime_folder.empty() && runtime_folder.front() == '/') {
    if (auto runtime = open_private(AT_FDCWD, runtime_folder, false)) {
      auto folder = open_below(*runtime, {"sandbar", "grants"});
      if (!folder) return std::move(folder).error();
      return GrantCache(std::move(*folder));
    }
  }
  auto own = open_private(AT_FDCWD, fallback, true);
  if (!own) return std::move(own).error();
  auto folder = open_below(*own, {"grants"});
  if (!folder) return std::move(folder).error();
  return GrantCache(std::move(*folder));
}

std::string GrantCache::key_of(const std::string& command, GrantKind kind, std::uint16_t port,
                               const std::string& target) {
  // No part can be made to look like two: each has its length in front.
  std::string all = "1";
  for (const std::string& part : {command, std::string(grant_kind_name(kind)), std::to_string(port), target})
    all += ":" + std::to_string(part.size()) + ":" + part;
  return base::hex(base::sha256(all));
}

std::optional<wire::GrantAnswer> GrantCache::read(const std::string& key) const {
  // Not blocked by a FIFO that has the name.
  const base::UniqueFd file(::openat(folder_.get(), key.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat attributes {};
  if (!file || ::fstat(file.get(), &attributes) != 0 || !S_ISREG(attributes.st_mode) || !is_private(attributes))
    return std::nullopt;
  const auto text = read_file(file.get(), wire::kMaxGrantAnswer);
  if (!text) return std::nullopt;
  auto answer = wire::decode_grant_answer(*text);
  if (!answer || answer->fetched_at.seconds == 0) return std::nullopt;
  return std::move(*answer);
}

Result<void> GrantCache::write(const std::string& key, const wire::GrantAnswer& answer) const {
  constexpr const char* kOperation = "keep a grant for later";
  // A name of its own: who writes without the lock (a link that stood there has no way in either).
  const std::string name = key + "." + base::hex(base::random_bytes(8));
  const base::UniqueFd file(
      ::openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return os_error(errno, kOperation);
  if (write_file(file.get(), wire::encode_grant_answer(answer)) &&
      ::renameat(folder_.get(), name.c_str(), folder_.get(), key.c_str()) == 0)
    return {};
  const int error = errno;
  ::unlinkat(folder_.get(), name.c_str(), 0);
  return os_error(error, kOperation);
}

// --- Lock ------------------------------------------------------------------------------------------------------

Result<GrantCache::Lock> GrantCache::lock(const std::string& key, const Cancellation& cancellation,
                                          std::chrono::milliseconds most) const {
  constexpr const char* kOperation = "wait for another process to fetch the grant";
  Lock lock;
  lock.waiting_since_ = boot_time();
  // It is never removed: a lock on a file that has no name any more would exclude nobody.
  lock.file_.reset(
      ::openat(folder_.get(), (key + ".lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!lock.file_) return os_error(errno, kOperation);
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (::flock(lock.file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return os_error(errno, kOperation);
    if (cancellation.wait(kLockRetry)) return make_error(Errc::cancelled, kOperation, "it is not wanted any more");
    if (std::chrono::steady_clock::now() >= deadline)
      return make_error(Errc::timeout, kOperation,
                        "it takes too long; is another sandbox-mount or sandbox-exec stuck?");
  }
  return lock;
}

void GrantCache::Lock::failed(const std::string& why) const {
  const std::string text = std::to_string(boot_time()) + " " + why.substr(0, kMaxFailure / 2);
  // Without room for it those who wait try themselves.
  if (::ftruncate(file_.get(), 0) == 0 && ::lseek(file_.get(), 0, SEEK_SET) == 0 && !write_file(file_.get(), text))
    static_cast<void>(::ftruncate(file_.get(), 0) == 0);
}

std::optional<std::string> GrantCache::Lock::failed_meanwhile() const {
  const auto text = read_file(file_.get(), kMaxFailure);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const std::uint64_t when = std::strtoull(text->c_str(), &end, 10);
  // One of the future is of before a boot.
  if (*end != ' ' || when < waiting_since_ || when > boot_time()) return std::nullopt;
  return std::string(end + 1);
}

}  // namespace sandbar::client
