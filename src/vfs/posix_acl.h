// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/function.h"
#include "sandbar/result.h"

namespace sandbar::vfs {

/// True for the extended attributes that hold POSIX ACLs (acl(5)).
bool is_posix_acl(base::BytesView xattr_name);

/// An ACL as an extended attribute has it (linux/posix_acl_xattr.h, version 2), with the ids of its named users and
/// groups replaced: `map(is_group, id)`. Errc::invalid for a value that is no ACL, os EINVAL where `map` has none. An
/// empty value, which removes an ACL, stays empty.
Result<base::Bytes> map_posix_acl(base::Bytes value,
                                  base::Function<std::optional<std::uint32_t>(bool is_group, std::uint32_t id)> map);

}  // namespace sandbar::vfs
