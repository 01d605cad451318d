// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

#include "agent/journal_record.h"
#include "sandbar/result.h"
#include "wire/limits.h"

namespace sandbar::agent {

/// What is known of each journal: the last number begun, whose it is, and its recent results. Bounded in memory. Not
/// thread-safe.
class JournalTable {
 public:
  /// Journals that are remembered; those least recently used are forgotten when nobody has them open.
  static constexpr std::size_t kMaxJournals = 4096;
  /// Results that are kept of one journal: as many as a client may have unanswered, and so may ask for again.
  static constexpr std::size_t kMaxResults = wire::kMaxRequests;
  static constexpr std::size_t kMaxResultBytes = 2ULL << 20;
  /// Of all journals together; beyond it those of the journal least recently used are dropped.
  static constexpr std::size_t kMaxAllBytes = 64ULL << 20;
  /// What one result counts beside its head.
  static constexpr std::size_t kResultCost = 64;

  struct Kept {
    std::uint64_t number = 0;
    MutationResult result;
  };
  struct Entry {
    std::uint64_t key = 0;     ///< in the file
    bool recorded = false;     ///< the file says whose key it is
    std::string owner;         ///< the subject whose it is
    std::uint64_t begun = 0;   ///< the last number
    std::uint64_t open = 0;    ///< `begun` while it is executed, else 0
    bool doubtful = false;     ///< more may have been done than is recorded here
    std::deque<Kept> results;  ///< ascending; gaps are numbers whose result is not kept
    std::size_t bytes = 0;     ///< of `results`
    std::size_t holds = 0;     ///< sessions that use it
    std::uint64_t used = 0;
  };

  [[nodiscard]] Entry* find(const std::string& id);
  [[nodiscard]] const Entry* find(const std::string& id) const;
  Entry& find_or_make(const std::string& id);
  [[nodiscard]] static const MutationResult* result(const Entry& entry, std::uint64_t number);

  void touch(Entry& entry) { entry.used = ++clock_; }
  void begin(Entry& entry, std::uint64_t number);
  void finish(Entry& entry, std::uint64_t number, MutationResult result);
  /// The numbers up to this one are used up.
  static void raise(Entry& entry, std::uint64_t number);

  /// Takes in a record of an earlier agent's file; those of unknown keys are ignored.
  void apply(JournalRecord record);
  /// After the last record: what was being executed then is lost. `doubtful`: the machine may have lost records.
  void settle(bool doubtful);
  /// Records that give this table again. Returns the last key of all, for mark_recorded() once they are on the disk.
  std::uint64_t write(base::Bytes& to) const;
  void mark_recorded(std::uint64_t last_key);
  /// The record that says whose key it is.
  static void write_entry(base::Bytes& to, const std::string& id, const Entry& entry);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  using Entries = std::unordered_map<std::string, Entry>;
  void keep(Entry& entry, std::uint64_t number, MutationResult result);
  void drop(Entry& entry, std::deque<Kept>::iterator at);
  void drop_results(Entry& entry);
  void forget_oldest();

  Entries entries_;
  std::unordered_map<std::uint64_t, std::string> ids_;  ///< by key
  std::size_t bytes_ = 0;
  std::uint64_t last_key_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace sandbar::agent
