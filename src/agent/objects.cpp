// SPDX-License-Identifier: Apache-2.0
#include "agent/objects.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "agent/root.h"

namespace sandbar::agent {
namespace {

struct HashIdentity {
  std::size_t operator()(const ObjectIdentity& id) const noexcept {
    // The inode numbers differ as a rule; the rest only has to take part.
    return std::hash<std::uint64_t>{}(id.inode * 0x9E3779B97F4A7C15U + id.device * 31 + id.birth.nanoseconds);
  }
};

/// struct file_handle with its room.
union HandleBuffer {
  file_handle header;
  char room[sizeof(file_handle) + MAX_HANDLE_SZ];
};

/// True for errors that mean "not there, or something else is there" and not "no descriptors" or "I/O error".
bool means_stale(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE || error == ENAMETOOLONG ||
         error == EPERM;
}

Error stale() { return os_error(ESTALE, "find the object again", "it is gone or has moved"); }

FdRef shared_fd(int fd) { return std::make_shared<const base::UniqueFd>(fd); }

}  // namespace

struct ObjectShared {
  mutable std::mutex mutex;
  std::size_t max_cached = 0;
  bool file_handles = false;
  std::list<Object*> recent;  ///< most recent first
  std::unordered_map<ObjectIdentity, std::weak_ptr<Object>, HashIdentity> objects;
  std::unordered_map<std::uint64_t, FdRef> mounts;  ///< by mount id: a directory there, for open_by_handle_at(2)

  // All with the mutex held.
  void touch(Object& object) { recent.splice(recent.begin(), recent, object.recent_); }
  void remember_file_handle(Object& object) const;
  void take_from_parent(Object& object);
  // What these return may only be destroyed without the mutex.
  [[nodiscard]] FdRef drop_oldest();
  [[nodiscard]] ObjectPtr place(Object& object, ObjectPtr parent, std::string name);
  [[nodiscard]] ObjectPtr cut_below(Object& object, Object* parent);
};

void ObjectShared::remember_file_handle(Object& object) const {
  if (!file_handles || !object.file_handle_.empty() || !mounts.contains(object.mount_)) return;
  HandleBuffer buffer{};
  buffer.header.handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(object.cached_->get(), "", &buffer.header, &mount, AT_EMPTY_PATH) != 0) return;
  if (static_cast<std::uint64_t>(mount) != object.mount_) return;
  object.file_handle_type_ = buffer.header.handle_type;
  object.file_handle_.assign(reinterpret_cast<const char*>(buffer.header.f_handle), buffer.header.handle_bytes);
}

FdRef ObjectShared::drop_oldest() {
  Object& object = *recent.back();
  remember_file_handle(object);
  recent.pop_back();
  return std::exchange(object.cached_, nullptr);
}

void ObjectShared::take_from_parent(Object& object) {
  if (!object.parent_) return;
  const auto at = object.parent_->children_.find(object.name_);
  if (at != object.parent_->children_.end() && at->second == &object) object.parent_->children_.erase(at);
}

/// Places are hints and can be old: a directory that is seen below what was once below it would close a ring. The old
/// link into `object` is cut then.
ObjectPtr ObjectShared::cut_below(Object& object, Object* parent) {
  if (object.children_.empty()) return nullptr;
  for (Object* at = parent; at != nullptr; at = at->parent_.get()) {
    if (at->parent_.get() != &object) continue;
    take_from_parent(*at);
    at->name_.clear();
    return std::move(at->parent_);
  }
  return nullptr;
}

/// The caller holds `object`.
ObjectPtr ObjectShared::place(Object& object, ObjectPtr parent, std::string name) {
  if (object.parent_ == parent && object.name_ == name) return nullptr;
  const ObjectPtr cut = cut_below(object, parent.get());
  take_from_parent(object);
  if (parent) parent->children_[name] = &object;
  object.name_ = std::move(name);
  return std::exchange(object.parent_, std::move(parent));
}

Object::Object(std::shared_ptr<ObjectShared> shared, const Stat& stat)
    : shared_(std::move(shared)), identity_(stat.identity()), type_(stat.type()), mount_(stat.mount) {}

Object::~Object() {
  {
    std::lock_guard lock(shared_->mutex);
    if (cached_) shared_->recent.erase(recent_);
    shared_->take_from_parent(*this);
    const auto at = shared_->objects.find(identity_);
    if (at != shared_->objects.end() && at->second.expired()) shared_->objects.erase(at);
  }
  // A path of thousands of levels must not become as many nested destructors.
  ObjectPtr parent = std::move(parent_);
  while (parent && parent.use_count() == 1) {
    ObjectPtr next;
    {
      std::lock_guard lock(shared_->mutex);
      if (parent.use_count() != 1) break;
      shared_->take_from_parent(*parent);
      next = std::move(parent->parent_);
    }
    parent = std::move(next);
  }
}

