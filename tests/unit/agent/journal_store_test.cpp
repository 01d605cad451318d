// SPDX-License-Identifier: Apache-2.0
// What is remembered of the journals: its bounds, and the file that outlives the agent.
#include "agent/journal_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "agent/state.h"

namespace sandbar::agent {
namespace {

wire::MutationNumber number(std::uint64_t n) { return wire::MutationNumber(n); }
MutationResult reply(const std::string& head) { return {ResultKind::reply, head}; }

JournalRecord journal_record(std::uint64_t key, std::uint64_t begun, const std::string& id,
                             const std::string& owner = {}, bool doubtful = false) {
  return {JournalRecordType::journal, key, begun, id, owner, doubtful, {}};
}
JournalRecord begun_record(std::uint64_t key, std::uint64_t n) {
  return {JournalRecordType::begun, key, n, {}, {}, false, {}};
}
JournalRecord finished_record(std::uint64_t key, std::uint64_t n, MutationResult result) {
  return {JournalRecordType::finished, key, n, {}, {}, false, std::move(result)};
}

// --- Records ---

std::vector<JournalRecord> read_all(const std::string& bytes, std::size_t piece, std::uint64_t* damaged = nullptr,
                                    std::uint64_t* torn = nullptr) {
  JournalRecordReader reader;
  std::vector<JournalRecord> records;
  const auto drain = [&] {
    while (auto record = reader.next()) records.push_back(std::move(*record));
  };
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(base::BytesView(bytes).substr(at, piece));
    drain();
  }
  reader.end();
  drain();
  if (damaged != nullptr) *damaged = reader.damaged();
  if (torn != nullptr) *torn = reader.torn();
  return records;
}

std::vector<JournalRecord> one_of_each() {
  const std::string label(255, 'l');
  return {{JournalRecordType::opened, 0, 1, "boot", {}, false, {}},
          journal_record(1, 7, label, label, true),
          journal_record(2, 0, "", ""),
          begun_record(UINT64_MAX, UINT64_MAX),
          finished_record(1, 8, reply("")),
          finished_record(1, 8, {ResultKind::error, std::string(kMaxJournalRecord - 18, 'e')}),
          finished_record(1, 9, {ResultKind::lost, {}}),
          {JournalRecordType::closed, 0, 0, {}, {}, false, {}}};
}

std::string written(const std::vector<JournalRecord>& records) {
  std::string bytes;
  for (const JournalRecord& record : records) append_journal_record(bytes, record);
  return bytes;
}

TEST(JournalRecord, ReadsWhatWasWritten) {
  const auto records = one_of_each();
  for (const std::size_t piece : {1U, 7U, 4096U, 1000000U}) {
    std::uint64_t damaged = 1, torn = 1;
    EXPECT_EQ(records, read_all(written(records), piece, &damaged, &torn));
    EXPECT_EQ(0U, damaged + torn);
  }
}

TEST(JournalRecord, ATornTailIsCutOffAtEveryByte) {
  const std::vector<JournalRecord> records{journal_record(1, 0, "id", "owner"), begun_record(1, 1),
                                           finished_record(1, 1, reply("head"))};
  const std::string bytes = written(records);
  const std::size_t second = written({records[0]}).size();
  const std::size_t third = written({records[0], records[1]}).size();
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    std::uint64_t damaged = 1, torn = 1;
    const auto found = read_all(bytes.substr(0, size), 5, &damaged, &torn);
    const std::size_t whole = size < second ? 0 : size < third ? 1 : size < bytes.size() ? 2 : 3;
    EXPECT_EQ(whole, found.size()) << size;
    EXPECT_EQ(0U, damaged);
    EXPECT_EQ(size - (whole == 0 ? 0 : whole == 1 ? second : whole == 2 ? third : bytes.size()), torn);
  }
}

