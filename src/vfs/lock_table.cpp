// SPDX-License-Identifier: Apache-2.0
#include "vfs/lock_table.h"

#include <algorithm>

namespace sandbar::vfs {

LockTable::Record* LockTable::find(const Key& key, FileId file) {
  for (Record& record : records_)
    if (record.key == key && record.file == file) return &record;
  return nullptr;
}

bool LockTable::begin(const Key& key, FileId file) {
  const bool first = !holds(key);
  if (find(key, file) == nullptr) records_.push_back({.key = key, .file = file});
  Record& record = *find(key, file);
  ++record.pending;
  record.begun = ++clock_;
  return first;
}

void LockTable::end(const Key& key, FileId file, bool taken) {
  Record* record = find(key, file);
  if (record == nullptr) return;
  if (record->pending > 0) --record->pending;
  record->taken |= taken;
  std::erase_if(records_, [](const Record& each) { return each.pending == 0 && !each.taken; });
}

bool LockTable::holds(const Key& key) const {
  return std::any_of(records_.begin(), records_.end(), [&](const Record& record) { return record.key == key; });
}

void LockTable::clear(const Key& key, std::uint64_t sent) {
  for (Record& record : records_)
    if (record.key == key && record.begun <= sent) record.taken = false;
  std::erase_if(records_, [](const Record& each) { return each.pending == 0 && !each.taken; });
}

std::vector<LockTable::Key> LockTable::through(FileId file) const {
  std::vector<Key> keys;
  for (const Record& record : records_)
    if (record.file == file) keys.push_back(record.key);
  return keys;
}

void LockTable::forget(FileId file) {
  std::erase_if(records_, [&](const Record& each) { return each.file == file; });
}

}  // namespace sandbar::vfs