ObjectStore::ObjectStore(const Root& root, Options options) : root_(root), shared_(std::make_shared<ObjectShared>()) {
  shared_->max_cached = std::max<std::size_t>(options.max_cached, 1);
  if (!options.file_handles) return;
  // Tried on the root: it needs CAP_DAC_READ_SEARCH in the first user namespace, and a file system that can be
  // exported.
  HandleBuffer buffer{};
  buffer.header.handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(root.fd(), "", &buffer.header, &mount, AT_EMPTY_PATH) != 0) return;
  auto readable = shared_fd(::open(ProcPath(root.fd()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!*readable) return;
  const base::UniqueFd found(::open_by_handle_at(readable->get(), &buffer.header, O_PATH | O_CLOEXEC));
  shared_->file_handles = static_cast<bool>(found);
  shared_->mounts.emplace(static_cast<std::uint64_t>(mount), std::move(readable));
}

ObjectStore::~ObjectStore() = default;

std::size_t ObjectStore::cached() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->recent.size();
}

bool ObjectStore::uses_file_handles() const { return shared_->file_handles; }

void ObjectStore::learn_mount(const Stat& stat, int fd) {
  if (!shared_->file_handles || stat.mount == 0 || !S_ISDIR(stat.attributes.mode)) return;
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->mounts.contains(stat.mount) || shared_->mounts.size() >= kMaxMounts) return;
  }
  const ActAs agent(root_.identities(), std::nullopt);
  auto readable = shared_fd(::open(ProcPath(fd).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
  if (!*readable) return;
  std::lock_guard lock(shared_->mutex);
  shared_->mounts.try_emplace(stat.mount, std::move(readable));
}

ObjectPtr ObjectStore::bind(const Stat& stat, FdRef fd, ObjectPtr parent, std::string name) {
  if (fd) learn_mount(stat, fd->get());
  ObjectPtr object;
  ObjectPtr before;  // these two are destroyed without the mutex
  ObjectPtr old_parent;
  {
    std::lock_guard lock(shared_->mutex);
    std::weak_ptr<Object>& known = shared_->objects[stat.identity()];
    before = known.lock();
    object = before;
    // Without birth times an inode number may have been given anew, unless a descriptor keeps the inode.
    const bool sure = stat.attributes.birth != wire::Time{} || (object && object->cached_);
    if (!object || !sure || object->type() != stat.type() || object->mount_ != stat.mount) {
      object = std::make_shared<Object>(shared_, stat);
      known = object;
    }
    if (parent != object) old_parent = shared_->place(*object, std::move(parent), std::move(name));
  }
  if (fd) keep(object, std::move(fd));
  return object;
}

FdRef ObjectStore::keep(const ObjectPtr& object, FdRef fd) {
  // Closed without the mutex: the last descriptor of a large deleted file takes its time.
  std::vector<FdRef> dropped;
  std::lock_guard lock(shared_->mutex);
  if (object->cached_) {
    shared_->touch(*object);
    return object->cached_;
  }
  object->cached_ = fd;
  shared_->recent.push_front(object.get());
  object->recent_ = shared_->recent.begin();
  while (shared_->recent.size() > shared_->max_cached) dropped.push_back(shared_->drop_oldest());
  return fd;
}

void ObjectStore::opened(const ObjectPtr& object, const FdRef& fd) {
  std::lock_guard lock(shared_->mutex);
  std::erase_if(object->open_files_, [](const auto& file) { return file.expired(); });
  object->open_files_.push_back(fd);
}

void ObjectStore::renamed(const ObjectPtr& parent, const std::string& name, const ObjectPtr& new_parent,
                          const std::string& new_name, bool exchanged) {
  ObjectPtr old_parent;
  ObjectPtr other_old_parent;
  std::lock_guard lock(shared_->mutex);
  const auto find = [](Object& in, const std::string& what) {
    const auto at = in.children_.find(what);
    return at == in.children_.end() ? nullptr : at->second;
  };
  Object* moved = find(*parent, name);
  Object* other = exchanged ? find(*new_parent, new_name) : nullptr;
  // The caller holds both parents, so that no parent's last reference goes here, under the mutex.
  if (moved != nullptr) old_parent = shared_->place(*moved, new_parent, new_name);
  if (other != nullptr) other_old_parent = shared_->place(*other, parent, name);
}

/// How an object may be reached, read under the mutex and tried without it.
struct ObjectStore::Ways {
  FdRef cached;
  std::vector<FdRef> open_files;
  FdRef mount;
  std::string file_handle;
  int file_handle_type = 0;
  ObjectPtr parent;
  std::string name;
};

ObjectStore::Ways ObjectStore::ways_to(const ObjectPtr& object) const {
  Ways ways;
  std::lock_guard lock(shared_->mutex);
  ways.cached = object->cached_;
  if (ways.cached) {
    shared_->touch(*object);
    return ways;
  }
  for (const auto& file : object->open_files_)
    if (FdRef fd = file.lock()) ways.open_files.push_back(std::move(fd));
  if (!object->file_handle_.empty()) {
    const auto mount = shared_->mounts.find(object->mount_);
    if (mount != shared_->mounts.end()) ways.mount = mount->second;
    ways.file_handle = object->file_handle_;
    ways.file_handle_type = object->file_handle_type_;
  }
  ways.parent = object->parent_;
  ways.name = object->name_;
  return ways;
}

namespace {

/// The descriptor if it is the object, ESTALE if it is another, the error if it is none.
Result<FdRef> checked(const Object& object, int fd) {
  if (fd < 0) return means_stale(errno) ? stale() : os_error(errno, "find the object again");
  FdRef opened = shared_fd(fd);
  Result<Stat> stat = stat_descriptor(fd);
  if (!stat) return std::move(stat).error();
  if (stat->identity() != object.identity() || stat->type() != object.type()) return stale();
  return opened;
}

bool is_stale(const Result<FdRef>& result) { return !result && result.error().os_errno == ESTALE; }

}  // namespace

Result<FdRef> ObjectStore::open_directly(Object& object, const Ways& ways) const {
  if (ways.cached) return ways.cached;
  for (const FdRef& file : ways.open_files) {
    Result<FdRef> found = checked(object, ::open(ProcPath(file->get()).c_str(), O_PATH | O_CLOEXEC));
    if (!is_stale(found)) return found;
  }
  if (!ways.mount) return stale();
  HandleBuffer buffer{};
  buffer.header.handle_bytes = static_cast<unsigned>(ways.file_handle.size());
  buffer.header.handle_type = ways.file_handle_type;
  std::memcpy(buffer.header.f_handle, ways.file_handle.data(), ways.file_handle.size());
  return checked(object, ::open_by_handle_at(ways.mount->get(), &buffer.header, O_PATH | O_CLOEXEC | O_NOFOLLOW));
}

Result<FdRef> ObjectStore::open_at_place(Object& object, const Ways& ways, int parent) const {
  if (parent >= 0) return checked(object, ::openat(parent, ways.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  Result<base::UniqueFd> resolved = root_.resolve(ways.name);
  if (!resolved) return means_stale(resolved.error().os_errno) ? stale() : std::move(resolved).error();
  return checked(object, resolved->release());
}

Result<FdRef> ObjectStore::descriptor(const ObjectPtr& object) {
  Result<FdRef> found = any_descriptor(object);
  if (found && S_ISDIR(object->type()) && !root_.holds((*found)->get()))
    return os_error(ESTALE, "find the object again", "it was moved out of the served directory");
  return found;
}

Result<FdRef> ObjectStore::any_descriptor(const ObjectPtr& object) {
  // The common case first: no credentials to change, nothing to open.
  Ways ways = ways_to(object);
  if (ways.cached) return ways.cached;

  const ActAs agent(root_.identities(), std::nullopt);
  // Upwards to the first that can be opened without its parent, then down again. No recursion: paths may have any
  // depth.
  std::vector<std::pair<ObjectPtr, Ways>> chain;
  ObjectPtr at = object;
  Result<FdRef> found = stale();
  for (;;) {
    found = open_directly(*at, ways);
    if (!is_stale(found)) break;
    ObjectPtr parent = ways.parent;
    chain.emplace_back(std::move(at), std::move(ways));
    if (!parent) break;
    at = std::move(parent);
    ways = ways_to(at);
  }
  if (found && at) found = keep(at, std::move(found).value());
  while (!chain.empty()) {
    auto& [below, place] = chain.back();
    if (!found && place.parent) return found;
    found = open_at_place(*below, place, place.parent ? (*found)->get() : -1);
    if (!found) return found;
    found = keep(below, std::move(found).value());
    chain.pop_back();
  }
  return found;
}

}  // namespace sandbar::agent
