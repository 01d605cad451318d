// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "agent/identity.h"
#include "base/bytes.h"
#include "base/unique_fd.h"
#include "sandbar/result.h"
#include "wire/ids.h"

namespace sandbar::agent {

class ObjectStore;

struct RootOptions {
  /// O_PATH descriptors kept for objects, and descriptors of open files and locks. 0: a half and three eighths of
  /// RLIMIT_NOFILE's soft value as it is then (so raise that first); the rest is left for sockets and processes.
  std::size_t max_cached_descriptors = 0;
  std::size_t max_open_files = 0;
  /// Find objects again by open_by_handle_at(2) where the kernel allows it; off only in tests.
  bool file_handles = true;
};

/// The directory that the agent serves, and what is counted over all its sessions. No path string ever leads out of it:
/// paths are resolved once, by openat2(2) with RESOLVE_IN_ROOT, and all else is a descriptor and one name.
///
/// Any thread, unless noted. Outlives its services and their worker pool.
class Root {
 public:
  /// Errc::os with the path when it is not a directory or cannot be opened; Errc::unsupported without openat2(2) or
  /// /proc.
  static Result<std::unique_ptr<Root>> open(const std::string& path, RootOptions options = {});
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  /// An O_PATH descriptor of `path` resolved inside the root: symlinks and ".." too, magic links never. A leading slash
  /// changes nothing; empty is the root itself. With the identity of the calling thread.
  [[nodiscard]] Result<base::UniqueFd> resolve(base::BytesView path) const;
  /// The same for a directory (ENOTDIR otherwise): for fchdir(2) of a new process.
  [[nodiscard]] Result<base::UniqueFd> resolve_directory(base::BytesView path) const;

  /// Opens one component after the other, none of them a symlink: an O_PATH descriptor of the directory that is at
  /// `path` now, a canonical path below the root.
  [[nodiscard]] Result<base::UniqueFd> open_canonical(const std::string& path) const;
  /// Where the directory of a descriptor is now, below the root ("" is the root itself). None when it has been moved
  /// out of the root, or is too deep to tell (PATH_MAX).
  [[nodiscard]] std::optional<std::string> path_of(int directory) const;
  /// Whether the directory of a descriptor is below the root still, or is the root. One that was moved out can be
  /// reached by descriptors that were opened before, and no name in it is ours to serve.
  [[nodiscard]] bool holds(int directory) const;

  /// The absolute path as it was when opened, for people and for the hello.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const Identities& identities() const { return identities_; }

  /// The number of the last change to the served files that the agent made or was told of.
  [[nodiscard]] wire::ChangeNumber change() const { return wire::ChangeNumber(change_.load()); }
  /// Counts one more change, and returns its number. A process' end is one, too.
  wire::ChangeNumber count_change() { return wire::ChangeNumber(change_.fetch_add(1) + 1); }

  ObjectStore& objects() { return *objects_; }

  /// Takes one of the open files that all sessions share, or EMFILE. Given back by the token's end.
  class OpenFileToken {
   public:
    OpenFileToken() = default;
    explicit OpenFileToken(std::shared_ptr<std::atomic<std::size_t>> count) : count_(std::move(count)) {}
    OpenFileToken(OpenFileToken&& other) noexcept : count_(std::move(other.count_)) {}
    OpenFileToken& operator=(OpenFileToken&& other) noexcept {
      std::swap(count_, other.count_);
      return *this;
    }
    ~OpenFileToken() {
      if (count_) count_->fetch_sub(1);
    }

   private:
    std::shared_ptr<std::atomic<std::size_t>> count_;
  };
  [[nodiscard]] Result<OpenFileToken> take_open_file();

 private:
  Root() = default;

  std::string path_;
  base::UniqueFd fd_;
  Identities identities_;
  std::atomic<std::uint64_t> change_{0};
  std::size_t max_open_files_ = 0;
  std::shared_ptr<std::atomic<std::size_t>> open_files_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::unique_ptr<ObjectStore> objects_;
};

}  // namespace sandbar::agent
