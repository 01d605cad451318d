// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "vfs/directory_tree.h"
#include "vfs/remote_objects.h"
#include "vfs/types.h"

namespace sandbar::vfs {

/// What tells one object of the sandbox from every other, over renames and for as long as it lives. An inode number is
/// reused after an unlink; the birth time then differs (where the file system has one).
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  Time birth;
  /// Of a symlink, the directory that it is seen in: how it is shown depends on where it lies, so that each directory
  /// in which it has a hard link shows a node of its own (with the same st_ino).
  NodeId link_in;

  Identity(const Attributes& of, NodeId parent);
  bool operator==(const Identity&) const = default;
};

struct IdentityHash {
  std::size_t operator()(const Identity& identity) const noexcept;
};

/// An inode that the kernel, an operation or an open file knows.
struct Node {
  NodeId id;
  wire::ObjectId object;
  Identity identity;
  std::uint64_t shown_inode = 0;  ///< st_ino: what was first shown stays
  Attributes attributes;          ///< as last heard, in the sandbox's numbers
  bool xattrs_set = false;        ///< by us, so that attributes heard before do not deny it
  std::uint64_t lookups = 0;      ///< the kernel's; it owes as many forgets
  std::size_t pins = 0;           ///< operations and open files
  bool listed = false;            ///< a lookup of this identity finds it

  [[nodiscard]] std::uint32_t type() const;
};

/// Nodes by number and by identity. A node lives while the kernel counts lookups of it or something pins it; then its
/// remote object is released. References to nodes are good until the node goes. On the loop's thread.
class InodeTable {
 public:
  InodeTable(RemoteObjects& objects, wire::ObjectId root, const Attributes& attributes);

  /// Null for one that is not known (any more).
  Node* find(NodeId id);
  /// The node of what `object`, found as `name` in `parent`, was just bound to: the known one (then `object` is
  /// released) or a new one. It has neither lookup nor pin yet: the caller gives it one before anything else.
  Node& adopt(const Attributes& attributes, wire::ObjectId object, NodeId parent, base::BytesView name);
  /// The node of this identity in `parent`, or null.
  Node* known(const Attributes& attributes, NodeId parent);
  /// Attributes of a reply about `node`. False (and the node is not listed any more) when they are of another type of
  /// file: whatever answers there is not what the kernel knows.
  bool update(Node& node, const Attributes& attributes);
  /// The agent says that the object is gone: a lookup that finds its inode number again finds something else.
  void drop_identity(Node& node);

  void add_lookup(Node& node) { ++node.lookups; }
  void forget(NodeId id, std::uint64_t count);
  void pin(Node& node) { ++node.pins; }
  void unpin(NodeId id);

  /// The number to show for an inode: the sandbox's own, but on devices other than the root's (mounts below it) told
  /// apart by high bits, because tar and rsync take equal numbers for hard links.
  std::uint64_t shown_inode(std::uint64_t device, std::uint64_t inode);
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Where the directories lie.
  DirectoryTree& directories() { return directories_; }
  [[nodiscard]] const DirectoryTree& directories() const { return directories_; }

  /// The highest index of a device in st_ino's upper 16 bits.
  static constexpr std::uint64_t kLastDevice = 0xffff;

 private:
  Node& replace(const Attributes& attributes, wire::ObjectId object, NodeId parent);
  Node& insert(const Attributes& attributes, wire::ObjectId object, NodeId parent);
  void erase_if_idle(Node& node);

  RemoteObjects& objects_;
  std::uint64_t last_id_ = 0;
  std::unordered_map<NodeId, Node> nodes_;
  DirectoryTree directories_;
  std::unordered_map<Identity, NodeId, IdentityHash> by_identity_;
  std::unordered_map<std::uint64_t, std::uint64_t> devices_;  // in order of appearance; the root's is 0
};

}  // namespace sandbar::vfs
