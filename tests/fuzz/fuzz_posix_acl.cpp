// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "vfs/posix_acl.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using sandbar::base::Bytes;
  const Bytes acl(sandbar::fuzz::input(data, size));
  // There and back is the same, and only ids change.
  const auto there = sandbar::vfs::map_posix_acl(
      acl, [](bool, std::uint32_t id) { return std::optional<std::uint32_t>(id ^ 0x5a5a5a5aU); });
  if (!there.ok()) return 0;
  SANDBAR_ASSERT(there->size() == acl.size());
  const auto back = sandbar::vfs::map_posix_acl(
      *there, [](bool, std::uint32_t id) { return std::optional<std::uint32_t>(id ^ 0x5a5a5a5aU); });
  SANDBAR_ASSERT(back.ok() && *back == acl);
  const auto none =
      sandbar::vfs::map_posix_acl(acl, [](bool, std::uint32_t) { return std::optional<std::uint32_t>(); });
  SANDBAR_ASSERT(none.ok() == (*there == acl));
  return 0;
}
