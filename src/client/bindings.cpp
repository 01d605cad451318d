// SPDX-License-Identifier: Apache-2.0
#include "client/bindings.h"

#include <cerrno>
#include <functional>

#include "wire/limits.h"
#include "wire/request_names.h"

namespace sandbar::client {
namespace {

/// O_CREAT, O_EXCL and O_TRUNC of Linux: done already, or not to be done twice.
constexpr std::uint32_t kOnlyOnce = 0100 | 0200 | wire::kOpenTruncates;
constexpr std::uint32_t kExchange = 2;  // RENAME_EXCHANGE

Error stale(const char* why) { return os_error(ESTALE, "find the object in a new session", why); }

std::size_t mix(std::size_t a, std::size_t b) { return (a ^ b) * 0x9E3779B97F4A7C15U; }

}  // namespace

std::size_t Bindings::HashIdentity::operator()(const Identity& identity) const noexcept {
  const std::size_t inode = mix(identity.inode, identity.inode >> 29U);
  return mix(inode, mix(identity.device, identity.birth.nanoseconds));
}

std::size_t Bindings::HashPlace::operator()(const Place& place) const noexcept {
  return mix(std::hash<const void*>{}(place.parent), std::hash<base::BytesView>{}(place.name));
}

// --- What is known ---------------------------------------------------------------------------------------------

Bindings::Entry* Bindings::file_of(wire::ObjectId object) const {
  const auto it = objects_.find(object);
  return it == objects_.end() ? nullptr : it->second.file;
}

const void* Bindings::file_of(wire::HandleId handle) const {
  const auto it = handles_.find(handle);
  return it == handles_.end() ? nullptr : file_of(it->second.object);
}

/// Null for an id that is bound already (an agent that lies), and beyond the bound.
Bindings::Entry* Bindings::bind(wire::ObjectId id, const wire::Attributes& attributes) {
  if (objects_.size() >= kMaxObjects || objects_.contains(id)) return nullptr;
  Entry& file = *files_.try_emplace({attributes.device, attributes.inode, attributes.birth}).first;
  objects_[id] = {&file, session_, 0, false};
  ++file.second.objects;
  if (!file.second.id) file.second.id = id;
  return &file;
}

Bindings::Entry* Bindings::at(const Entry* parent, base::BytesView name) const {
  const auto it = by_place_.find(Place{parent, name});
  return it == by_place_.end() ? nullptr : *it;
}

void Bindings::take_from_place(Entry& file) {
  Entry* const parent = file.second.parent;
  if (parent != nullptr) {
    by_place_.erase(&file);
    file.second.parent = nullptr;
    --parent->second.children;
  }
  file.second.name.clear();
  drop_if_unused(parent);
}

/// The sandbox may show a directory below itself: a picture with a ring would never be let go, so that place is not
/// taken.
void Bindings::place(Entry& file, Entry* parent, base::BytesView name) {
  if (file.second.parent == parent && file.second.name == name) return;
  if (file.second.parent == nullptr && !file.second.name.empty()) return;  // attached: its path leads there
  if (parent == &file) return;
  if (file.second.children != 0)
    for (const Entry* up = parent; up != nullptr; up = up->second.parent)
      if (up == &file) return;
  if (Entry* other = at(parent, name)) {
    ++parent->second.children;  // not to go with the other one
    take_from_place(*other);
    --parent->second.children;
  }
  ++parent->second.children;
  take_from_place(file);
  file.second.parent = parent;
  file.second.name = name;
  by_place_.insert(&file);
}

void Bindings::drop_if_unused(Entry* file) {
  while (file != nullptr && file->second.objects == 0 && file->second.children == 0) {
    Entry* const parent = file->second.parent;
    if (parent != nullptr) {
      by_place_.erase(file);
      --parent->second.children;
    }
    files_.erase(file->first);
    file = parent;
  }
}

void Bindings::attached(wire::ObjectId object, base::BytesView path, const wire::Attributes& attributes) {
  Entry* const file = bind(object, attributes);
  if (file == nullptr) return;
  take_from_place(*file);
  file->second.name = path.empty() ? "/" : path;
}

void Bindings::found(wire::ObjectId parent, base::BytesView name, wire::ObjectId object,
                     const wire::Attributes& attributes) {
  Entry* const file = bind(object, attributes);
  Entry* const directory = file_of(parent);
  if (file != nullptr && directory != nullptr) place(*file, directory, name);
}

void Bindings::listed(wire::HandleId directory, base::BytesView name, wire::ObjectId object,
                      const wire::Attributes& attributes) {
  const auto it = handles_.find(directory);
  if (it != handles_.end()) found(it->second.object, name, object, attributes);
}

void Bindings::opened(wire::HandleId handle, wire::ObjectId object, std::uint32_t flags) {
  close(handle);  // repeated by its number
  const auto known = objects_.find(object);
  if (known == objects_.end()) return;
  ++known->second.handles;
  handles_[handle] = {object, flags & ~kOnlyOnce, session_};
}

void Bindings::removed(wire::ObjectId parent, base::BytesView name) {
  if (const Entry* directory = file_of(parent))
    if (Entry* file = at(directory, name)) take_from_place(*file);
}

void Bindings::renamed(const wire::Rename& request) {
  Entry* const from = file_of(request.parent);
  Entry* const to = file_of(request.new_parent);
  if (from == nullptr || to == nullptr) return;
  Entry* const moved = at(from, request.name);
  Entry* const other = at(to, request.new_name);
  if (moved == other) return;  // links of one file: rename(2) does nothing
  const bool exchanged = (request.flags & kExchange) != 0;
  if (other != nullptr) take_from_place(*other);
  if (moved != nullptr) place(*moved, to, request.new_name);
  if (other != nullptr && exchanged) place(*other, from, request.name);
}

void Bindings::linked(wire::ObjectId object, wire::ObjectId parent, base::BytesView name) {
  Entry* const file = file_of(object);
  Entry* const directory = file_of(parent);
  if (file != nullptr && directory != nullptr) place(*file, directory, name);
}

void Bindings::release(wire::ObjectId id) {
  const auto it = objects_.find(id);
  if (it == objects_.end()) return;
  Entry* const file = it->second.file;
  if (file->second.id == id) file->second.id = {};
  it->second.released = true;
  if (it->second.handles != 0) return;
  objects_.erase(it);
  --file->second.objects;
  drop_if_unused(file);
}

void Bindings::close(wire::HandleId handle) {
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return;
  const wire::ObjectId id = it->second.object;
  handles_.erase(it);
  Object& object = objects_.at(id);
  if (--object.handles == 0 && object.released) release(id);
}

// --- A new session ---------------------------------------------------------------------------------------------

bool Bindings::is_bound(wire::ObjectId object) const {
  const auto it = objects_.find(object);
  return it == objects_.end() || it->second.bound_in == session_;
}

bool Bindings::is_bound(wire::HandleId handle) const {
  const auto it = handles_.find(handle);
  return it == handles_.end() || it->second.bound_in == session_;
}

void Bindings::unbound(wire::ObjectId object) {
  if (const auto it = objects_.find(object); it != objects_.end()) it->second.bound_in = 0;
}

void Bindings::unbound(wire::HandleId handle) {
  if (const auto it = handles_.find(handle); it != handles_.end()) it->second.bound_in = 0;
}

Result<base::Bytes> Bindings::path_of(const Entry& file) {
  std::vector<base::BytesView> names;
  std::size_t size = 0;
  const Entry* at = &file;
  for (; at->second.parent != nullptr; at = at->second.parent) {
    names.push_back(at->second.name);
    size += at->second.name.size() + 1;
    if (size > wire::kMaxPath) return stale("its path is too long");
  }
  base::Bytes path = at->second.name;
  if (path.empty()) return stale("it, or a directory above it, was removed or its place is not known");
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (path.back() != '/') path += '/';
    path += *name;
  }
  if (path.size() > wire::kMaxPath) return stale("its path is too long");
  return path;
}

