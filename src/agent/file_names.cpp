// SPDX-License-Identifier: Apache-2.0
#include "agent/file_names.h"

#include <fcntl.h>

#include <type_traits>

namespace sandbar::agent {
namespace {

template <class R>
concept HasParent = requires(const R& r) {
  r.parent;
};
template <class R>
concept HasNewParent = requires(const R& r) {
  r.new_parent;
};
template <class R>
concept HasObject = requires(const R& r) {
  r.object;
};
template <class R>
concept HasHandle = requires(const R& r) {
  r.handle;
};

/// Requests whose `object` is a new id.
template <class R>
constexpr bool kBindsObject =
    std::is_same_v<R, wire::Attach> || std::is_same_v<R, wire::Lookup> || std::is_same_v<R, wire::Restore> ||
    std::is_same_v<R, wire::MakeDirectory> || std::is_same_v<R, wire::MakeNode> ||
    std::is_same_v<R, wire::MakeSymlink> || std::is_same_v<R, wire::Create>;
template <class R>
constexpr bool kBindsHandle = std::is_same_v<R, wire::Open> || std::is_same_v<R, wire::Create>;

template <class R>
RequestNames names_of_one(const R& request) {
  RequestNames names;
  constexpr bool kNeedsParent = !std::is_same_v<R, wire::Restore>;
  if constexpr (HasParent<R>)
    if (kNeedsParent || request.parent) names.objects[names.object_count++] = request.parent;
  if constexpr (HasObject<R>) {
    if constexpr (kBindsObject<R>)
      names.binds_object = request.object, names.binds_one_object = true;
    else
      names.objects[names.object_count++] = request.object;
  }
  if constexpr (HasNewParent<R>) names.objects[names.object_count++] = request.new_parent;
  if constexpr (HasHandle<R>) {
    if constexpr (kBindsHandle<R>)
      names.binds_handle = request.handle, names.binds_one_handle = true;
    else
      names.handles[names.handle_count++] = request.handle;
  }
  if constexpr (std::is_same_v<R, wire::ReadLink>) {
    if (request.directory) {
      names.objects[names.object_count++] = request.directory;
      names.objects[names.object_count++] = request.top;
    }
  }
  if constexpr (std::is_same_v<R, wire::CopyRange>) {
    names.handles = {request.from, request.to};
    names.handle_count = 2;
  }
  names.either = std::is_same_v<R, wire::GetAttributes> || std::is_same_v<R, wire::SetAttributes>;
  names.closes = std::is_same_v<R, wire::Close>;
  return names;
}

template <class R>
bool changes_one(const R& request) {
  if constexpr (std::is_same_v<R, wire::Open>) return (request.flags & O_TRUNC) != 0;
  return std::is_same_v<R, wire::SetAttributes> || std::is_same_v<R, wire::MakeDirectory> ||
         std::is_same_v<R, wire::MakeNode> || std::is_same_v<R, wire::MakeSymlink> ||
         std::is_same_v<R, wire::MakeLink> || std::is_same_v<R, wire::Unlink> ||
         std::is_same_v<R, wire::RemoveDirectory> || std::is_same_v<R, wire::Rename> ||
         std::is_same_v<R, wire::Create> || std::is_same_v<R, wire::Write> || std::is_same_v<R, wire::SetXattr> ||
         std::is_same_v<R, wire::RemoveXattr> || std::is_same_v<R, wire::Allocate> ||
         std::is_same_v<R, wire::CopyRange>;
}

}  // namespace

RequestNames names_of(const wire::RequestBody& body) {
  return std::visit([](const auto& request) { return names_of_one(request); }, body);
}

bool changes_files(const wire::RequestBody& body) {
  return std::visit([](const auto& request) { return changes_one(request); }, body);
}

}  // namespace sandbar::agent
