// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "wire/messages.h"

namespace sandbar::fakes {

struct Inode;
using InodePtr = std::shared_ptr<Inode>;

struct FakeLock {
  std::uint64_t owner = 0;
  wire::LockKind kind = wire::LockKind::posix;
  wire::LockType type = wire::LockType::read;
  std::uint64_t start = 0;
  std::uint64_t end = 0;  // exclusive
};

/// An object of a FakeTree. It lives on as long as a name, an object id or a handle refers to it.
struct Inode {
  struct Child {
    InodePtr inode;
    std::uint64_t cookie = 0;
  };
  wire::Attributes attributes;
  std::map<std::string, Child> children;
  std::uint64_t last_cookie = 2;  // 1 and 2 are "." and ".."
  std::weak_ptr<Inode> parent;    // of a directory
  std::string data;
  std::string target;
  std::map<std::string, std::string> xattrs;
  std::vector<FakeLock> locks;

  [[nodiscard]] bool is_directory() const { return S_ISDIR(attributes.mode); }
  [[nodiscard]] bool is_file() const { return S_ISREG(attributes.mode); }
};

inline std::uint64_t lock_end(std::uint64_t start, std::uint64_t length) {
  return length == 0 ? std::numeric_limits<std::uint64_t>::max() : start + length;
}
inline const FakeLock* lock_conflict(const Inode& inode, const FakeLock& wanted) {
  for (const FakeLock& lock : inode.locks)
    if (lock.kind == wanted.kind && lock.owner != wanted.owner && lock.start < wanted.end && wanted.start < lock.end &&
        (lock.type == wire::LockType::write || wanted.type == wire::LockType::write))
      return &lock;
  return nullptr;
}
inline void cut_locks(Inode& inode, const FakeLock& range) {
  std::vector<FakeLock> kept;
  for (const FakeLock& lock : inode.locks) {
    const bool hit =
        lock.kind == range.kind && lock.owner == range.owner && lock.start < range.end && range.start < lock.end;
    if (!hit) kept.push_back(lock);
    if (hit && lock.start < range.start) kept.push_back({lock.owner, lock.kind, lock.type, lock.start, range.start});
    if (hit && range.end < lock.end) kept.push_back({lock.owner, lock.kind, lock.type, range.end, lock.end});
  }
  inode.locks = std::move(kept);
}

/// A POSIX-like tree in memory, without permissions. Its functions answer an errno, 0 for success. Directory cookies
/// are given at the entry's birth and never change, as a listing needs that is robust against changes.
class FakeTree {
 public:
  FakeTree() : root_(make(S_IFDIR | 0755, 0, 0)) {
    root_->attributes.links = 2;
    root_->parent = root_;
  }

  bool births = true;            ///< whether the file system has birth times
  std::uint64_t next_inode = 0;  ///< not 0: the number that the next new inode gets
  std::uint64_t device = 7;      ///< of new inodes

  [[nodiscard]] const InodePtr& root() const { return root_; }

  /// The object at an absolute path; symlinks are not followed. Null when there is none.
  [[nodiscard]] InodePtr at(const std::string& path) const {
    InodePtr here = root_;
    for (std::size_t start = 0; start < path.size() && here;) {
      std::size_t end = path.find('/', start);
      if (end == std::string::npos) end = path.size();
      const std::string name = path.substr(start, end - start);
      start = end + 1;
      if (name.empty()) continue;
      const auto found = here->children.find(name);
      here = found == here->children.end() ? nullptr : found->second.inode;
    }
    return here;
  }

