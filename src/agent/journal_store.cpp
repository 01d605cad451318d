// SPDX-License-Identifier: Apache-2.0
#include "agent/journal_store.h"

#include <utility>

#include "base/log.h"

namespace sandbar::agent {
namespace {

JournalFacts facts_of(const JournalTable::Entry& entry) {
  return {entry.begun != 0 && !entry.doubtful, wire::MutationNumber(entry.begun),
          wire::MutationNumber(entry.open != 0 ? entry.open - 1 : entry.begun)};
}

}  // namespace

Result<std::shared_ptr<JournalStore>> JournalStore::open(base::UniqueFd folder) {
  auto store = std::make_shared<JournalStore>();
  auto log = std::make_unique<JournalLog>(std::move(folder));
  auto loaded = log->load([&store](JournalRecord record) { store->table_.apply(std::move(record)); });
  if (!loaded) return std::move(loaded).error();
  if (loaded->damaged != 0)
    base::log_warning("the state folder's file \"journals\" was damaged (" + std::to_string(loaded->damaged) +
                      " bytes): the results of some earlier mutations are not known");
  store->table_.settle(loaded->doubtful);
  // A new file each time: without a torn tail, and of this start of the machine.
  store->log_ = std::move(log);
  if (auto written = store->rewrite(); !written) {
    store->log_.reset();  // its end writes nothing either
    return std::move(written).error();
  }
  return store;
}

JournalStore::~JournalStore() {
  if (!log_) return;
  std::lock_guard file(file_mutex_);
  auto closed = write_pending();
  if (closed) closed = log_->close();
  if (!closed) base::log_warning(closed.error().message());
}

Result<JournalFacts> JournalStore::claim(const std::string& journal, const std::string& subject) {
  std::lock_guard lock(mutex_);
  JournalTable::Entry* entry = table_.find(journal);
  if (entry == nullptr) {
    entry = &table_.find_or_make(journal);
    entry->owner = subject;
  }
  if (entry->owner != subject)
    return make_error(Errc::unauthorized, "use a journal", "the journal belongs to another subject");
  table_.touch(*entry);
  return facts_of(*entry);
}

JournalFacts JournalStore::facts(const std::string& journal) const {
  std::lock_guard lock(mutex_);
  const JournalTable::Entry* entry = table_.find(journal);
  return entry == nullptr ? JournalFacts{} : facts_of(*entry);
}

void JournalStore::hold(const std::string& journal) {
  std::lock_guard lock(mutex_);
  ++table_.find_or_make(journal).holds;
}

void JournalStore::let_go(const std::string& journal) {
  std::lock_guard lock(mutex_);
  JournalTable::Entry* entry = table_.find(journal);
  if (entry != nullptr && entry->holds > 0) --entry->holds;
}

void JournalStore::raise(const std::string& journal, wire::MutationNumber number) {
  std::lock_guard lock(mutex_);
  JournalTable::raise(table_.find_or_make(journal), number.value);
}

Result<MutationResult> JournalStore::result(const std::string& journal, wire::MutationNumber number) const {
  std::lock_guard lock(mutex_);
  const JournalTable::Entry* entry = table_.find(journal);
  const MutationResult* result = entry == nullptr ? nullptr : JournalTable::result(*entry, number.value);
  if (result == nullptr)
    return make_error(Errc::unknown, "mutation " + std::to_string(number.value), "its result is not kept any more");
  return *result;
}

/// Before the first record of a journal in this file.
void JournalStore::record_key(const std::string& journal, JournalTable::Entry& entry) {
  if (std::exchange(entry.recorded, true)) return;
  JournalTable::write_entry(pending_, journal, entry);
}

Result<void> JournalStore::begin(const std::string& journal, wire::MutationNumber number) {
  std::lock_guard file(file_mutex_);
  {
    std::lock_guard lock(mutex_);
    JournalTable::Entry& entry = table_.find_or_make(journal);
    if (log_) {
      record_key(journal, entry);
      append_journal_record(pending_, {JournalRecordType::begun, entry.key, number.value, {}, {}, false, {}});
    }
    table_.begin(entry, number.value);
  }
  return write_pending();
}

void JournalStore::finish(const std::string& journal, wire::MutationNumber number, MutationResult result) {
  std::lock_guard file(file_mutex_);
  finish_later(journal, number, std::move(result));
  (void)write_pending();  // what failed is tried again with the next one, which is refused if it fails again
}

void JournalStore::finish_later(const std::string& journal, wire::MutationNumber number, MutationResult result) {
  std::lock_guard lock(mutex_);
  JournalTable::Entry& entry = table_.find_or_make(journal);
  if (log_) {
    record_key(journal, entry);
    append_journal_record(pending_, {JournalRecordType::finished, entry.key, number.value, {}, {}, false, result});
  }
  table_.finish(entry, number.value, std::move(result));
}

void JournalStore::flush() {
  std::lock_guard file(file_mutex_);
  (void)write_pending();
}

base::Bytes JournalStore::take_pending() {
  std::lock_guard lock(mutex_);
  return std::exchange(pending_, {});
}

void JournalStore::put_back(base::Bytes records) {
  std::lock_guard lock(mutex_);
  pending_.insert(0, records);
  if (pending_.size() <= kMaxPending) return;
  pending_.clear();
  incomplete_ = true;
}

Result<void> JournalStore::write_pending() {
  if (!log_) return {};
  if (incomplete_ || log_->size() >= rewrite_at_) {
    auto rewritten = rewrite();
    if (rewritten || incomplete_) return rewritten;
    rewrite_at_ = log_->size() + kRewriteAt;
  }
  base::Bytes records = take_pending();
  if (records.empty()) return {};
  auto appended = log_->append(records);
  if (!appended) put_back(std::move(records));
  if (log_->broken()) incomplete_ = true;
  return appended;
}

/// The table has all that is pending, and more.
Result<void> JournalStore::rewrite() {
  base::Bytes records;
  base::Bytes pending;
  std::uint64_t last_key = 0;
  {
    std::lock_guard lock(mutex_);
    pending = std::exchange(pending_, {});
    last_key = table_.write(records);
  }
  if (auto written = log_->rewrite(records); !written) {
    put_back(std::move(pending));
    return written;
  }
  std::lock_guard lock(mutex_);
  table_.mark_recorded(last_key);
  incomplete_ = false;
  rewrite_at_ = 2 * log_->size() + kRewriteAt;
  return {};
}

std::size_t JournalStore::journals() const {
  std::lock_guard lock(mutex_);
  return table_.size();
}

std::size_t JournalStore::result_bytes() const {
  std::lock_guard lock(mutex_);
  return table_.bytes();
}

std::uint64_t JournalStore::file_size() const {
  std::lock_guard file(file_mutex_);
  return log_ ? log_->size() : 0;
}

}  // namespace sandbar::agent