TEST(JournalRecord, DamageIsSkippedAtEveryByte) {
  const std::vector<JournalRecord> records{journal_record(1, 0, "id", "owner"), begun_record(1, 1),
                                           finished_record(1, 1, reply("head"))};
  const std::string bytes = written(records);
  const std::size_t second = written({records[0]}).size();
  const std::size_t third = written({records[0], records[1]}).size();
  for (std::size_t at = second; at < third; ++at)
    for (const int bit : {0, 7}) {
      std::string bad = bytes;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      std::uint64_t damaged = 0, torn = 1;
      const auto found = read_all(bad, 9, &damaged, &torn);
      ASSERT_EQ(2U, found.size()) << at;
      EXPECT_EQ(records[0], found[0]);
      EXPECT_EQ(records[2], found[1]);
      EXPECT_EQ(third - second, damaged);
      EXPECT_EQ(0U, torn);
    }
}

TEST(JournalRecord, ReadingIsBoundedInTime) {
  // Records that look right and are not, each inside the one before.
  std::string bad;
  append_journal_record(bad, finished_record(1, 1, reply(std::string(kMaxJournalRecord - 18, 'x'))));
  std::string front = bad.substr(0, 12);
  front[8] = static_cast<char>(front[8] ^ 1);
  std::string bytes;
  while (bytes.size() < (1U << 20)) bytes += front;
  std::uint64_t torn = 0;
  append_journal_record(bytes, begun_record(1, 1));
  EXPECT_TRUE(read_all(bytes, bytes.size(), nullptr, &torn).empty()) << "given up before";
  EXPECT_EQ(bytes.size(), torn);
}

// --- The table ---

TEST(JournalTable, KeepsTheLastResults) {
  JournalTable table;
  JournalTable::Entry& entry = table.find_or_make("j");
  for (std::uint64_t n = 1; n <= JournalTable::kMaxResults + 1; ++n) {
    table.begin(entry, n);
    table.finish(entry, n, reply("x"));
  }
  EXPECT_EQ(JournalTable::kMaxResults, entry.results.size());
  EXPECT_EQ(nullptr, JournalTable::result(entry, 1));
  EXPECT_NE(nullptr, JournalTable::result(entry, 2));
  EXPECT_EQ(entry.bytes, table.bytes());
}

TEST(JournalTable, BoundsTheBytesOfOneAndOfAll) {
  JournalTable table;
  const std::string head(24 * 1024, 'x');
  const std::size_t enough = JournalTable::kMaxAllBytes / JournalTable::kMaxResultBytes + 2;
  for (std::size_t i = 0; i < enough; ++i) {
    JournalTable::Entry& entry = table.find_or_make(std::to_string(i));
    for (std::uint64_t n = 1; n <= 100; ++n) table.finish(entry, n, reply(head));
    EXPECT_LE(entry.bytes, JournalTable::kMaxResultBytes);
    EXPECT_GT(entry.bytes, JournalTable::kMaxResultBytes - 2 * head.size());
    EXPECT_LE(table.bytes(), JournalTable::kMaxAllBytes);
  }
  EXPECT_TRUE(table.find("0")->results.empty()) << "the one least recently used";
  EXPECT_EQ(100U, table.find("0")->begun) << "its number is known still";
  EXPECT_FALSE(table.find(std::to_string(enough - 1))->results.empty());
}

TEST(JournalTable, ForgetsTheOldestThatNobodyUses) {
  JournalTable table;
  table.find_or_make("held").holds = 1;
  table.begin(table.find_or_make("executes"), 1);
  for (std::size_t i = 0; i < JournalTable::kMaxJournals; ++i)
    table.finish(table.find_or_make(std::to_string(i)), 1, {});
  EXPECT_EQ(JournalTable::kMaxJournals, table.size());
  EXPECT_EQ(nullptr, table.find("0"));
  EXPECT_EQ(nullptr, table.find("1"));
  EXPECT_NE(nullptr, table.find("2"));
  EXPECT_NE(nullptr, table.find("held"));
  EXPECT_NE(nullptr, table.find("executes"));
}

