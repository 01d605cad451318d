// SPDX-License-Identifier: Apache-2.0
#include "agent/link_resolver.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/link_target.h"

namespace sandbar::agent {
namespace {

/// path_resolution(7): more links are ELOOP.
constexpr int kMaxLinks = 40;
/// Names that are still to be walked: PATH_MAX holds 2,047, and links on the way bring more.
constexpr std::size_t kMaxPending = 8192;

/// Walks from a directory below the root as the kernel would, and keeps the names of the way.
class Walk {
 public:
  explicit Walk(const Root& root) : root_(root) {}

  /// Goes to the directory at a canonical path below the root.
  bool start(const std::string& path) {
    names_.clear();
    for (const base::BytesView name : base::components(path)) names_.emplace_back(name);
    return reopen();
  }

  /// False when the target cannot be told.
  bool follow(base::BytesView target) {
    if (!push_target(target)) return false;
    while (!pending_.empty()) {
      if (pending_.size() > kMaxPending) return false;
      std::string name = std::move(pending_.front());
      pending_.pop_front();
      if (!step(std::move(name))) return false;
    }
    return true;
  }

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  bool reopen() {
    std::string path;
    for (const std::string& name : names_) (path += name) += '/';
    Result<base::UniqueFd> fd = root_.open_canonical(path);
    if (!fd) return false;
    at_ = std::move(*fd);
    return true;
  }

  bool push_target(base::BytesView target) {
    if (target.starts_with('/')) {
      const std::string& own = root_.path();
      if (own != "/" && (target == own || target.starts_with(own + '/'))) target.remove_prefix(own.size());
      if (!start("")) return false;
    }
    const auto names = base::components(target);
    pending_.insert(pending_.begin(), names.begin(), names.end());
    return true;
  }

  bool step(std::string name) {
    if (name == "..") return up();
    if (at_ && !pending_.empty()) {
      std::string link(PATH_MAX, '\0');
      const ssize_t length = ::readlinkat(at_.get(), name.c_str(), link.data(), link.size());
      if (length > 0 && ++links_ <= kMaxLinks)
        return push_target(base::BytesView(link).substr(0, static_cast<std::size_t>(length)));
      // No directory, or none that the caller may enter: what follows are names only.
      at_.reset(length > 0 ? -1 : ::openat(at_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    }
    names_.push_back(std::move(name));
    return true;
  }

  bool up() {
    // Below what is not there ".." is not there either: it is left out, and the target stays one that is not found.
    if (!at_) return true;
    if (!names_.empty()) names_.pop_back();
    return reopen();
  }

  const Root& root_;
  base::UniqueFd at_;  ///< of names_; none below what does not exist
  std::vector<std::string> names_;
  std::deque<std::string> pending_;
  int links_ = 0;
};

}  // namespace

base::Bytes path_below(const Root& root, int top, int directory, base::BytesView target) {
  const auto top_path = root.path_of(top);
  const auto start = root.path_of(directory);
  if (!top_path || !start) return {};
  Walk walk(root);
  if (!walk.start(*start) || !walk.follow(target)) return {};
  const auto above = base::components(*top_path);
  const auto& names = walk.names();
  if (names.size() < above.size() || !std::equal(above.begin(), above.end(), names.begin())) return {};
  base::Bytes path;
  for (std::size_t i = above.size(); i < names.size(); ++i) (path += names[i]) += '/';
  if (path.empty()) return "/";
  if (!base::wants_directory(target)) path.pop_back();
  return path;
}

}  // namespace sandbar::agent
