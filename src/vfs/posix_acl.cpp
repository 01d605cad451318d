// SPDX-License-Identifier: Apache-2.0
#include "vfs/posix_acl.h"

#include <cerrno>
#include <utility>

namespace sandbar::vfs {
namespace {

// linux/posix_acl_xattr.h: u32 version, then entries of u16 tag, u16 permissions, u32 id; little-endian.
constexpr std::size_t kHeader = 4;
constexpr std::size_t kEntry = 8;
constexpr std::size_t kIdInEntry = 4;
constexpr std::uint32_t kVersion = 2;
// linux/posix_acl.h: the tags whose id means something.
constexpr std::uint32_t kUser = 0x02;
constexpr std::uint32_t kGroup = 0x08;

std::uint32_t get(base::BytesView bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

void put(base::Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xffU);
}

}  // namespace

bool is_posix_acl(base::BytesView name) {
  return name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

Result<base::Bytes> map_posix_acl(base::Bytes value,
                                  base::Function<std::optional<std::uint32_t>(bool is_group, std::uint32_t id)> map) {
  if (value.empty()) return value;
  if (value.size() < kHeader || (value.size() - kHeader) % kEntry != 0 || get(value, 0, 4) != kVersion)
    return make_error(Errc::invalid, "map an ACL", "it is not one of version 2");
  for (std::size_t at = kHeader; at < value.size(); at += kEntry) {
    const std::uint32_t tag = get(value, at, 2);
    if (tag != kUser && tag != kGroup) continue;
    const auto id = map(tag == kGroup, get(value, at + kIdInEntry, 4));
    if (!id) return os_error(EINVAL, "map an ACL", "a user or group has no number on the other side");
    put(value, at + kIdInEntry, *id);
  }
  return value;
}

}  // namespace sandbar::vfs