  /// A directory's entries behind `cookie`, in the order of their cookies, without attributes.
  static std::vector<wire::DirEntry> entries(const InodePtr& directory, std::uint64_t cookie) {
    std::vector<wire::DirEntry> all;
    const auto put = [&](std::uint64_t at, const std::string& name, const InodePtr& inode) {
      if (at <= cookie) return;
      all.push_back({name, at, inode->attributes.inode, inode->attributes.mode & S_IFMT, std::nullopt, 0});
    };
    put(1, ".", directory);
    if (const InodePtr parent = directory->parent.lock()) put(2, "..", parent);
    for (const auto& [name, child] : directory->children) put(child.cookie, name, child.inode);
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.cookie < b.cookie; });
    return all;
  }

  InodePtr make(std::uint32_t mode, std::uint32_t uid, std::uint32_t gid) {
    auto inode = std::make_shared<Inode>();
    wire::Attributes& attributes = inode->attributes;
    attributes.device = device;
    attributes.inode = next_inode != 0 ? next_inode : ++last_inode_;
    next_inode = 0;
    ++clock_;
    if (births) attributes.birth = {1'600'000'000 + clock_, 5};
    attributes.mode = mode;
    attributes.uid = uid;
    attributes.gid = gid;
    attributes.block_size = 4096;
    attributes.accessed = attributes.modified = attributes.changed = {1'600'000'000 + clock_, 6};
    return inode;
  }

  int add(const InodePtr& directory, const std::string& name, const InodePtr& inode) {
    if (!directory->is_directory()) return ENOTDIR;
    if (directory->attributes.links == 0) return ENOENT;
    if (directory->children.contains(name)) return EEXIST;
    directory->children[name] = {inode, ++directory->last_cookie};
    ++inode->attributes.links;
    if (inode->is_directory()) {
      inode->parent = directory;
      ++inode->attributes.links;
      ++directory->attributes.links;
    }
    touch(*directory);
    return 0;
  }

  int remove(const InodePtr& directory, const std::string& name, bool want_directory) {
    const auto found = directory->children.find(name);
    if (found == directory->children.end()) return ENOENT;
    const InodePtr inode = found->second.inode;
    if (want_directory != inode->is_directory()) return want_directory ? ENOTDIR : EISDIR;
    if (want_directory && !inode->children.empty()) return ENOTEMPTY;
    directory->children.erase(found);
    --inode->attributes.links;
    if (want_directory) {
      inode->attributes.links = 0;
      --directory->attributes.links;
    }
    touch(*directory);
    touch(*inode);
    return 0;
  }

  int rename(const InodePtr& from, const std::string& name, const InodePtr& to, const std::string& new_name,
             std::uint32_t flags) {
    const auto found = from->children.find(name);
    if (found == from->children.end()) return ENOENT;
    if (flags > 2) return EINVAL;
    const InodePtr inode = found->second.inode;
    const auto target = to->children.find(new_name);
    if (flags == 2) {
      if (target == to->children.end()) return ENOENT;
      std::swap(found->second.inode, target->second.inode);
      return 0;
    }
    if (target != to->children.end()) {
      if (flags == 1) return EEXIST;
      if (target->second.inode == inode) return 0;
      if (const int error = remove(to, new_name, inode->is_directory())) return error;
    }
    from->children.erase(name);
    --inode->attributes.links;
    if (inode->is_directory()) {
      --inode->attributes.links;
      --from->attributes.links;
    }
    return add(to, new_name, inode);
  }

  void resize(Inode& inode, std::uint64_t size) {
    inode.data.resize(size);
    inode.attributes.size = size;
    touch(inode);
  }
  void touch(Inode& inode) { inode.attributes.modified = inode.attributes.changed = {1'600'000'000 + ++clock_, 7}; }

  // --- What the other side does, by path ---

  InodePtr put_directory(const std::string& path) { return put(path, S_IFDIR | 0755); }
  InodePtr put_file(const std::string& path, const std::string& data) {
    InodePtr inode = put(path, S_IFREG | 0644);
    inode->data = data;
    inode->attributes.size = data.size();
    return inode;
  }
  InodePtr put(const std::string& path, std::uint32_t mode) {
    InodePtr inode = make(mode, 0, 0);
    if (add(parent_of(path), name_of(path), inode) != 0) std::abort();
    return inode;
  }
  void take(const std::string& path) {
    if (remove(parent_of(path), name_of(path), at(path)->is_directory()) != 0) std::abort();
  }

 private:
  [[nodiscard]] InodePtr parent_of(const std::string& path) const { return at(path.substr(0, path.rfind('/'))); }
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  std::uint64_t last_inode_ = 100;
  std::int64_t clock_ = 0;
  InodePtr root_;
};

}  // namespace sandbar::fakes
