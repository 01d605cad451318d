// SPDX-License-Identifier: Apache-2.0
#include "vfs/directory_tree.h"

namespace sandbar::vfs {

void DirectoryTree::seen(NodeId directory, NodeId parent, base::BytesView name) {
  const auto known = places_.find(directory);
  if (known != places_.end() && known->second.first == parent && known->second.second == name) return;
  forget(directory);
  Place place(parent, name);
  const auto [entry, fresh] = by_place_.try_emplace(place, directory);
  // What was there has gone somewhere else; until it is seen again nobody knows where.
  if (!fresh) places_.erase(std::exchange(entry->second, directory));
  places_.emplace(directory, std::move(place));
}

void DirectoryTree::renamed(NodeId parent, base::BytesView name, NodeId new_parent, base::BytesView new_name,
                            bool exchanged) {
  const auto moved = at(parent, name);
  const auto other = at(new_parent, new_name);
  if (moved) forget(*moved);
  if (other) forget(*other);
  if (moved) seen(*moved, new_parent, new_name);
  if (other && exchanged) seen(*other, parent, name);
}

void DirectoryTree::forget(NodeId directory) {
  const auto known = places_.find(directory);
  if (known == places_.end()) return;
  by_place_.erase(known->second);
  places_.erase(known);
}

std::optional<std::size_t> DirectoryTree::depth(NodeId directory) const {
  for (std::size_t depth = 0; depth <= places_.size(); ++depth) {
    if (directory == kRootNode) return depth;
    const auto known = places_.find(directory);
    if (known == places_.end()) return std::nullopt;
    directory = known->second.first;
  }
  return std::nullopt;
}

std::optional<NodeId> DirectoryTree::at(NodeId parent, base::BytesView name) const {
  const auto found = by_place_.find(Place(parent, name));
  if (found == by_place_.end()) return std::nullopt;
  return found->second;
}

}  // namespace sandbar::vfs
