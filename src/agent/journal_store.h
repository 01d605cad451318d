// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "agent/journal_log.h"
#include "agent/journal_table.h"
#include "sandbar/result.h"
#include "wire/ids.h"

namespace sandbar::agent {

/// What a client may know of its journal.
struct JournalFacts {
  /// There is a record of it, and nothing that was done can be missing there. False for a fresh one, for one that was
  /// forgotten, and after a restart of the machine that was none of the agent's doing.
  bool known = false;
  wire::MutationNumber begun;
  wire::MutationNumber finished;
};

/// The memory of the journals: which numbers have begun, and what the last ones were answered with. With a state folder
/// it outlives the agent:
///
/// - begin() is recorded before the mutation is executed, finish() before it is answered, both with write(2): kill -9
///   of the agent loses neither. A mutation between the two at that moment is found "lost" by the next agent.
/// - A power loss may take records with it that nobody has synced, as it takes the files' data. Its files may then be
///   newer than the record: JournalFacts::known is false for all journals until their next mutation begins, because a
///   mutation that the record does not have may have been done all the same.
///
/// Any thread. What writes (begin(), finish(), flush()) is for workers; the others wait for no disk.
class JournalStore {
 public:
  /// The file is rewritten when it has grown by so much beyond twice what it then needs.
  static constexpr std::uint64_t kRewriteAt = 4ULL << 20;
  /// Records that wait for a full disk to be less full, bytes; beyond them the file is rewritten then.
  static constexpr std::size_t kMaxPending = 1ULL << 20;

  /// Without a folder: what is known ends with this.
  JournalStore() = default;
  /// The caller holds the folder's lock (State) for as long as this lives. Errors say what to do.
  static Result<std::shared_ptr<JournalStore>> open(base::UniqueFd folder);
  ~JournalStore();
  JournalStore(const JournalStore&) = delete;
  JournalStore& operator=(const JournalStore&) = delete;

  /// The journal is the subject's, from the first claim on: Errc::unauthorized for others. Its owner is recorded with
  /// its first mutation.
  Result<JournalFacts> claim(const std::string& journal, const std::string& subject);
  /// All 0 for a journal that is not known.
  [[nodiscard]] JournalFacts facts(const std::string& journal) const;
  /// A journal that is held is not forgotten.
  void hold(const std::string& journal);
  void let_go(const std::string& journal);
  /// The numbers up to this one are used up, by whatever.
  void raise(const std::string& journal, wire::MutationNumber number);
  /// Errc::unknown, with the reason, for one that is not kept; its kind may be ResultKind::lost.
  [[nodiscard]] Result<MutationResult> result(const std::string& journal, wire::MutationNumber number) const;

  /// Recorded when this returns. ENOSPC and the like when it cannot be: the mutation must not be executed then.
  Result<void> begin(const std::string& journal, wire::MutationNumber number);
  /// In memory in any case. What cannot be recorded is lost for the next agent.
  void finish(const std::string& journal, wire::MutationNumber number, MutationResult result);
  /// As finish(), for mutations that were never executed: in memory at once, recorded with the next flush() or begin().
  void finish_later(const std::string& journal, wire::MutationNumber number, MutationResult result);
  void flush();

  /// For tests.
  [[nodiscard]] std::size_t journals() const;
  [[nodiscard]] std::size_t result_bytes() const;
  [[nodiscard]] std::uint64_t file_size() const;

 private:
  void record_key(const std::string& journal, JournalTable::Entry& entry);
  Result<void> write_pending();
  Result<void> rewrite();
  base::Bytes take_pending();
  void put_back(base::Bytes records);

  mutable std::mutex file_mutex_;    ///< held while the file is written; taken before `mutex_`
  std::unique_ptr<JournalLog> log_;  ///< under file_mutex_; null without a folder, which everybody may ask
  std::uint64_t rewrite_at_ = 0;     ///< under file_mutex_: the file's size
  bool incomplete_ = false;          ///< under file_mutex_: the file lacks records that only a rewrite can bring

  mutable std::mutex mutex_;  ///< held for moments only
  JournalTable table_;        ///< under mutex_
  base::Bytes pending_;       ///< under mutex_: records that are to be appended
};

}  // namespace sandbar::agent
