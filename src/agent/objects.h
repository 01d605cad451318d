// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/identity.h"
#include "agent/stat.h"
#include "base/unique_fd.h"
#include "sandbar/result.h"

namespace sandbar::agent {

class Object;
class Root;
using ObjectPtr = std::shared_ptr<Object>;
/// A descriptor that stays open while somebody uses it, also when its cache drops it.
using FdRef = std::shared_ptr<const base::UniqueFd>;

/// What all objects share: the cache of descriptors and where the mounts are. Lives as long as the last object.
struct ObjectShared;

/// A file system object that some client's id is bound to: who it is, and the ways to reach it. All but the identity
/// belongs to ObjectStore.
class Object {
 public:
  Object(std::shared_ptr<ObjectShared> shared, const Stat& stat);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  [[nodiscard]] const ObjectIdentity& identity() const { return identity_; }
  /// S_IFMT bits; they never change.
  [[nodiscard]] std::uint32_t type() const { return type_; }

 private:
  friend class ObjectStore;
  friend struct ObjectShared;

  const std::shared_ptr<ObjectShared> shared_;
  const ObjectIdentity identity_;
  const std::uint32_t type_;
  const std::uint64_t mount_;

  // All below: under ObjectShared::mutex.
  FdRef cached_;  ///< O_PATH; set exactly while it is in the list of recent ones
  std::list<Object*>::iterator recent_;
  std::string file_handle_;  ///< struct file_handle's bytes, once it was needed; empty: none
  int file_handle_type_ = 0;
  std::vector<std::weak_ptr<const base::UniqueFd>> open_files_;
  ObjectPtr parent_;                                   ///< where it was seen last; none for an attached one
  std::string name_;                                   ///< there; the path for an attached one
  std::unordered_map<std::string, Object*> children_;  ///< whose parent_ this is
};

/// All bound objects, one for each file system object, of all sessions. Keeps O_PATH descriptors within a bound and
/// finds other objects again: through an open file, by file handle, else by the place where they were seen last. Any
/// way that leads to a different object, or nowhere, is ESTALE. Any thread.
class ObjectStore {
 public:
  struct Options {
    std::size_t max_cached = 1024;
    bool file_handles = true;  ///< as far as open_by_handle_at(2) works here
  };
  /// Most mounts below the root in which objects are found by file handle; in others the place decides.
  static constexpr std::size_t kMaxMounts = 64;

  ObjectStore(const Root& root, Options options);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  /// The object that `stat` tells of, seen as `name` in `parent` (or attached at the path `name`). `fd`, an O_PATH
  /// descriptor of it, may be null: it is opened when it is needed.
  ObjectPtr bind(const Stat& stat, FdRef fd, ObjectPtr parent, std::string name);
  /// An O_PATH descriptor of the object. Opened, if need be, with the agent's identity. ESTALE for a directory that was
  /// moved out of the root.
  Result<FdRef> descriptor(const ObjectPtr& object);
  /// `fd` is an open file of the object.
  void opened(const ObjectPtr& object, const FdRef& fd);
  /// What was seen at the first place is at the second now, and the other way round if `exchanged`.
  void renamed(const ObjectPtr& parent, const std::string& name, const ObjectPtr& new_parent,
               const std::string& new_name, bool exchanged);

  /// Descriptors in the cache now.
  [[nodiscard]] std::size_t cached() const;
  [[nodiscard]] bool uses_file_handles() const;

 private:
  struct Ways;

  Result<FdRef> any_descriptor(const ObjectPtr& object);
  void learn_mount(const Stat& stat, int fd);
  [[nodiscard]] Ways ways_to(const ObjectPtr& object) const;
  [[nodiscard]] Result<FdRef> open_directly(Object& object, const Ways& ways) const;
  [[nodiscard]] Result<FdRef> open_at_place(Object& object, const Ways& ways, int parent) const;
  FdRef keep(const ObjectPtr& object, FdRef fd);

  const Root& root_;
  std::shared_ptr<ObjectShared> shared_;
};

}  // namespace sandbar::agent
