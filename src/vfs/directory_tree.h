// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "vfs/types.h"

namespace sandbar::vfs {

/// Where each known directory was seen last: the picture that the kernel has of the tree, since it, too, learns a
/// directory's place from lookups and from its own renames. On the loop's thread.
class DirectoryTree {
 public:
  void seen(NodeId directory, NodeId parent, base::BytesView name);
  /// A rename through the mount, which the kernel follows without a lookup.
  void renamed(NodeId parent, base::BytesView name, NodeId new_parent, base::BytesView new_name, bool exchanged);
  void forget(NodeId directory);
  /// Levels below the root, which is 0. None when the way up is not known, or is none: a sandbox can say anything.
  [[nodiscard]] std::optional<std::size_t> depth(NodeId directory) const;

 private:
  using Place = std::pair<NodeId, base::Bytes>;
  [[nodiscard]] std::optional<NodeId> at(NodeId parent, base::BytesView name) const;

  std::unordered_map<NodeId, Place> places_;
  std::map<Place, NodeId> by_place_;
};

}  // namespace sandbar::vfs
