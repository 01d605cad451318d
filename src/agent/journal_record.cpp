// SPDX-License-Identifier: Apache-2.0
#include "agent/journal_record.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "wire/bytes_io.h"
#include "wire/limits.h"

namespace sandbar::agent {
namespace {

constexpr std::uint32_t kMarker = 0xA7524A53;
constexpr std::size_t kFront = 12;
constexpr std::size_t kFixed = 17;
/// What was read is dropped from the buffer when it is so much.
constexpr std::size_t kDropAt = 256 * 1024;

/// CRC-32 (IEEE 802.3), reflected.
constexpr auto kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320U : 0U);
    table[i] = value;
  }
  return table;
}();

std::uint32_t checksum(base::BytesView bytes) {
  std::uint32_t value = ~0U;
  for (const char byte : bytes) value = (value >> 8) ^ kCrcTable[(value ^ static_cast<std::uint8_t>(byte)) & 0xFF];
  return ~value;
}

/// A length byte and the text.
void put_label(base::Bytes& to, const std::string& text) {
  SANDBAR_ASSERT(text.size() <= wire::kMaxLabel);
  wire::put(to, static_cast<std::uint8_t>(text.size()));
  to += text;
}

bool take_label(base::BytesView& from, std::string& into) {
  if (from.empty()) return false;
  const auto size = static_cast<std::uint8_t>(from[0]);
  if (from.size() < 1U + size) return false;
  into = from.substr(1, size);
  from.remove_prefix(1U + size);
  return true;
}

bool take_byte(base::BytesView& from, std::uint8_t most, std::uint8_t& into) {
  if (from.empty()) return false;
  into = static_cast<std::uint8_t>(from[0]);
  from.remove_prefix(1);
  return into <= most;
}

bool parse(base::BytesView payload, JournalRecord& into) {
  if (payload.size() < kFixed) return false;
  const auto type = wire::get<std::uint8_t>(payload, 0);
  if (type < 1 || type > static_cast<std::uint8_t>(JournalRecordType::closed)) return false;
  into.type = static_cast<JournalRecordType>(type);
  into.key = wire::get<std::uint64_t>(payload, 1);
  into.number = wire::get<std::uint64_t>(payload, 9);
  base::BytesView rest = payload.substr(kFixed);
  std::uint8_t byte = 0;
  switch (into.type) {
    case JournalRecordType::opened:
      return take_label(rest, into.id) && rest.empty();
    case JournalRecordType::journal:
      if (!take_byte(rest, 1, byte)) return false;
      into.doubtful = byte != 0;
      return take_label(rest, into.id) && take_label(rest, into.owner) && rest.empty();
    case JournalRecordType::finished:
      if (!take_byte(rest, static_cast<std::uint8_t>(ResultKind::lost), byte)) return false;
      into.result.kind = static_cast<ResultKind>(byte);
      into.result.head = rest;
      return true;
    case JournalRecordType::begun:
    case JournalRecordType::closed:
      return rest.empty();
  }
  return false;
}

}  // namespace

void append_journal_record(base::Bytes& to, const JournalRecord& record) {
  base::Bytes payload;
  payload.reserve(kFixed + 2 + record.id.size() + record.owner.size() + record.result.head.size());
  wire::put(payload, static_cast<std::uint8_t>(record.type));
  wire::put(payload, record.key);
  wire::put(payload, record.number);
  if (record.type == JournalRecordType::journal) wire::put(payload, static_cast<std::uint8_t>(record.doubtful));
  if (record.type == JournalRecordType::journal || record.type == JournalRecordType::opened)
    put_label(payload, record.id);
  if (record.type == JournalRecordType::journal) put_label(payload, record.owner);
  if (record.type == JournalRecordType::finished) {
    wire::put(payload, static_cast<std::uint8_t>(record.result.kind));
    payload += record.result.head;
  }
  SANDBAR_ASSERT(payload.size() <= kMaxJournalRecord);
  wire::put(to, kMarker);
  wire::put(to, static_cast<std::uint32_t>(payload.size()));
  wire::put(to, checksum(payload));
  to += payload;
}

void JournalRecordReader::feed(base::BytesView piece) {
  if (at_ >= kDropAt) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  bytes_ += piece;
}

std::optional<JournalRecord> JournalRecordReader::next() {
  JournalRecord record;
  for (;;) {
    switch (look(record)) {
      case Found::record:
        damaged_ += skipped_;
        skipped_ = 0;
        return record;
      case Found::nothing:
        skip();
        break;
      case Found::incomplete:
        return std::nullopt;
    }
  }
}

/// A record at the place where we are, which is behind it then.
JournalRecordReader::Found JournalRecordReader::look(JournalRecord& into) {
  const base::BytesView here = base::BytesView(bytes_).substr(at_);
  // At the end a length that claims more than there is may be a damaged one, with records behind it.
  const Found cut = ended_ && !here.empty() ? Found::nothing : Found::incomplete;
  if (wasted_ > kMaxWasted) {
    skipped_ += here.size();
    at_ = bytes_.size();
    return Found::incomplete;
  }
  if (here.size() < kFront) return cut;
  if (wire::get<std::uint32_t>(here, 0) != kMarker) return Found::nothing;
  const auto length = wire::get<std::uint32_t>(here, 4);
  if (length > kMaxJournalRecord) return Found::nothing;
  if (here.size() < kFront + length) return cut;
  const base::BytesView payload = here.substr(kFront, length);
  into = {};
  if (checksum(payload) != wire::get<std::uint32_t>(here, 8) || !parse(payload, into)) {
    wasted_ += kFront + length;
    return Found::nothing;
  }
  at_ += kFront + length;
  return Found::record;
}

/// To the next byte that could begin a record.
void JournalRecordReader::skip() {
  const std::size_t next = std::min(bytes_.find(static_cast<char>(kMarker & 0xFF), at_ + 1), bytes_.size());
  skipped_ += next - at_;
  at_ = next;
}

}  // namespace sandbar::agent
