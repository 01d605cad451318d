// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"

/// The journals' records as they stand in the state folder: one behind the other, each with a marker, its length and a
/// checksum, so that what was cut off or overwritten is told from what was written. Little-endian:
///
///    0  u32  marker
///    4  u32  length of the payload
///    8  u32  CRC-32 of the payload
///   12       payload: u8 type, u64 key, u64 number, then what the type has
namespace sandbar::agent {

enum class ResultKind : std::uint8_t {
  reply,  ///< `head` is wire::encode_reply()'s
  error,  ///< `head` is wire::encode_error()'s
  lost,   ///< it began, and the agent was killed before its result was recorded
};

/// What a mutation was answered with.
struct MutationResult {
  ResultKind kind = ResultKind::reply;
  base::Bytes head;
  bool operator==(const MutationResult&) const = default;
};

enum class JournalRecordType : std::uint8_t {
  opened = 1,    ///< first in the file; `number` is the format's version, `id` names the boot of the machine
  journal = 2,   ///< from here on `key` is the journal `id`; the numbers up to `number` have begun
  begun = 3,     ///< `number`, and so all below
  finished = 4,  ///< `number`, with its result
  closed = 5,    ///< last in the file of an agent that ended in order: all before is on the disk
};

struct JournalRecord {
  JournalRecordType type = JournalRecordType::opened;
  std::uint64_t key = 0;
  std::uint64_t number = 0;
  std::string id;         ///< opened, journal; at most 255 bytes
  std::string owner;      ///< journal; at most 255 bytes
  bool doubtful = false;  ///< journal: more may have been done than is recorded
  MutationResult result;  ///< finished
  bool operator==(const JournalRecord&) const = default;
};

/// Of a payload. An error's text of 4,096 control characters is 24 KiB of JSON.
constexpr std::size_t kMaxJournalRecord = 32 * 1024;

/// The record's texts and head must be within the bounds above.
void append_journal_record(base::Bytes& to, const JournalRecord& record);

/// Reads records out of bytes that come piece by piece. What is no record is skipped up to the next one: `damaged`
/// counts it. Bounded whatever the bytes are: in memory by a piece and a record, in time by kMaxWasted.
class JournalRecordReader {
 public:
  /// Bytes that are checked in vain (a marker and a length that look right) before the rest is given up.
  static constexpr std::uint64_t kMaxWasted = 64ULL << 20;

  void feed(base::BytesView piece);
  /// Nothing more will be fed.
  void end() { ended_ = true; }
  /// None: more bytes are needed, or after end(): there is no further record.
  std::optional<JournalRecord> next();

  /// Bytes before the last record that were none.
  [[nodiscard]] std::uint64_t damaged() const { return damaged_; }
  /// After the last next(): bytes behind the last record, a record that was cut off.
  [[nodiscard]] std::uint64_t torn() const { return skipped_ + (bytes_.size() - at_); }

 private:
  enum class Found : std::uint8_t { record, nothing, incomplete };
  Found look(JournalRecord& into);
  void skip();

  base::Bytes bytes_;
  std::size_t at_ = 0;
  std::uint64_t skipped_ = 0;  ///< since the last record
  std::uint64_t damaged_ = 0;
  std::uint64_t wasted_ = 0;
  bool ended_ = false;
};

}  // namespace sandbar::agent
