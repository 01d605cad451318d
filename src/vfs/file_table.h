// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "vfs/list_page.h"
#include "vfs/types.h"

namespace sandbar::vfs {

/// An open file or directory: the agent's handle and on whose behalf it was opened.
struct OpenFile {
  FileId id;
  NodeId node;  ///< pinned
  wire::HandleId handle;
  wire::Caller opener;  ///< requests through the handle act as this caller, in the sandbox's numbers
  std::uint32_t flags = 0;
  bool directory = false;
  bool released = false;         ///< by the kernel: closed when nothing pins it any more
  std::size_t pins = 0;          ///< operations
  ListPage page;                 ///< directory
  std::uint32_t page_bytes = 0;  ///< directory: what to ask for next
};

/// Open files by number. Pinned and released ones stay until they are erased, so that a Close never overtakes a write.
/// On the loop's thread.
class FileTable {
 public:
  /// The number under which the agent is to know the next open file.
  wire::HandleId next_handle() { return wire::HandleId(++last_handle_); }
  OpenFile& add(NodeId node, wire::HandleId handle, wire::Caller opener, std::uint32_t flags);
  /// Null for one that is unknown or released.
  OpenFile* find(FileId id);
  /// One that is pinned, which may be released already.
  OpenFile& pinned(FileId id);
  /// Some open file of the node, or null: it reaches the object even when that has no name any more.
  OpenFile* any_of(NodeId node);
  void erase(FileId id);
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  std::uint64_t last_id_ = 0;
  std::uint64_t last_handle_ = 0;
  std::unordered_map<FileId, OpenFile> files_;
  std::unordered_map<NodeId, std::vector<FileId>> by_node_;
};

}  // namespace sandbar::vfs