TEST(JournalTable, RecordsOfUnknownJournalsAreIgnored) {
  JournalTable table;
  table.apply(begun_record(1, 1));
  table.apply(finished_record(1, 1, reply("x")));
  EXPECT_EQ(0U, table.size());
  // The same id again: as it says now.
  table.apply(journal_record(1, 5, "j", "owner"));
  table.apply(finished_record(1, 6, reply("x")));
  table.apply(journal_record(2, 3, "j", "other"));
  table.apply(begun_record(1, 9));
  EXPECT_EQ(1U, table.size());
  EXPECT_EQ(3U, table.find("j")->begun);
  EXPECT_EQ("other", table.find("j")->owner);
  EXPECT_EQ(0U, table.bytes());
}

// --- The store and its file ---

class JournalStoreTest : public testing::Test {
 protected:
  JournalStoreTest() {
    std::string name = testing::TempDir() + "sandbar_journals_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~JournalStoreTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  Result<std::shared_ptr<JournalStore>> open() {
    return JournalStore::open(base::UniqueFd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  }
  /// As after kill -9: the file is what it is at this moment.
  void start() {
    const std::string bytes = store_ ? content() : "";
    if (std::exchange(store_, nullptr)) set_content(bytes);
    auto opened = open();
    ASSERT_TRUE(opened) << opened.error().message();
    store_ = std::move(opened).value();
  }
  [[nodiscard]] std::string file() const { return folder_ + "/journals"; }
  [[nodiscard]] std::string content() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void set_content(const std::string& bytes) const { std::ofstream(file(), std::ios::binary) << bytes; }
  void perform(std::uint64_t n, const std::string& head, const std::string& journal = "j") {
    EXPECT_TRUE(store_->begin(journal, number(n)));
    store_->finish(journal, number(n), reply(head));
  }
  std::string head_of(std::uint64_t n, const std::string& journal = "j") {
    const auto result = store_->result(journal, number(n));
    if (!result) return "no: " + result.error().detail;
    return result->kind == ResultKind::lost ? "lost" : result->head;
  }

  std::string folder_;
  std::shared_ptr<JournalStore> store_;
};

TEST_F(JournalStoreTest, OutlivesTheAgent) {
  start();
  ASSERT_TRUE(store_->claim("j", "alice"));
  perform(1, "one");
  perform(2, "two");
  perform(1, "other", "k");
  for (int i = 0; i < 3; ++i) {
    start();
    EXPECT_EQ("one", head_of(1));
    EXPECT_EQ("two", head_of(2));
    EXPECT_EQ("other", head_of(1, "k"));
    EXPECT_EQ("no: its result is not kept any more", head_of(3));
    EXPECT_FALSE(store_->claim("j", "bob"));
    EXPECT_TRUE(store_->claim("j", "alice")->known);
    EXPECT_EQ(2U, store_->facts("j").begun.value);
  }
  struct stat attributes {};
  ASSERT_EQ(0, ::stat(file().c_str(), &attributes));
  EXPECT_EQ(0600U, attributes.st_mode & 07777);
}

TEST_F(JournalStoreTest, WhatHadBegunIsLost) {
  start();
  perform(1, "one");
  ASSERT_TRUE(store_->begin("j", number(2)));
  start();
  EXPECT_EQ("lost", head_of(2));
  EXPECT_EQ(2U, store_->facts("j").begun.value);
  EXPECT_EQ(2U, store_->facts("j").finished.value);
  start();
  EXPECT_EQ("lost", head_of(2)) << "also for the agent after the next";
  perform(2, "again");
  perform(3, "three");
  start();
  EXPECT_EQ("again", head_of(2));
  EXPECT_EQ("three", head_of(3));
}

TEST_F(JournalStoreTest, UnexecutedOnesAreRecordedWithTheNextWrite) {
  start();
  store_->finish_later("j", number(1), {ResultKind::error, "e"});
  EXPECT_EQ("e", head_of(1));
  store_->flush();
  store_->finish_later("j", number(2), {ResultKind::error, "f"});
  ASSERT_TRUE(store_->begin("j", number(3)));
  store_->finish_later("j", number(4), {ResultKind::error, "never written"});
  start();
  EXPECT_EQ("e", head_of(1));
  EXPECT_EQ("f", head_of(2));
  EXPECT_EQ("lost", head_of(3));
  EXPECT_EQ(3U, store_->facts("j").begun.value);
}

TEST_F(JournalStoreTest, ATornFileLosesTheTornRecordOnly) {
  start();
  perform(1, "one");
  const std::size_t before = content().size();
  perform(2, "two");
  const std::string bytes = content();
  store_.reset();
  for (std::size_t size = before; size < bytes.size(); ++size) {
    set_content(bytes.substr(0, size));
    start();
    EXPECT_EQ("one", head_of(1)) << size;
    const std::string second = head_of(2);
    EXPECT_TRUE(second == "lost" || second == "no: its result is not kept any more") << second;
    EXPECT_EQ(second == "lost" ? 2U : 1U, store_->facts("j").begun.value);
    store_.reset();
  }
}

TEST_F(JournalStoreTest, ADamagedMiddleCostsItsRecordsOnly) {
  start();
  perform(1, "one");
  const std::size_t at = content().size();
  perform(2, "two");
  perform(3, "three");
  std::string bytes = content();
  store_.reset();
  bytes[at + 50] = static_cast<char>(bytes[at + 50] ^ 1);  // the result of 2
  set_content(bytes);
  start();
  EXPECT_EQ("one", head_of(1));
  EXPECT_EQ("lost", head_of(2));
  EXPECT_EQ("three", head_of(3));
  EXPECT_EQ(3U, store_->facts("j").begun.value);
}

TEST_F(JournalStoreTest, WhatIsNotItsFileIsRefused) {
  std::string other_version;
  append_journal_record(other_version, {JournalRecordType::opened, 0, 2, "boot", {}, false, {}});
  std::string no_front;
  append_journal_record(no_front, journal_record(1, 0, "j"));
  for (const std::string& bytes : {std::string("text"), other_version, no_front, std::string(1000, '\0')}) {
    set_content(bytes);
    const auto opened = open();
    ASSERT_FALSE(opened) << bytes.substr(0, 10);
    EXPECT_NE(std::string::npos, opened.error().message().find("remove that file")) << opened.error().message();
    EXPECT_EQ(bytes, content()) << "left as it is";
  }
  set_content("");
  EXPECT_TRUE(open());
}

TEST_F(JournalStoreTest, AfterAStartOfTheMachineTheRecordIsInDoubt) {
  std::string bytes;
  append_journal_record(bytes, {JournalRecordType::opened, 0, 1, "another boot", {}, false, {}});
  append_journal_record(bytes, journal_record(1, 0, "j"));
  append_journal_record(bytes, finished_record(1, 1, reply("one")));
  std::string closed = bytes;
  append_journal_record(closed, {JournalRecordType::closed, 0, 0, {}, {}, false, {}});

  set_content(closed);
  start();
  EXPECT_TRUE(store_->facts("j").known) << "an orderly end";
  store_.reset();
  set_content(bytes);
  start();
  EXPECT_FALSE(store_->facts("j").known);
  EXPECT_EQ("one", head_of(1));
  start();
  EXPECT_FALSE(store_->facts("j").known) << "the doubt stays";
  perform(2, "two");
  start();
  EXPECT_TRUE(store_->facts("j").known) << "its client has gone on from there";
}

TEST_F(JournalStoreTest, TheFileIsRewrittenBeforeItIsLarge) {
  start();
  const std::string head(2000, 'h');
  std::uint64_t most = 0;
  for (std::uint64_t n = 1; n <= 20000; ++n) {
    perform(n, head);
    most = std::max(most, store_->file_size());
  }
  // Twice the results of a journal, and what it may grow by.
  EXPECT_LE(most, 3 * JournalTable::kMaxResultBytes + JournalStore::kRewriteAt);
  EXPECT_GT(most, JournalStore::kRewriteAt) << "it was rewritten";
  EXPECT_EQ(content().size(), store_->file_size());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/journals.new"));
  perform(20001, "last");
  start();
  EXPECT_EQ("last", head_of(20001));
  EXPECT_EQ(head, head_of(20000));
  EXPECT_EQ("no: its result is not kept any more", head_of(1));
}

/// No file grows beyond this any more; the signal that comes with it is ignored, as workers block it.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST_F(JournalStoreTest, WhatCannotBeRecordedIsNotBegun) {
  start();
  perform(1, "one");
  const std::uint64_t size = store_->file_size();
  for (const rlim_t room : {0, 1, 20}) {
    const FileLimit limit(size + room);
    const auto begun = store_->begin("j", number(2));
    ASSERT_FALSE(begun);
    EXPECT_EQ(EFBIG, begun.error().os_errno);
    EXPECT_EQ(size, content().size()) << "half a record is cut off again";
    store_->finish("j", number(2), {ResultKind::error, "refused"});
    EXPECT_EQ("refused", head_of(2));
  }
  perform(3, "three");
  start();
  EXPECT_EQ("one", head_of(1));
  EXPECT_EQ("refused", head_of(2));
  EXPECT_EQ("three", head_of(3));
}

