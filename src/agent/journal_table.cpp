// SPDX-License-Identifier: Apache-2.0
#include "agent/journal_table.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sandbar::agent {
namespace {

std::size_t cost(const JournalTable::Kept& kept) { return JournalTable::kResultCost + kept.result.head.size(); }

auto place_of(auto& results, std::uint64_t number) {
  return std::lower_bound(results.begin(), results.end(), number,
                          [](const JournalTable::Kept& kept, std::uint64_t wanted) { return kept.number < wanted; });
}

}  // namespace

JournalTable::Entry* JournalTable::find(const std::string& id) {
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second;
}

JournalTable::Entry& JournalTable::find_or_make(const std::string& id) {
  if (Entry* known = find(id)) return *known;
  if (entries_.size() >= kMaxJournals) forget_oldest();
  Entry& entry = entries_[id];
  entry.key = ++last_key_;
  ids_.emplace(entry.key, id);
  touch(entry);
  return entry;
}

void JournalTable::forget_oldest() {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.holds != 0 || it->second.open != 0) continue;
    if (oldest == entries_.end() || it->second.used < oldest->second.used) oldest = it;
  }
  if (oldest == entries_.end()) return;
  bytes_ -= oldest->second.bytes;
  ids_.erase(oldest->second.key);
  entries_.erase(oldest);
}

const JournalTable::Entry* JournalTable::find(const std::string& id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second;
}

const MutationResult* JournalTable::result(const Entry& entry, std::uint64_t number) {
  const auto at = place_of(entry.results, number);
  return at != entry.results.end() && at->number == number ? &at->result : nullptr;
}

void JournalTable::begin(Entry& entry, std::uint64_t number) {
  touch(entry);
  // Two that are begun and not finished: the result of the first was not recorded.
  if (entry.open != 0 && entry.open != number) keep(entry, entry.open, {ResultKind::lost, {}});
  const auto at = place_of(entry.results, number);
  if (at != entry.results.end() && at->number == number) drop(entry, at);
  entry.begun = std::max(entry.begun, number);
  entry.open = number;
  entry.doubtful = false;
}

void JournalTable::finish(Entry& entry, std::uint64_t number, MutationResult result) {
  touch(entry);
  entry.begun = std::max(entry.begun, number);
  entry.open = 0;
  entry.doubtful = false;
  keep(entry, number, std::move(result));
}

void JournalTable::raise(Entry& entry, std::uint64_t number) {
  if (number <= entry.begun) return;
  entry.begun = number;
  entry.open = 0;
}

void JournalTable::keep(Entry& entry, std::uint64_t number, MutationResult result) {
  auto at = place_of(entry.results, number);
  if (at != entry.results.end() && at->number == number) {
    drop(entry, at);
    at = place_of(entry.results, number);
  }
  const auto kept = entry.results.insert(at, Kept{number, std::move(result)});
  entry.bytes += cost(*kept);
  bytes_ += cost(*kept);
  // One is always kept: whoever waits for it comes for it here.
  while (entry.results.size() > 1 && (entry.results.size() > kMaxResults || entry.bytes > kMaxResultBytes))
    drop(entry, entry.results.begin());
  while (bytes_ > kMaxAllBytes) {
    Entry* oldest = nullptr;
    for (auto& [id, other] : entries_)
      if (&other != &entry && !other.results.empty() && (oldest == nullptr || other.used < oldest->used))
        oldest = &other;
    if (oldest == nullptr) return;
    drop_results(*oldest);
  }
}

void JournalTable::drop(Entry& entry, std::deque<Kept>::iterator at) {
  entry.bytes -= cost(*at);
  bytes_ -= cost(*at);
  entry.results.erase(at);
}

void JournalTable::drop_results(Entry& entry) {
  bytes_ -= entry.bytes;
  entry.bytes = 0;
  entry.results.clear();
}

void JournalTable::apply(JournalRecord record) {
  if (record.type == JournalRecordType::journal) {
    Entry& entry = find_or_make(record.id);
    ids_.erase(entry.key);
    drop_results(entry);
    const std::size_t holds = entry.holds;
    entry = Entry{};
    entry.key = record.key;
    entry.owner = std::move(record.owner);
    entry.begun = record.number;
    entry.doubtful = record.doubtful;
    entry.holds = holds;
    ids_[entry.key] = std::move(record.id);
    last_key_ = std::max(last_key_, entry.key);
    return touch(entry);
  }
  const auto id = ids_.find(record.key);
  Entry* entry = id == ids_.end() ? nullptr : find(id->second);
  if (entry == nullptr || entry->key != record.key) return;
  if (record.type == JournalRecordType::begun) begin(*entry, record.number);
  if (record.type == JournalRecordType::finished) {
    const bool doubtful = entry->doubtful && record.number <= entry->begun;
    finish(*entry, record.number, std::move(record.result));
    entry->doubtful = doubtful;
  }
}

void JournalTable::settle(bool doubtful) {
  for (auto& [id, entry] : entries_) {
    if (entry.open != 0) keep(entry, entry.open, {ResultKind::lost, {}});
    entry.open = 0;
    entry.doubtful = entry.doubtful || doubtful;
  }
}

void JournalTable::write_entry(base::Bytes& to, const std::string& id, const Entry& entry) {
  JournalRecord record;
  record.type = JournalRecordType::journal;
  record.key = entry.key;
  record.number = entry.open != 0 ? entry.open - 1 : entry.begun;
  record.id = id;
  record.owner = entry.owner;
  record.doubtful = entry.doubtful;
  append_journal_record(to, record);
}

std::uint64_t JournalTable::write(base::Bytes& to) const {
  // The order in which they were used is the order in which they are forgotten, also after the next start.
  std::vector<const Entries::value_type*> order;
  order.reserve(entries_.size());
  for (const auto& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->second.used < b->second.used; });
  for (const auto* at : order) {
    const Entry& entry = at->second;
    write_entry(to, at->first, entry);
    for (const Kept& kept : entry.results)
      append_journal_record(to, {JournalRecordType::finished, entry.key, kept.number, {}, {}, false, kept.result});
    if (entry.open != 0)
      append_journal_record(to, {JournalRecordType::begun, entry.key, entry.open, {}, {}, false, {}});
  }
  return last_key_;
}

void JournalTable::mark_recorded(std::uint64_t last_key) {
  for (auto& [id, entry] : entries_)
    if (entry.key <= last_key) entry.recorded = true;
}

}  // namespace sandbar::agent
