// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "wire/messages.h"

/// What a request of the file service names: the order in which requests may run follows from it.
namespace sandbar::agent {

struct RequestNames {
  std::array<wire::ObjectId, 3> objects;  ///< used, in the order of FileTargets
  std::array<wire::HandleId, 2> handles;  ///< used
  std::size_t object_count = 0;
  std::size_t handle_count = 0;
  bool either = false;  ///< one of objects[0] and handles[0] is enough, the other is 0 then
  wire::ObjectId binds_object;
  wire::HandleId binds_handle;
  bool binds_one_object = false;  ///< `binds_object` must be an id that is not in use
  bool binds_one_handle = false;
  bool closes = false;  ///< handles[0] ends with it
};

RequestNames names_of(const wire::RequestBody& body);
/// True for requests that change files: those count as changes.
bool changes_files(const wire::RequestBody& body);

}  // namespace sandbar::agent