TEST_F(JournalStoreTest, AResultThatCannotBeRecordedIsLostForTheNextAgent) {
  start();
  ASSERT_TRUE(store_->begin("j", number(1)));
  {
    const FileLimit limit(store_->file_size());
    store_->finish("j", number(1), reply("one"));
  }
  EXPECT_EQ("one", head_of(1));
  start();
  EXPECT_EQ("lost", head_of(1));
}

TEST_F(JournalStoreTest, ALongTimeWithoutRoomIsMadeUpFor) {
  start();
  perform(1, "one");
  {
    const FileLimit limit(store_->file_size());
    for (std::uint64_t n = 2; n <= 1200; ++n) {
      EXPECT_FALSE(store_->begin("j", number(n)));
      store_->finish("j", number(n), {ResultKind::error, std::string(1000, 'e')});
    }
  }
  perform(1201, "last");
  start();
  EXPECT_EQ("last", head_of(1201));
  EXPECT_EQ(std::string(1000, 'e'), head_of(1200));
  EXPECT_EQ("one", head_of(1));
}

TEST_F(JournalStoreTest, AHundredThousandRecordsAreReadQuickly) {
  start();
  const std::string head(200, 'h');
  std::string bytes = content();
  append_journal_record(bytes, journal_record(100, 0, "j"));
  for (std::uint64_t n = 1; n <= 50000; ++n) {
    append_journal_record(bytes, begun_record(100, n));
    append_journal_record(bytes, finished_record(100, n, reply(head)));
  }
  store_.reset();
  set_content(bytes);
  const auto before = std::chrono::steady_clock::now();
  start();
  const auto took = std::chrono::steady_clock::now() - before;
  RecordProperty("milliseconds", static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  EXPECT_EQ(head, head_of(50000));
  EXPECT_LT(store_->result_bytes(), JournalTable::kMaxResultBytes);
  EXPECT_LT(took, std::chrono::seconds(5)) << "well under one as it is built for use";
}

TEST_F(JournalStoreTest, TheStateFolderHasIt) {
  const std::string folder = folder_ + "/state";
  {
    auto state = State::open(folder);
    ASSERT_TRUE(state);
    ASSERT_TRUE(state->journals()->begin("j", number(1)));
    state->journals()->finish("j", number(1), reply("one"));
  }
  {
    auto state = State::open(folder);
    ASSERT_TRUE(state);
    EXPECT_EQ("one", state->journals()->result("j", number(1))->head);
  }
  std::ofstream(folder + "/journals") << "text";
  const auto state = State::open(folder);
  ASSERT_FALSE(state);
  EXPECT_NE(std::string::npos, state.error().message().find(folder)) << state.error().message();
  EXPECT_NE(std::string::npos, state.error().message().find("remove that file"));
  EXPECT_EQ(1U, State::temporary().journals()->journals() + 1);
}

}  // namespace
}  // namespace sandbar::agent
