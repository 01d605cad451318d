// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "sandbar/result.h"
#include "wire/messages.h"

namespace sandbar::agent {

/// What tells one file system object from another, also after its inode number was given to a new one (where the file
/// system keeps birth times).
struct ObjectIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  wire::Time birth;
  bool operator==(const ObjectIdentity&) const = default;
};

/// statx(2) of one object.
struct Stat {
  wire::Attributes attributes;
  std::uint64_t mount = 0;  ///< mount id; 0 where the kernel does not tell (before 5.8)

  [[nodiscard]] ObjectIdentity identity() const { return {attributes.device, attributes.inode, attributes.birth}; }
  /// S_IFMT bits.
  [[nodiscard]] std::uint32_t type() const;
};

/// Of a descriptor, O_PATH or not.
Result<Stat> stat_descriptor(int fd);
/// Of the entry `name` of a directory; a symlink itself, not what it names.
Result<Stat> stat_entry(int directory, const std::string& name);

/// Fill in Attributes::has_xattrs. Of symlinks it says false: users cannot give them any.
void find_xattrs(int fd, wire::Attributes& attributes);
void find_entry_xattrs(int directory, const std::string& name, wire::Attributes& attributes);

/// The path by which the kernel reaches what a descriptor of ours refers to, for the calls that take no descriptor.
/// It is a magic link: following it involves no name that anybody could have changed.
class ProcPath {
 public:
  explicit ProcPath(int fd) { std::snprintf(text_, sizeof text_, "/proc/self/fd/%d", fd); }
  [[nodiscard]] const char* c_str() const { return text_; }

 private:
  char text_[32];
};

}  // namespace sandbar::agent
