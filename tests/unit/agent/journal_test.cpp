// SPDX-License-Identifier: Apache-2.0
#include "agent/journal.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "agent/id_table.h"
#include "fakes/fake_loop.h"
#include "wire/codec.h"

namespace sandbar::agent {
namespace {

class JournalsTest : public testing::Test {
 protected:
  JournalTurnId enter(std::uint64_t number, const std::string& journal = "j", bool may_repeat = false) {
    const std::size_t before = log.size();
    const JournalTurnId id =
        journals->enter(journal, wire::MutationNumber(number), may_repeat,
                        [this, number](const Result<MutationTurn>& turn) { log.push_back(text(number, turn)); });
    EXPECT_EQ(before, log.size()) << "answered inside the call";
    loop.drain();
    return id;
  }
  JournalWaitId wait_for(std::uint64_t number) {
    const JournalWaitId id = journals->when_finished(
        "j", wire::MutationNumber(number),
        [this, number](const Result<void>& done) { log.push_back("w" + std::to_string(number) + said(done)); });
    loop.drain();
    return id;
  }
  /// As a worker and then the session do it.
  void finish(std::uint64_t number, const std::string& journal = "j") {
    EXPECT_TRUE(store->begin(journal, wire::MutationNumber(number)));
    store->finish(journal, wire::MutationNumber(number), {ResultKind::reply, "result " + std::to_string(number)});
    journals->finished(journal, wire::MutationNumber(number));
    loop.drain();
  }
  void give_back(std::uint64_t number) {
    journals->give_back("j", wire::MutationNumber(number));
    loop.drain();
  }
  /// The agent is another one, with the same memory.
  void start_anew() {
    journals.reset();
    journals.emplace(loop, store);
  }
  static std::string said(const auto& result) {
    return result ? "" : " " + std::string(errc_name(result.error().code));
  }
  static std::string text(std::uint64_t number, const Result<MutationTurn>& turn) {
    std::string text = std::to_string(number) + said(turn);
    if (turn && turn->repeated) text += turn->repeated->kind == ResultKind::error ? " error" : " again";
    return text;
  }
  using Log = std::vector<std::string>;

