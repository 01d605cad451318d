// SPDX-License-Identifier: Apache-2.0
#include "wire/request_names.h"

#include <type_traits>

namespace sandbar::wire {
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
constexpr bool kBindsObject = std::is_same_v<R, Attach> || std::is_same_v<R, Lookup> || std::is_same_v<R, Restore> ||
                              std::is_same_v<R, MakeDirectory> || std::is_same_v<R, MakeNode> ||
                              std::is_same_v<R, MakeSymlink> || std::is_same_v<R, Create>;
template <class R>
constexpr bool kBindsHandle = std::is_same_v<R, Open> || std::is_same_v<R, Create>;

template <class R>
RequestNames names_of_one(const R& request) {
  RequestNames names;
  constexpr bool kNeedsParent = !std::is_same_v<R, Restore>;
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
  if constexpr (std::is_same_v<R, ReadLink>) {
    if (request.directory) {
      names.objects[names.object_count++] = request.directory;
      names.objects[names.object_count++] = request.top;
    }
  }
  if constexpr (std::is_same_v<R, CopyRange>) {
    names.handles = {request.from, request.to};
    names.handle_count = 2;
  }
  names.either = std::is_same_v<R, GetAttributes> || std::is_same_v<R, SetAttributes>;
  names.closes = std::is_same_v<R, Close>;
  return names;
}

template <class R>
bool changes_one(const R& request) {
  if constexpr (std::is_same_v<R, Open>) return (request.flags & kOpenTruncates) != 0;
  return std::is_same_v<R, SetAttributes> || std::is_same_v<R, MakeDirectory> || std::is_same_v<R, MakeNode> ||
         std::is_same_v<R, MakeSymlink> || std::is_same_v<R, MakeLink> || std::is_same_v<R, Unlink> ||
         std::is_same_v<R, RemoveDirectory> || std::is_same_v<R, Rename> || std::is_same_v<R, Create> ||
         std::is_same_v<R, Write> || std::is_same_v<R, SetXattr> || std::is_same_v<R, RemoveXattr> ||
         std::is_same_v<R, Allocate> || std::is_same_v<R, CopyRange>;
}

}  // namespace

RequestNames names_of(const RequestBody& body) {
  return std::visit([](const auto& request) { return names_of_one(request); }, body);
}

bool is_mutation(const RequestBody& body) {
  return std::visit([](const auto& request) { return changes_one(request); }, body);
}

}  // namespace sandbar::wire
