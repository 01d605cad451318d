// SPDX-License-Identifier: Apache-2.0
#include "vfs/inode_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>

#include "base/assert.h"

namespace sandbar::vfs {

Identity::Identity(const Attributes& of, NodeId parent)
    : device(of.device), inode(of.inode), birth(of.birth), link_in(S_ISLNK(of.mode) ? parent : NodeId()) {}

std::size_t IdentityHash::operator()(const Identity& identity) const noexcept {
  const auto mix = [](std::uint64_t seed, std::uint64_t value) {
    return (seed ^ value) * 0x9e3779b97f4a7c15U + (seed >> 31);
  };
  std::uint64_t hash = mix(identity.inode, identity.device);
  hash = mix(hash, static_cast<std::uint64_t>(identity.birth.seconds));
  hash = mix(hash, identity.link_in.value);
  return std::hash<std::uint64_t>{}(mix(hash, identity.birth.nanoseconds));
}

std::uint32_t Node::type() const { return attributes.mode & S_IFMT; }

InodeTable::InodeTable(RemoteObjects& objects, wire::ObjectId root, const Attributes& attributes) : objects_(objects) {
  // The kernel never looks the root up and never forgets it.
  insert(attributes, root, {}).pins = 1;
}

Node* InodeTable::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

Node* InodeTable::known(const Attributes& attributes, NodeId parent) {
  const auto found = by_identity_.find(Identity(attributes, parent));
  if (found == by_identity_.end()) return nullptr;
  Node& node = nodes_.at(found->second);
  return node.type() == (attributes.mode & S_IFMT) ? &node : nullptr;
}

Node& InodeTable::adopt(const Attributes& attributes, wire::ObjectId object, NodeId parent, base::BytesView name) {
  Node* node = known(attributes, parent);
  if (node != nullptr) {
    node->attributes = attributes;
    objects_.release(object);
  } else {
    node = &replace(attributes, object, parent);
  }
  if (S_ISDIR(attributes.mode) && node->id != kRootNode) directories_.seen(node->id, parent, name);
  return *node;
}

Node& InodeTable::replace(const Attributes& attributes, wire::ObjectId object, NodeId parent) {
  // Without a birth time a reused inode number shows only by its type, or by the agent's ESTALE.
  if (const auto stale = by_identity_.find(Identity(attributes, parent)); stale != by_identity_.end())
    drop_identity(nodes_.at(stale->second));
  return insert(attributes, object, parent);
}

Node& InodeTable::insert(const Attributes& attributes, wire::ObjectId object, NodeId parent) {
  const NodeId id(++last_id_);
  Node node{.id = id,
            .object = object,
            .identity = Identity(attributes, parent),
            .shown_inode = shown_inode(attributes.device, attributes.inode),
            .attributes = attributes,
            .listed = true};
  by_identity_.emplace(node.identity, id);
  return nodes_.emplace(id, std::move(node)).first->second;
}

bool InodeTable::update(Node& node, const Attributes& attributes) {
  if ((attributes.mode & S_IFMT) != node.type()) {
    drop_identity(node);
    return false;
  }
  node.attributes = attributes;
  const Identity now(attributes, node.identity.link_in);
  if (now == node.identity) return true;
  // overlayfs gives a file that it copies up another birth time, and another inode number where the layers lie on
  // several file systems. It is the same object still, so that lookups must go on to find this node.
  const bool was_listed = node.listed;
  drop_identity(node);
  node.identity = now;
  if (was_listed) node.listed = by_identity_.emplace(now, node.id).second;
  return true;
}

void InodeTable::drop_identity(Node& node) {
  if (!node.listed) return;
  node.listed = false;
  by_identity_.erase(node.identity);
}

void InodeTable::forget(NodeId id, std::uint64_t count) {
  Node* node = find(id);
  if (node == nullptr) return;
  node->lookups -= std::min(node->lookups, count);
  erase_if_idle(*node);
}

void InodeTable::unpin(NodeId id) {
  Node* node = find(id);
  SANDBAR_ASSERT(node != nullptr && node->pins > 0);
  --node->pins;
  erase_if_idle(*node);
}

void InodeTable::erase_if_idle(Node& node) {
  if (node.lookups != 0 || node.pins != 0) return;
  drop_identity(node);
  objects_.release(node.object);
  directories_.forget(node.id);
  nodes_.erase(node.id);
}

std::uint64_t InodeTable::shown_inode(std::uint64_t device, std::uint64_t inode) {
  auto found = devices_.find(device);
  // All beyond the last that fits share one index: the agent must not fill our memory with devices.
  if (found == devices_.end() && devices_.size() > kLastDevice) return inode ^ (kLastDevice << 48);
  if (found == devices_.end()) found = devices_.emplace(device, devices_.size()).first;
  return inode ^ (found->second << 48);
}

}  // namespace sandbar::vfs
