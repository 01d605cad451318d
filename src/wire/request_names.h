// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "wire/messages.h"

/// What a request of the file service names: the order in which requests may run follows from it, and what a new
/// session needs before it. Pure functions; any thread.
namespace sandbar::wire {

/// O_TRUNC of x86-64: the protocol's flags are Linux's there, whatever this side is built for.
constexpr std::uint32_t kOpenTruncates = 01000;

struct RequestNames {
  std::array<ObjectId, 3> objects;  ///< used: parent, object, new parent, ...; 0 where there is none
  std::array<HandleId, 2> handles;  ///< used
  std::size_t object_count = 0;
  std::size_t handle_count = 0;
  bool either = false;  ///< one of objects[0] and handles[0] is enough, the other is 0 then
  ObjectId binds_object;
  HandleId binds_handle;
  bool binds_one_object = false;  ///< `binds_object` must be an id that is not in use
  bool binds_one_handle = false;
  bool closes = false;  ///< handles[0] ends with it
};

RequestNames names_of(const RequestBody& body);
/// True for requests that change files, and so count as changes and are numbered in a journal: also Open with O_TRUNC,
/// not locks or fsync.
bool is_mutation(const RequestBody& body);

}  // namespace sandbar::wire
