// SPDX-License-Identifier: Apache-2.0
#include "vfs/id_map.h"

#include "wire/limits.h"

namespace sandbar::vfs {

IdMap::IdMap(const Options& options, const wire::Hello& agent) {
  if (options.id_map == IdMapMode::none) return;
  uid_ = {options.uid, agent.uid};
  gid_ = {options.gid, agent.gid};
}

std::uint32_t IdMap::shown(Pair pair, std::uint32_t id) {
  if (id == pair.remote) return pair.local;
  return id == pair.local ? kNobody : id;
}

std::optional<std::uint32_t> IdMap::remote(Pair pair, std::uint32_t id) {
  if (id == pair.local) return pair.remote;
  if (id == pair.remote) return std::nullopt;
  return id;
}

wire::Caller IdMap::remote_caller(const Caller& caller) const {
  wire::Caller mapped;
  mapped.uid = remote_uid(caller.uid).value_or(kNobody);
  mapped.gid = remote_gid(caller.gid).value_or(kNobody);
  mapped.umask = caller.umask;
  for (const std::uint32_t group : caller.groups) {
    // Fewer groups can only refuse more.
    if (mapped.groups.size() == wire::kMaxGroups) break;
    if (const auto id = remote_gid(group)) mapped.groups.push_back(*id);
  }
  return mapped;
}

}  // namespace sandbar::vfs
