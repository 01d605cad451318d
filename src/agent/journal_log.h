// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "agent/journal_record.h"
#include "base/bytes.h"
#include "base/function.h"
#include "base/unique_fd.h"
#include "sandbar/result.h"

namespace sandbar::agent {

/// The file "journals" of a state folder: records are appended with one write(2) each, and all of it is replaced now
/// and then. What was appended survives the agent's kill -9, not the machine's power loss; what was there at the last
/// rewrite() survives both. Not thread-safe; its user holds the folder's lock (State).
class JournalLog {
 public:
  static constexpr std::uint64_t kVersion = 1;
  /// Room that is asked of the file system ahead of need, bytes, so that a full disk leaves some thousand mutations
  /// to make it less full.
  static constexpr std::uint64_t kReserve = 1ULL << 20;
  /// No larger file is written.
  static constexpr std::uint64_t kMaxFile = 512ULL << 20;

  struct Loaded {
    std::uint64_t damaged = 0;  ///< bytes between records that were none
    std::uint64_t torn = 0;     ///< behind the last record
    bool doubtful = false;      ///< the machine has started anew meanwhile, without an orderly end of the agent before
  };

  explicit JournalLog(base::UniqueFd folder) : folder_(std::move(folder)) {}
  JournalLog(const JournalLog&) = delete;
  JournalLog& operator=(const JournalLog&) = delete;

  /// Reads all records there are; nothing where there is no file. Errc::invalid, with what to do, for a file whose
  /// first record is not ours.
  Result<Loaded> load(base::Function<void(JournalRecord)> record) const;
  /// Replaces the file by these records, behind the one that begins each file: as a whole or not at all, also over a
  /// power loss.
  Result<void> rewrite(const base::Bytes& records);
  /// All or nothing; ENOSPC and the like otherwise. After rewrite() only.
  Result<void> append(base::BytesView records);
  /// The agent ends in order: all is on the disk when this returns.
  Result<void> close();

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Half a record stands at its end, and could not be cut off: nothing is appended before a rewrite().
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  void reserve();

  const base::UniqueFd folder_;
  base::UniqueFd file_;
  std::uint64_t size_ = 0;
  std::uint64_t reserved_ = 0;
  bool broken_ = false;
};

}  // namespace sandbar::agent
