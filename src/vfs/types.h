// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/loop.h"
#include "base/strong_id.h"
#include "client/remote_fs.h"

/// The mounted file system without FUSE types. Numbers (errno in Error, open flags, modes, whence) are Linux's.
namespace sandbar::vfs {

struct NodeTag;
struct FileTag;
struct OperationTag;

/// An inode as the kernel knows it: never reused while mounted. 1 is the root.
using NodeId = base::StrongId<NodeTag>;
/// An open file or directory as the kernel knows it ("fh").
using FileId = base::StrongId<FileTag>;
/// One operation under way, for interrupt().
using OperationId = base::StrongId<OperationTag>;

constexpr NodeId kRootNode{1};

using Attributes = wire::Attributes;
using Time = wire::Time;

/// Who asks, in this machine's numbers.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;
  std::uint32_t umask = 0;
};

/// Attributes as this machine's programs see them (owners mapped, st_ino as first shown) and how long the kernel may
/// keep them without asking.
struct Stat {
  Attributes attributes;
  base::Duration valid{0};
};

/// A name that was found or made. Whoever gets one owes the file system a forget() of one lookup.
struct Entry {
  NodeId node;
  std::uint64_t generation = 0;
  Attributes attributes;
  base::Duration name_valid{0};
  base::Duration attributes_valid{0};
};

struct Opened {
  FileId file;
  bool keep_cache = false;  ///< pages that the kernel has of this inode are still true
  bool direct = false;      ///< the kernel must not cache this file's pages
};

struct Created {
  Entry entry;
  Opened opened;
};

struct Listed {
  base::Bytes name;
  std::uint64_t cookie = 0;  ///< offset of what comes behind it; fits off_t
  std::uint64_t inode = 0;
  std::uint32_t type = 0;      ///< S_IFMT bits
  std::optional<Entry> entry;  ///< with attributes; not for "." and ".."
};

/// What setattr changes; absent fields stay.
struct Changes {
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint64_t> size;
  std::optional<Time> accessed;
  std::optional<Time> modified;
  bool accessed_now = false;
  bool modified_now = false;
};

using StatFs = wire::StatFs::Reply;
using LockKind = wire::LockKind;
using LockType = wire::LockType;
/// What is in the way of a lock. `pid` is one of this machine: 0 where the holder is in the sandbox, or came by another
/// mount.
using LockHolder = wire::TestLock::Reply;

struct LockRequest {
  std::uint64_t owner = 0;  ///< the kernel's
  LockKind kind = LockKind::posix;
  LockType type = LockType::read;
  bool wait = false;
  std::uint64_t start = 0;
  std::uint64_t length = 0;  ///< 0: to the end
  std::uint32_t pid = 0;     ///< the process that asks for it
};

}  // namespace sandbar::vfs
