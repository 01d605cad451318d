// SPDX-License-Identifier: Apache-2.0
#include "vfs/file_table.h"

#include "base/assert.h"

namespace sandbar::vfs {

OpenFile& FileTable::add(NodeId node, wire::HandleId handle, wire::Caller opener, std::uint32_t flags) {
  const FileId id(++last_id_);
  OpenFile file{.id = id, .node = node, .handle = handle, .opener = std::move(opener), .flags = flags, .page = {}};
  by_node_[node].push_back(id);
  return files_.emplace(id, std::move(file)).first->second;
}

OpenFile* FileTable::find(FileId id) {
  const auto found = files_.find(id);
  return found == files_.end() || found->second.released ? nullptr : &found->second;
}

OpenFile& FileTable::pinned(FileId id) {
  const auto found = files_.find(id);
  SANDBAR_ASSERT(found != files_.end());
  return found->second;
}

OpenFile* FileTable::any_of(NodeId node) {
  const auto found = by_node_.find(node);
  if (found == by_node_.end()) return nullptr;
  for (const FileId id : found->second)
    if (OpenFile* file = find(id)) return file;
  return nullptr;
}

void FileTable::erase(FileId id) {
  const auto found = files_.find(id);
  SANDBAR_ASSERT(found != files_.end());
  const auto list = by_node_.find(found->second.node);
  std::erase(list->second, id);
  if (list->second.empty()) by_node_.erase(list);
  files_.erase(found);
}

}  // namespace sandbar::vfs