Result<void> Bindings::restore_one(wire::ObjectId id, Object& known, std::vector<wire::RequestBody>& first) {
  const auto& [identity, file] = *known.file;
  wire::Restore request{id, {}, file.name, identity.device, identity.inode, identity.birth};
  if (file.parent != nullptr && file.parent->second.id) {
    request.parent = file.parent->second.id;
  } else {
    Result<base::Bytes> path = path_of(*known.file);
    if (!path) return std::move(path).error();
    request.path = std::move(path).value();
  }
  known.bound_in = session_;
  first.emplace_back(std::move(request));
  return {};
}

Result<void> Bindings::restore(wire::ObjectId id, std::vector<wire::RequestBody>& first) {
  const auto wanted = objects_.find(id);
  if (wanted == objects_.end() || wanted->second.bound_in == session_) return {};
  // Those above it that can be named, from the lowest that is not bound up to the highest.
  std::vector<wire::ObjectId> above;
  for (const Entry* up = wanted->second.file->second.parent; up != nullptr; up = up->second.parent) {
    if (!up->second.id || is_bound(up->second.id)) break;
    above.push_back(up->second.id);
  }
  for (auto it = above.rbegin(); it != above.rend(); ++it)
    if (Result<void> done = restore_one(*it, objects_.at(*it), first); !done) return done;
  return restore_one(id, wanted->second, first);
}

Result<void> Bindings::restore(wire::HandleId id, std::vector<wire::RequestBody>& first) {
  const auto it = handles_.find(id);
  if (it == handles_.end() || it->second.bound_in == session_) return {};
  Handle& handle = it->second;
  Object& object = objects_.at(handle.object);
  if (Result<void> done = restore(handle.object, first); !done) return done;
  // By the agent itself: the right to the file was asked for when it was first opened, and a file that is open stays
  // so when its mode changes.
  first.emplace_back(wire::Open{handle.object, id, handle.flags});
  handle.bound_in = session_;
  if (object.released) {
    first.emplace_back(wire::Release{{handle.object}});
    object.bound_in = 0;
  }
  return {};
}

}  // namespace sandbar::client
