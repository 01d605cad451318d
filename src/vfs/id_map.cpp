// SPDX-License-Identifier: Apache-2.0
#include "vfs/id_map.h"

#include <algorithm>
#include <utility>

#include "wire/limits.h"

namespace sandbar::vfs {
namespace {

/// The range of `ranges`, in the order of `start`, that holds `id`; or null.
const IdRange* find(const std::vector<IdRange>& ranges, std::uint32_t id, std::uint32_t IdRange::*start) {
  auto behind = std::upper_bound(ranges.begin(), ranges.end(), id,
                                 [&](std::uint32_t wanted, const IdRange& range) { return wanted < range.*start; });
  if (behind == ranges.begin()) return nullptr;
  const IdRange& range = *std::prev(behind);
  return id - range.*start < range.count ? &range : nullptr;
}

void sort(std::vector<IdRange>& ranges, std::uint32_t IdRange::*start) {
  std::sort(ranges.begin(), ranges.end(), [&](const IdRange& a, const IdRange& b) { return a.*start < b.*start; });
}

}  // namespace

IdNumbers::IdNumbers(std::vector<IdRange> ranges) : others_(false), by_local_(std::move(ranges)) {
  by_remote_ = by_local_;
  sort(by_local_, &IdRange::local);
  sort(by_remote_, &IdRange::remote);
}

IdNumbers::IdNumbers(std::uint32_t local, std::uint32_t remote) {
  if (local != remote) by_local_ = by_remote_ = {{local, remote, 1}};
}

std::optional<std::uint32_t> IdNumbers::local(std::uint32_t remote) const {
  if (const IdRange* range = find(by_remote_, remote, &IdRange::remote)) return range->local + (remote - range->remote);
  if (!others_ || find(by_local_, remote, &IdRange::local) != nullptr) return std::nullopt;
  return remote;
}

std::optional<std::uint32_t> IdNumbers::remote(std::uint32_t local) const {
  if (const IdRange* range = find(by_local_, local, &IdRange::local)) return range->remote + (local - range->local);
  if (!others_ || find(by_remote_, local, &IdRange::remote) != nullptr) return std::nullopt;
  return local;
}

IdMap::IdMap(const Options& options, const wire::Hello& agent)
    : agent_is_root_(agent.uid == 0),
      only_known_act_(options.id_map == IdMapMode::ranges),
      agent_uid_(agent.uid),
      agent_gid_(agent.gid) {
  if (options.id_map == IdMapMode::user) {
    uids_ = {options.uid, agent.uid};
    gids_ = {options.gid, agent.gid};
  } else if (options.id_map == IdMapMode::ranges) {
    uids_ = IdNumbers(options.uid_ranges);
    gids_ = IdNumbers(options.gid_ranges);
  }
}

wire::Caller IdMap::remote_caller(const Caller& caller) const {
  wire::Caller mapped;
  mapped.umask = caller.umask;
  const std::optional<std::uint32_t> uid = remote_uid(caller.uid);
  if (!agent_is_root_ && (uid || !only_known_act_)) {
    mapped.uid = agent_uid_;
    mapped.gid = agent_gid_;
    return mapped;
  }
  mapped.uid = uid.value_or(kNobody);
  mapped.gid = remote_gid(caller.gid).value_or(kNobody);
  for (const std::uint32_t group : caller.groups) {
    // Fewer groups can only refuse more.
    if (mapped.groups.size() == wire::kMaxGroups) break;
    if (const auto id = remote_gid(group)) mapped.groups.push_back(*id);
  }
  return mapped;
}

}  // namespace sandbar::vfs
