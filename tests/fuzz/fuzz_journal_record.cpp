// SPDX-License-Identifier: Apache-2.0
#include "agent/journal_table.h"
#include "fuzz.h"

/// The file of a state folder: what it holds is read in pieces, and what is known then is written and read again.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sandbar::agent;  // NOLINT(google-build-using-namespace)
  const auto bytes = sandbar::fuzz::input(data, size);
  JournalRecordReader reader;
  JournalTable table;
  std::uint64_t whole = 0;
  const auto drain = [&] {
    while (auto record = reader.next()) {
      sandbar::base::Bytes again;
      append_journal_record(again, *record);
      whole += again.size();
      table.apply(std::move(*record));
    }
  };
  const std::size_t half = size / 2;
  reader.feed(bytes.substr(0, half));
  drain();
  reader.feed(bytes.substr(half));
  drain();
  reader.end();
  drain();
  // Every byte is a record's, damage, or the torn tail.
  SANDBAR_ASSERT(whole + reader.damaged() + reader.torn() == size);
  SANDBAR_ASSERT(table.bytes() <= JournalTable::kMaxAllBytes && table.size() <= JournalTable::kMaxJournals);
  table.settle(false);

  sandbar::base::Bytes first;
  table.write(first);
  JournalRecordReader again;
  JournalTable copy;
  again.feed(first);
  again.end();
  while (auto record = again.next()) copy.apply(std::move(*record));
  SANDBAR_ASSERT(again.damaged() == 0 && again.torn() == 0 && copy.size() == table.size());
  return 0;
}
