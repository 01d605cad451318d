// SPDX-License-Identifier: Apache-2.0
#include "vfs/lock_table.h"

#include <algorithm>

#include "base/assert.h"

namespace sandbar::vfs {

LockTable::Record* LockTable::find(const Key& key, FileId file) {
  for (Record& record : records_)
    if (record.key == key && record.file == file) return &record;
  return nullptr;
}

LockTable::Owner* LockTable::owner(const Key& key) {
  for (Owner& owner : owners_)
    if (owner.key == key) return &owner;
  return nullptr;
}

LockTable::Owner& LockTable::make_owner(const Key& key) {
  if (Owner* known = owner(key)) return *known;
  owners_.push_back({.key = key, .pid = 0, .doubts = 0, .held = {}});
  return owners_.back();
}

LockTable::RequestId LockTable::begin(const Key& key, FileId file, const Wanted& wanted) {
  if (find(key, file) == nullptr) records_.push_back({.key = key, .file = file});
  Record& record = *find(key, file);
  ++record.pending;
  record.begun = ++clock_;
  // flock(2): to convert a lock, the kernel gives the old one back first; it is lost where the new one is refused.
  if (key.kind == LockKind::flock)
    if (Owner* holder = owner(key)) holder->held.clear();
  requests_.push_back({RequestId(++last_request_), key, file, wanted});
  return requests_.back().id;
}

LockTable::Request LockTable::end(RequestId id, bool taken) {
  const auto it = std::find_if(requests_.begin(), requests_.end(), [&](const Request& each) { return each.id == id; });
  SANDBAR_ASSERT(it != requests_.end());
  Request request = *it;
  requests_.erase(it);
  if (Record* record = find(request.key, request.file)) {
    --record->pending;
    record->taken |= taken;
  }
  return request;
}

void LockTable::granted(RequestId id) {
  const Request request = end(id, true);
  Owner& holder = make_owner(request.key);
  holder.pid = request.wanted.pid;
  holder.held.set(request.wanted.span.start, request.wanted.span.end, request.wanted.type);
}

void LockTable::refused(RequestId id) {
  end(id, false);
  drop_empty();
}

std::vector<LockTable::Ranges::Part> LockTable::abandoned(RequestId id) {
  const Request request = end(id, true);
  Owner& holder = make_owner(request.key);
  ++holder.doubts;
  base::RangeMap<bool> ours;
  ours.set(request.wanted.span.start, request.wanted.span.end, true);
  for (const Request& other : requests_)
    if (other.key == request.key) ours.clear(other.wanted.span.start, other.wanted.span.end);
  std::vector<Ranges::Part> parts;
  for (const auto& range : ours.all())
    for (const Ranges::Part& part : holder.held.parts(range.start, range.end)) parts.push_back(part);
  return parts;
}

void LockTable::settled(const Key& key) {
  if (Owner* holder = owner(key); holder != nullptr && holder->doubts > 0) --holder->doubts;
}

std::uint64_t LockTable::unlocking(const Key& key, LockSpan span) {
  if (Owner* holder = owner(key)) holder->held.clear(span.start, span.end);
  return clock_;
}

void LockTable::unlocked(const Key& key, LockSpan span, std::uint64_t sent) {
  const bool whole = span.start == 0 && span.end == kLockEnd;
  Owner* holder = owner(key);
  if (holder != nullptr && whole) holder->doubts = 0;
  if (!whole && holder != nullptr && (holder->doubts > 0 || !holder->held.empty())) return;
  for (Record& record : records_)
    if (record.key == key && record.begun <= sent) record.taken = false;
  drop_empty();
}

bool LockTable::holds(const Key& key) const {
  return std::any_of(records_.begin(), records_.end(), [&](const Record& record) { return record.key == key; });
}

std::uint32_t LockTable::process_of(NodeId node, std::uint64_t asking, const LockHolder& holder) const {
  const LockSpan span = LockSpan::of(holder.start, holder.length);
  for (const Owner& each : owners_) {
    if (each.key.node != node || each.key.kind != LockKind::posix || each.key.owner == asking) continue;
    const auto range = each.held.find(span.start, span.end, [&](LockType type) { return type == holder.type; });
    if (range && range->start == span.start && range->end == span.end) return each.pid;
  }
  return 0;
}

std::vector<LockTable::Key> LockTable::through(FileId file) const {
  std::vector<Key> keys;
  for (const Record& record : records_)
    if (record.file == file) keys.push_back(record.key);
  return keys;
}

void LockTable::forget(FileId file) {
  std::erase_if(records_, [&](const Record& each) { return each.file == file; });
  drop_empty();
}

void LockTable::drop_empty() {
  std::erase_if(records_, [](const Record& each) { return each.pending == 0 && !each.taken; });
  std::erase_if(owners_, [this](const Owner& each) { return !holds(each.key); });
}

}  // namespace sandbar::vfs
