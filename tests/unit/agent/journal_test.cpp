// SPDX-License-Identifier: Apache-2.0
#include "agent/journal.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "agent/id_table.h"
#include "fakes/fake_loop.h"

namespace sandbar::agent {
namespace {

class JournalsTest : public testing::Test {
 protected:
  void enter(std::uint64_t number, const std::string& journal = "j") {
    const std::size_t before = log.size();
    journals.enter(journal, wire::MutationNumber(number),
                   [this, number](const Result<void>& turn) { log.push_back(text(number, turn)); });
    EXPECT_EQ(before, log.size()) << "answered inside the call";
    loop.drain();
  }
  JournalWaitId wait_for(std::uint64_t number) {
    const JournalWaitId id =
        journals.when_finished("j", wire::MutationNumber(number),
                               [this, number](const Result<void>& done) { log.push_back("w" + text(number, done)); });
    loop.drain();
    return id;
  }
  void finish(std::uint64_t number) {
    journals.finish("j", wire::MutationNumber(number));
    loop.drain();
  }
  static std::string text(std::uint64_t number, const Result<void>& result) {
    return std::to_string(number) + (result ? "" : " " + std::string(errc_name(result.error().code)));
  }
  using Log = std::vector<std::string>;

  fakes::FakeLoop loop;
  Log log;
  Journals journals{loop};
};

TEST_F(JournalsTest, OneAtATimeInOrder) {
  enter(3);
  enter(1);
  enter(2);
  EXPECT_EQ((Log{"1"}), log);
  EXPECT_EQ(1U, journals.last_begun("j").value);
  EXPECT_EQ(0U, journals.last_finished("j").value);
  finish(1);
  EXPECT_EQ((Log{"1", "2"}), log);
  finish(2);
  finish(3);
  EXPECT_EQ(3U, journals.last_finished("j").value);
  enter(1, "other");
  EXPECT_EQ("1", log.back());
}

TEST_F(JournalsTest, RepeatsAreRefused) {
  enter(1);
  enter(1);
  enter(3);
  enter(3);
  EXPECT_EQ((Log{"1", "1 unknown", "3 protocol"}), log);
}

TEST_F(JournalsTest, SkippedNumbersCount) {
  enter(2);
  enter(3);
  EXPECT_TRUE(journals.skip("j", wire::MutationNumber(2)));
  EXPECT_FALSE(journals.skip("j", wire::MutationNumber(2)));
  EXPECT_EQ((Log{"2 cancelled"}), log);
  enter(2);
  EXPECT_EQ("2 protocol", log.back()) << "a skipped number is not free";
  enter(1);
  finish(1);
  EXPECT_EQ("3", log.back());
  EXPECT_EQ(2U, journals.last_finished("j").value);
}

TEST_F(JournalsTest, AbandonedNumbersAreFreeAgain) {
  enter(2);
  EXPECT_TRUE(journals.abandon("j", wire::MutationNumber(2)));
  EXPECT_FALSE(journals.abandon("j", wire::MutationNumber(7)));
  enter(1);
  finish(1);
  EXPECT_EQ(1U, journals.last_begun("j").value);
  enter(2);
  EXPECT_EQ("2", log.back());
  EXPECT_FALSE(journals.abandon("j", wire::MutationNumber(2))) << "it has begun";
}

TEST_F(JournalsTest, WaitsForWhatIsFinished) {
  wait_for(0);
  wait_for(2);
  const JournalWaitId dropped = wait_for(1);
  EXPECT_EQ((Log{"w0"}), log);
  journals.stop_waiting(dropped);
  EXPECT_EQ((Log{"w0", "w1 cancelled"}), log);
  enter(1);
  finish(1);
  enter(2);
  finish(2);
  EXPECT_EQ((Log{"w0", "w1 cancelled", "1", "2", "w2"}), log);
  wait_for(1);
  EXPECT_EQ("w1", log.back());
  journals.stop_waiting(dropped);
}

TEST_F(JournalsTest, WaitersAreBounded) {
  for (std::uint64_t i = 0; i < Journals::kMaxWaiting; ++i) enter(i + 2);
  EXPECT_TRUE(log.empty());
  enter(Journals::kMaxWaiting + 2);
  EXPECT_EQ((Log{std::to_string(Journals::kMaxWaiting + 2) + " limit"}), log);
}

TEST_F(JournalsTest, OldJournalsAreForgotten) {
  enter(1, "busy");
  for (std::size_t i = 0; i <= Journals::kMaxJournals; ++i) {
    enter(1, std::to_string(i));
    journals.finish(std::to_string(i), wire::MutationNumber(1));
  }
  EXPECT_EQ(0U, journals.last_begun("0").value);
  EXPECT_EQ(1U, journals.last_begun(std::to_string(Journals::kMaxJournals)).value);
  EXPECT_EQ(1U, journals.last_begun("busy").value);
}

TEST(IdTable, RemembersABoundedNumberOfFailures) {
  using Table = IdTable<wire::ObjectId, int, int>;
  Table table;
  std::deque<int> woken;
  for (std::uint64_t i = 1; i <= Table::kMaxFailed + 1; ++i) {
    ASSERT_TRUE(table.begin_bind(wire::ObjectId(i)));
    table.fail(wire::ObjectId(i), make_error(Errc::invalid, "x"), woken);
  }
  EXPECT_EQ(nullptr, table.find(wire::ObjectId(1)));
  EXPECT_NE(nullptr, table.find(wire::ObjectId(2)));
  EXPECT_EQ(Table::kMaxFailed, table.size());
}

}  // namespace
}  // namespace sandbar::agent
