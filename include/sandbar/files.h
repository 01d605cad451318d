// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbar/result.h"

namespace sandbar {

namespace client {
class ClientCore;
}

enum class FileType { regular, directory, symlink, fifo, socket, character_device, block_device, unknown };

/// Since 1970-01-01 00:00 UTC. Not std::chrono: its nanoseconds end in 2262, file systems' do not.
struct FileTime {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;  ///< 0..999,999,999
};

struct FileInfo {
  FileType type = FileType::unknown;
  std::uint32_t permissions = 0;  ///< 0..07777
  std::uint64_t size = 0;         ///< bytes
  std::uint32_t links = 0;
  std::uint32_t uid = 0;  ///< in the sandbox's numbers
  std::uint32_t gid = 0;
  std::uint64_t inode = 0;
  FileTime accessed, modified, changed;
};

struct FileEntry {
  std::string name;  ///< bytes, not always UTF-8; escape it before a terminal sees it
  FileType type = FileType::unknown;
  std::optional<FileInfo> info;  ///< absent for an entry that vanished meanwhile
};

struct ReadOptions {
  std::uint64_t offset = 0;  ///< bytes; at or behind the end: nothing is read
  /// At most so many bytes; what is there, if that is less.
  std::uint64_t size = UINT64_MAX;
};

struct WriteOptions {
  /// Permission bits of the file, exactly (no umask). None: those of the file that is replaced, 0644 for a new one.
  std::optional<std::uint32_t> permissions = {};
  /// Return only when the bytes and the name are on the sandbox's disk.
  bool sync = false;
  /// Errc::os with EEXIST where something has the name already, instead of replacing it.
  bool exclusive = false;
};

/// The files of a sandbox, by path. Paths are bytes, begin at the agent's root (the leading '/' may be left out; a
/// Target's directory is not added) and have at most 4,095 bytes; nothing outside that root can be reached. All is
/// done with the agent's own identity.
///
/// A handle on its Client's connection: cheap to copy, thread-safe, usable after the Client is gone (it keeps the
/// connection). Every call blocks until it is done, at most ClientOptions::request_timeout for one exchange. Errors:
/// Errc::os with the sandbox's errno (ENOENT, EACCES, ENOTDIR ...), Errc::invalid for a path that can never be right,
/// Errc::timeout, Errc::disconnected, Errc::limit, and Errc::invalid when called on the library's own thread (in an
/// output sink).
class Files {
 public:
  /// Of what `path` leads to; symlinks are followed, within the root.
  [[nodiscard]] Result<FileInfo> stat(const std::string& path) const;
  /// Of `path` itself, also where that is a symlink.
  [[nodiscard]] Result<FileInfo> lstat(const std::string& path) const;
  /// All entries but "." and "..", in the directory's own order. What changes meanwhile may or may not be there.
  [[nodiscard]] Result<std::vector<FileEntry>> list(const std::string& path) const;
  /// Into memory: give a size where a file may be large.
  [[nodiscard]] Result<std::string> read(const std::string& path, ReadOptions options = {}) const;

  /// Makes `path` a regular file with these bytes. The file is written beside it under a name of its own
  /// (".sandbar-tmp-..."), then renamed: others see the old file or the new one, never a part. A symlink at `path` is
  /// itself replaced. Nothing stays behind after an error, unless the connection was lost.
  Result<void> write(const std::string& path, std::string_view bytes, const WriteOptions& options = {}) const;
  /// `permissions` less the agent's umask. With `parents`: also those above it, and an existing one is no error.
  Result<void> make_directory(const std::string& path, std::uint32_t permissions = 0777, bool parents = false) const;
  /// A file, a symlink or an empty directory.
  Result<void> remove(const std::string& path) const;
  /// As rename(2): an existing file at `to` is replaced.
  Result<void> rename(const std::string& from, const std::string& to) const;

 private:
  friend class Client;
  explicit Files(std::shared_ptr<client::ClientCore> core) : core_(std::move(core)) {}
  std::shared_ptr<client::ClientCore> core_;
};

}  // namespace sandbar