  fakes::FakeLoop loop;
  Log log;
  std::shared_ptr<JournalStore> store = std::make_shared<JournalStore>();
  std::optional<Journals> journals{std::in_place, loop, store};
};

TEST_F(JournalsTest, OneAtATimeInOrder) {
  enter(3);
  enter(1);
  enter(2);
  EXPECT_EQ((Log{"1"}), log);
  EXPECT_EQ(1U, journals->last_begun("j").value);
  EXPECT_EQ(0U, journals->last_finished("j").value);
  finish(1);
  EXPECT_EQ((Log{"1", "2"}), log);
  finish(2);
  finish(3);
  EXPECT_EQ(3U, journals->last_finished("j").value);
  enter(1, "other");
  EXPECT_EQ("1", log.back());
}

TEST_F(JournalsTest, ARepeatIsAnsweredInEachState) {
  enter(3);
  enter(3);  // waits for its turn, twice
  enter(1);
  enter(1);  // runs
  EXPECT_EQ((Log{"1"}), log);
  finish(1);
  EXPECT_EQ((Log{"1", "1 again"}), log);
  enter(1);  // done
  EXPECT_EQ("1 again", log.back());
  enter(2);
  finish(2);
  EXPECT_EQ("3", log.back());
  finish(3);
  EXPECT_EQ((Log{"1", "1 again", "1 again", "2", "3", "3 again"}), log);
  EXPECT_EQ("result 3", store->result("j", wire::MutationNumber(3))->head);
}

TEST_F(JournalsTest, ARepeatWhoseResultIsGoneIsUnknown) {
  std::string why;
  const auto ask = [&](std::uint64_t number) {
    journals->enter("j", wire::MutationNumber(number), true,
                    [&](const Result<MutationTurn>& turn) { why = turn ? "" : turn.error().message(); });
    loop.drain();
  };
  store->raise("j", wire::MutationNumber(5));
  ask(5);
  EXPECT_EQ("mutation 5: its result is not kept any more", why);
  store->finish("j", wire::MutationNumber(6), {ResultKind::lost, {}});
  store->finish("j", wire::MutationNumber(7), {ResultKind::reply, {}});
  ask(6);
  EXPECT_EQ("mutation 6: its result is not known: the agent was killed while it was done", why);
}

TEST_F(JournalsTest, TheLastLostOneMayBeExecutedAgain) {
  store->finish("j", wire::MutationNumber(4), {ResultKind::lost, {}});
  enter(4);
  EXPECT_EQ((Log{"4 unknown"}), log) << "it is none of those that may be";
  enter(5);
  give_back(5);
  log.clear();
  enter(4, "j", true);
  enter(5);
  enter(4, "j", true);
  EXPECT_EQ((Log{"4"}), log);
  finish(4);
  EXPECT_EQ((Log{"4", "4 again", "5"}), log);
  finish(5);
  enter(4, "j", true);
  EXPECT_EQ("4 again", log.back());
}

TEST_F(JournalsTest, ALostOneIsNotExecutedBehindALaterOne) {
  store->finish("j", wire::MutationNumber(4), {ResultKind::lost, {}});
  enter(5);
  enter(4, "j", true);
  EXPECT_EQ((Log{"5", "4 unknown"}), log);
}

TEST_F(JournalsTest, ALostOneThatIsGivenBackStaysLost) {
  store->finish("j", wire::MutationNumber(4), {ResultKind::lost, {}});
  enter(4, "j", true);
  give_back(4);
  EXPECT_EQ(4U, journals->last_finished("j").value);
  enter(4, "j", true);
  finish(4);
  EXPECT_EQ((Log{"4", "4"}), log);
}

TEST_F(JournalsTest, SkippedNumbersCount) {
  const JournalTurnId second = enter(2);
  enter(3);
  EXPECT_TRUE(journals->skip(second));
  EXPECT_FALSE(journals->skip(second));
  EXPECT_EQ((Log{"2 cancelled"}), log);
  enter(2);
  EXPECT_EQ("2 error", log.back()) << "a skipped number is not free";
  const JournalTurnId first = enter(1);
  EXPECT_FALSE(journals->skip(first)) << "it has begun";
  finish(1);
  EXPECT_EQ("3", log.back());
  EXPECT_EQ(2U, journals->last_finished("j").value);
  enter(2);
  EXPECT_EQ("2 error", log.back());
}

TEST_F(JournalsTest, WhatAnotherHasSentTooIsNotSkipped) {
  const JournalTurnId one = enter(2);
  const JournalTurnId other = enter(2);
  EXPECT_TRUE(journals->skip(one));
  enter(1);
  const JournalTurnId follower = enter(1);
  EXPECT_FALSE(journals->skip(follower)) << "it is executed already";
  EXPECT_TRUE(journals->abandon(follower));
  finish(1);
  EXPECT_EQ((Log{"2 cancelled", "1", "1 cancelled", "2"}), log);
  EXPECT_FALSE(journals->skip(other));
}

TEST_F(JournalsTest, AbandonedNumbersAreFreeAgain) {
  const JournalTurnId second = enter(2);
  EXPECT_TRUE(journals->abandon(second));
  EXPECT_FALSE(journals->abandon(second));
  EXPECT_FALSE(journals->abandon(JournalTurnId(12345)));
  enter(1);
  finish(1);
  EXPECT_EQ(1U, journals->last_begun("j").value);
  const JournalTurnId again = enter(2);
  EXPECT_EQ("2", log.back());
  EXPECT_FALSE(journals->abandon(again)) << "it has begun";
}

TEST_F(JournalsTest, WhatIsGivenBackIsFreeOrAnothersTurn) {
  enter(1);
  give_back(1);
  EXPECT_EQ(0U, journals->last_begun("j").value);
  enter(1);
  enter(1);
  EXPECT_EQ((Log{"1", "1"}), log);
  give_back(1);
  EXPECT_EQ((Log{"1", "1", "1"}), log) << "who waited for the result executes it";
  finish(1);
  // Nobody may find a number free that a hello has told of.
  enter(2);
  EXPECT_EQ(2U, journals->claim("j", "")->begun.value);
  give_back(2);
  EXPECT_EQ(2U, journals->last_finished("j").value);
  enter(2);
  EXPECT_EQ("2 error", log.back());
  EXPECT_EQ(ResultKind::error, store->result("j", wire::MutationNumber(2))->kind);
}

TEST_F(JournalsTest, WaitsForWhatIsFinished) {
  wait_for(0);
  wait_for(2);
  const JournalWaitId dropped = wait_for(1);
  EXPECT_EQ((Log{"w0"}), log);
  journals->stop_waiting(dropped);
  EXPECT_EQ((Log{"w0", "w1 cancelled"}), log);
  enter(1);
  finish(1);
  enter(2);
  finish(2);
  EXPECT_EQ((Log{"w0", "w1 cancelled", "1", "2", "w2"}), log);
  wait_for(1);
  EXPECT_EQ("w1", log.back());
  journals->stop_waiting(dropped);
}

TEST_F(JournalsTest, WaitersAreBounded) {
  for (std::uint64_t i = 0; i < Journals::kMaxWaiting / 2; ++i) enter(i + 2);
  for (std::uint64_t i = 0; i < Journals::kMaxWaiting / 2; ++i) enter(2);
  EXPECT_TRUE(log.empty());
  enter(Journals::kMaxWaiting);
  enter(1);
  EXPECT_EQ((Log{std::to_string(Journals::kMaxWaiting) + " limit", "1 limit"}), log);
}

TEST_F(JournalsTest, AJournalIsOneSubjects) {
  ASSERT_TRUE(journals->claim("j", "alice"));
  const auto claimed = journals->claim("j", "bob");
  ASSERT_FALSE(claimed);
  EXPECT_EQ(Errc::unauthorized, claimed.error().code);
  EXPECT_NE(std::string::npos, claimed.error().message().find("the journal belongs to another subject"));
  EXPECT_TRUE(journals->claim("j", "alice"));
  EXPECT_FALSE(journals->claim("j", ""));
  EXPECT_TRUE(journals->claim("another", "bob"));
  start_anew();
  EXPECT_FALSE(journals->claim("j", "bob"));
}

TEST_F(JournalsTest, AClientLearnsWhatIsKnown) {
  EXPECT_FALSE(journals->claim("j", "")->known);
  enter(1);
  EXPECT_EQ(1U, journals->claim("j", "")->begun.value);
  EXPECT_EQ(0U, journals->claim("j", "")->finished.value);
  finish(1);
  start_anew();
  const auto facts = journals->claim("j", "");
  EXPECT_TRUE(facts->known);
  EXPECT_EQ(1U, facts->begun.value);
  EXPECT_EQ(1U, facts->finished.value);
}

// A record can be older than its client: after a power loss, or where it could not be written.
TEST_F(JournalsTest, NumbersThatAreAnsweredAreNotWaitedFor) {
  enter(8);
  wait_for(7);
  const auto facts = journals->claim("j", "", wire::MutationNumber(7));
  loop.drain();
  EXPECT_FALSE(facts->known);
  EXPECT_EQ(8U, facts->begun.value);
  EXPECT_EQ((Log{"w7", "8"}), log);
  finish(8);
  EXPECT_EQ(8U, journals->claim("j", "", wire::MutationNumber(3))->begun.value);
  // While another session's mutation is under way there is nothing that could be missing.
  enter(9);
  EXPECT_EQ(9U, journals->claim("j", "", wire::MutationNumber(20))->begun.value);
  finish(9);
  enter(12);
  EXPECT_EQ(9U, journals->claim("j", "", wire::MutationNumber(12))->begun.value) << "a client that contradicts itself";
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
