// SPDX-License-Identifier: Apache-2.0
// What is remembered of answers, for a session after this one.
#include <type_traits>

#include "client/remote_files.h"
#include "wire/dirents.h"

namespace sandbar::client {
namespace {

template <class R>
constexpr bool kFindsEntry =
    std::is_same_v<R, wire::Lookup> || std::is_same_v<R, wire::MakeDirectory> || std::is_same_v<R, wire::MakeNode> ||
    std::is_same_v<R, wire::MakeSymlink> || std::is_same_v<R, wire::Create>;

}  // namespace

void RemoteFiles::note(const wire::Request& request, const Result<AnyAnswer>& answer) {
  // However they end: the client does not name these again.
  if (const auto* release = std::get_if<wire::Release>(&request.body)) {
    for (const wire::ObjectId object : release->objects) bindings_.release(object);
  } else if (const auto* close = std::get_if<wire::Close>(&request.body)) {
    locks_.close(close->handle);
    bindings_.close(close->handle);
  } else if (const auto* lock = std::get_if<wire::Lock>(&request.body)) {
    if (answer || answer.error().code == Errc::os) locks_.answered(*lock, bindings_.file_of(lock->handle), answer.ok());
  } else if (answer) {
    note_success(request.body, *answer);
  }
}

void RemoteFiles::note_success(const wire::RequestBody& request, const AnyAnswer& answer) {
  const auto* reply = std::get_if<wire::AttributesReply>(&answer.reply);
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (kFindsEntry<Body>)
          if (reply != nullptr) bindings_.found(body.parent, body.name, body.object, reply->attributes);
        if constexpr (std::is_same_v<Body, wire::Attach>)
          if (reply != nullptr) bindings_.attached(body.object, body.path, reply->attributes);
        if constexpr (std::is_same_v<Body, wire::Create> || std::is_same_v<Body, wire::Open>)
          bindings_.opened(body.handle, body.object, body.flags);
        if constexpr (std::is_same_v<Body, wire::MakeLink>)
          bindings_.linked(body.object, body.new_parent, body.new_name);
        if constexpr (std::is_same_v<Body, wire::Unlink> || std::is_same_v<Body, wire::RemoveDirectory>)
          bindings_.removed(body.parent, body.name);
        if constexpr (std::is_same_v<Body, wire::Rename>) bindings_.renamed(body);
        if constexpr (std::is_same_v<Body, wire::List>)
          if (body.attributes) note_entries(body, answer.body);
      },
      request);
}

void RemoteFiles::note_entries(const wire::List& request, base::BytesView body) {
  const auto entries = wire::decode_dir_entries(body);
  if (!entries) return;  // whoever asked for it says so
  for (const wire::DirEntry& entry : *entries)
    if (entry.attributes)
      bindings_.listed(request.handle, entry.name, wire::ObjectId(request.first_object.value + entry.object_offset),
                       *entry.attributes);
}

}  // namespace sandbar::client
