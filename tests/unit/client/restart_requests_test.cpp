// SPDX-License-Identifier: Apache-2.0
// What becomes of requests that were not answered when their session was lost: each row of the table in sandbox-mux.7.
#include <fcntl.h>

#include <cerrno>

#include "client/resend.h"
#include "restart_fixture.h"

namespace sandbar::client {
namespace {

template <std::size_t... I>
std::vector<wire::RequestBody> one_of_each(std::index_sequence<I...>) {
  return {wire::RequestBody(std::in_place_index<I>)...};
}

/// Each kind of request and, where a field decides, each way. Handle 1 and object 2 are known.
std::vector<wire::RequestBody> rows() {
  std::vector<wire::RequestBody> all;
  for (auto& request : one_of_each(std::make_index_sequence<std::variant_size_v<wire::RequestBody>>())) {
    if (auto* release = std::get_if<wire::Release>(&request)) release->objects = {ObjectId(2)};
    if (auto* close = std::get_if<wire::Close>(&request)) close->handle = HandleId(1);
    all.push_back(request);
  }
  all.emplace_back(wire::Open{ObjectId(2), HandleId(3), O_RDWR | O_TRUNC});
  all.emplace_back(wire::Write{HandleId(1), 0, true});
  all.emplace_back(wire::SetXattr{ObjectId(2), "n", 1});
  all.emplace_back(wire::Allocate{HandleId(1), 0x08, 0, 1});
  all.emplace_back(wire::Lock{.handle = HandleId(1), .owner = wire::LockOwner(1), .type = wire::LockType::unlock});
  return all;
}

class RowTest : public RestartTest {
 protected:
  void expect_row(const wire::RequestBody& request, bool known) {
    SCOPED_TRACE(std::string(wire::request_name(request)) + (known ? " remembered" : " forgotten"));
    const ResendRule rule = resend_rule(request);
    const Resend resend = known ? rule.known : rule.forgotten;
    open_one_file();
    const OutcomePtr outcome = submit(request, "body");
    const std::uint64_t number = agent.requests.back().context.mutation.value;
    const wire::RequestBody sent = agent.requests.back().body;
    lose_and_restart(known ? hello(number, 2) : forgotten(0));
    const bool arrives = !agent.requests.empty() && agent.requests.back().body == sent;
    switch (resend) {
      case Resend::again:
      case Resend::by_number:
        ASSERT_TRUE(arrives);
        EXPECT_FALSE(outcome->result.has_value());
        EXPECT_EQ(agent.bodies.back(), "body");
        EXPECT_EQ(agent.requests.back().context.mutation.value, number) << "numbers begin at 1 in both";
        answer(agent.requests.size() - 1);
        EXPECT_TRUE(outcome->ok());
        break;
      case Resend::settled:
        EXPECT_FALSE(arrives);
        EXPECT_TRUE(outcome->ok());
        break;
      case Resend::unknown:
        EXPECT_FALSE(arrives);
        EXPECT_TRUE(outcome->failed(Errc::unknown));
        break;
    }
  }
};

/// A test for each row and column.
class EachRow : public RowTest, public testing::WithParamInterface<std::tuple<std::size_t, bool>> {};
TEST_P(EachRow, IsAsTheManualSays) { expect_row(rows().at(std::get<0>(GetParam())), std::get<1>(GetParam())); }
INSTANTIATE_TEST_SUITE_P(Table, EachRow,
                         testing::Combine(testing::Range<std::size_t>(0, rows().size()), testing::Bool()),
                         [](const auto& info) {
                           const std::size_t row = std::get<0>(info.param);
                           return std::string(wire::request_name(rows().at(row))) + "_" + std::to_string(row) +
                                  (std::get<1>(info.param) ? "_remembered" : "_forgotten");
                         });

// --- The order and the numbers ---------------------------------------------------------------------------------

using RestartRequests = RestartTest;

TEST_F(RestartRequests, GoOutInTheirOrderAndWhatComesInBetweenBehindThem) {
  open_one_file();
  const auto write = submit(wire::Write{HandleId(1), 0, false}, "one");
  const auto read = submit(wire::Read{HandleId(1), 0, 3});
  lose();
  const auto later = submit(wire::Write{HandleId(1), 3, false}, "two");
  EXPECT_FALSE(write->result || read->result || later->result) << "they wait";
  restart(hello(1, 2));
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "write", "read", "write"}));
  EXPECT_EQ(numbers(), (Numbers{0, 0, 0, 1, 0, 2}));
  EXPECT_EQ(agent.bodies.at(3), "one");
  EXPECT_EQ(agent.bodies.at(5), "two");
  answer(4, wire::EmptyReply{}, "one");
  EXPECT_EQ((*read->result)->body, "one");
  refuse(3, os_error(ENOSPC, "write"));
  EXPECT_EQ(write->os_errno(), ENOSPC);
  EXPECT_EQ(files_->last_mutation(), MutationNumber(2));
}

TEST_F(RestartRequests, AnUnknownOutcomeIsPassedOn) {
  attach(1);
  const auto made = submit(wire::MakeDirectory{ObjectId(1), "d", 0755, ObjectId(2)});
  lose_and_restart(hello(1, 2));
  refuse(1, make_error(Errc::unknown, "mutation 1", "not on record"));
  EXPECT_TRUE(made->failed(Errc::unknown));
}

TEST_F(RestartRequests, NumbersThatNobodyWaitsForAreUsedUp) {
  attach(1);
  const auto first = submit(wire::Unlink{ObjectId(1), "a"});
  const auto second = submit(wire::Unlink{ObjectId(1), "b"});
  const auto third = submit(wire::Unlink{ObjectId(1), "c"});
  files_->cancel(first->id);
  lose();
  const auto fourth = submit(wire::Unlink{ObjectId(1), "d"});
  files_->cancel(third->id);
  files_->cancel(fourth->id);
  loop.drain();
  restart(hello(0));  // nothing was begun
  EXPECT_EQ(asked(), (Words{"unlink", "restore 1", "unlink", "unlink", "unlink"}));
  EXPECT_EQ(numbers(), (Numbers{1, 0, 2, 3, 4}));
  for (const std::size_t filler : {0U, 3U, 4U}) {
    EXPECT_EQ(agent.requests.at(filler).body, wire::RequestBody(wire::Unlink{})) << filler;
    refuse(filler, os_error(ESTALE, "find an object"));
  }
  answer(2);
  EXPECT_TRUE(second->ok());
  submit(wire::Unlink{ObjectId(1), "e"});
  EXPECT_EQ(numbers().back(), 5U);
}

TEST_F(RestartRequests, AMutationThatCannotGoOutUsesItsNumberUp) {
  open_one_file();
  lock(1, 10);
  lose_and_restart(hello(0));
  const auto write = submit(wire::Write{HandleId(1), 0, false}, "x");
  EXPECT_EQ(write->os_errno(), EIO);
  submit(wire::Unlink{ObjectId(1), "a"});
  EXPECT_EQ(numbers(), (Numbers{1, 0, 2}));
  EXPECT_EQ(agent.requests.at(0).body, wire::RequestBody(wire::Unlink{}));
}

TEST_F(RestartRequests, WhereTheJournalIsForgottenNumbersBeginAnew) {
  open_one_file();
  done(wire::Write{HandleId(1), 0, false}, wire::Write::Reply{1, 0});
  const auto write = submit(wire::Write{HandleId(1), 1, false}, "w");
  const auto rename = submit(wire::Rename{ObjectId(1), "f", ObjectId(1), "g", 0});
  const auto mode = submit(set_mode(2, 0600));
  lose();
  const auto never_sent = submit(wire::Unlink{ObjectId(1), "x"});
  restart(forgotten(0));
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "write", "set_attributes", "unlink"}));
  EXPECT_EQ(numbers(), (Numbers{0, 0, 0, 1, 2, 3}));
  EXPECT_TRUE(rename->failed(Errc::unknown));
  for (std::size_t i = 3; i < 6; ++i) answer(i);
  EXPECT_TRUE(write->ok() && mode->ok() && never_sent->ok());
  submit(wire::Unlink{ObjectId(1), "y"});
  EXPECT_EQ(numbers().back(), 4U);
}

TEST_F(RestartRequests, WhatALaterAnswerShowsToBeDoneIsNotDoneAgain) {
  open_one_file();
  const auto first = submit(wire::Write{HandleId(1), 0, false}, "old");
  submit(wire::Write{HandleId(1), 0, false}, "new");
  answer(agent.requests.size() - 1, wire::Write::Reply{3, 0});
  lose_and_restart(hello(0, 1, "another"));
  EXPECT_TRUE(first->failed(Errc::unknown)) << "it would undo the second one";
  EXPECT_EQ(asked(), Words{});
}

TEST_F(RestartRequests, WhatIsWaitedForIsNumberedAnewToo) {
  attach(1);
  const auto after = [](std::uint64_t number) {
    return wire::RequestContext{.caller = {}, .mutation = {}, .after = MutationNumber(number)};
  };
  done(wire::Unlink{ObjectId(1), "1"});
  submit(wire::Unlink{ObjectId(1), "2"});  // unknown then
  submit(set_mode(1, 0700));               // 3, and 1 then
  submit(wire::GetAttributes{ObjectId(1), {}}, {}, {}, after(2));
  submit(wire::GetAttributes{ObjectId(1), {}}, {}, {}, after(3));
  lose_and_restart(hello(0, 1, "another"));
  ASSERT_EQ(asked(), (Words{"restore 1", "set_attributes", "get_attributes", "get_attributes"}));
  EXPECT_EQ(agent.requests.at(1).context.mutation, MutationNumber(1));
  EXPECT_EQ(agent.requests.at(2).context.after, MutationNumber());
  EXPECT_EQ(agent.requests.at(3).context.after, MutationNumber(1));
  submit(wire::GetAttributes{ObjectId(1), {}}, {}, {}, after(3));
  EXPECT_EQ(agent.requests.back().context.after, MutationNumber(1)) << "3 would not come for long";
}

TEST_F(RestartRequests, AMemoryThatDoesNotFitIsNone) {
  attach(1);
  for (const auto& now : {hello(1), hello(4), hello(3, 1, "another"), forgotten(3)}) {
    done(wire::Unlink{ObjectId(1), "a"});
    done(wire::Unlink{ObjectId(1), "b"});
    const auto pending = submit(wire::Unlink{ObjectId(1), "c"});
    wire::Hello shifted = now;
    shifted.last_mutation.value += files_->last_mutation().value - 3;
    lose_and_restart(shifted);
    EXPECT_TRUE(pending->failed(Errc::unknown)) << now.last_mutation.value << " " << now.agent;
    lose_and_restart(hello(files_->last_mutation().value));  // one that is believed, for the next
  }
}

TEST_F(RestartRequests, WhatWillNotBeSentAgain) {
  attach(1);
  EXPECT_EQ(files_->last_settled(), MutationNumber(0));
  const auto first = submit(wire::Unlink{ObjectId(1), "a"});
  submit(wire::Unlink{ObjectId(1), "b"});
  answer(2);
  EXPECT_EQ(files_->last_settled(), MutationNumber(0)) << "the first is unanswered";
  answer(1);
  EXPECT_EQ(files_->last_settled(), MutationNumber(2));
  submit(wire::StatFs{ObjectId(1)});
  EXPECT_EQ(files_->last_settled(), MutationNumber(2));
}

TEST_F(RestartRequests, ASecondLossInTheMiddleOfTheFirst) {
  open_one_file();
  const auto write = submit(wire::Write{HandleId(1), 0, false}, "data");
  lose_and_restart(hello(1, 2));
  lose_and_restart(hello(1, 3));
  EXPECT_EQ(asked(), (Words{"restore 1", "restore 2", "open 2 as 1", "write"}));
  EXPECT_EQ(agent.bodies.back(), "data");
  answer(3, wire::Write::Reply{4, 0});
  EXPECT_TRUE(write->ok());
}

TEST_F(RestartRequests, AnAnswerThatComesAfterItsSessionIsNotHeard) {
  open_one_file();
  const auto read = submit(wire::Read{HandleId(1), 0, 3});
  files_->pause();  // the session itself is there still
  answer(agent.requests.size() - 1, wire::EmptyReply{}, "late");
  EXPECT_FALSE(read->result.has_value());
  const auto old = std::move(client_);
  const auto old_agent = std::move(agent_end_);
  restart(hello(0));
  EXPECT_FALSE(read->result.has_value());
  EXPECT_EQ(asked().back(), "read");
}

// --- Names come first ------------------------------------------------------------------------------------------

TEST_F(RestartRequests, NamesOnRecordAreAskedForBeforeAllElse) {
  open_one_file();
  const auto read = submit(wire::Read{HandleId(1), 0, 3});
  const auto rename = submit(wire::Rename{ObjectId(1), "f", ObjectId(1), "g", 0});
  const auto unsent_number = submit(wire::Unlink{ObjectId(1), "x"});
  lose_and_restart(hello(1, 2));
  EXPECT_EQ(asked(), (Words{"restore 1", "rename"}));
  const auto meanwhile = submit(wire::Unlink{ObjectId(1), "y"});
  EXPECT_EQ(asked(2), Words{});
  answer(1);
  EXPECT_TRUE(rename->ok());
  ASSERT_EQ(asked(2), (Words{"restore 2", "open 2 as 1", "read", "unlink", "unlink"}));
  EXPECT_EQ(std::get<wire::Restore>(agent.requests.at(2).body).path, "g") << "where it is now";
  EXPECT_EQ(numbers(), (Numbers{0, 1, 0, 0, 0, 2, 3}));
}

TEST_F(RestartRequests, NamesThatAreGivenUpLetTheOthersGo) {
  open_one_file();
  const auto read = submit(wire::Read{HandleId(1), 0, 3});
  const auto rename = submit(wire::Rename{ObjectId(1), "f", ObjectId(1), "g", 0}, {}, std::chrono::seconds(5));
  lose_and_restart(hello(1, 2));
  EXPECT_EQ(asked(), (Words{"restore 1", "rename"}));
  loop.advance(std::chrono::seconds(5));
  EXPECT_TRUE(rename->failed(Errc::timeout));
  EXPECT_EQ(asked().back(), "read");
  lose_and_restart(hello(1, 3));
  EXPECT_EQ(asked().back(), "read");
}

// --- Between two sessions --------------------------------------------------------------------------------------

TEST_F(RestartRequests, DeadlinesCountAndCallsCanBeCancelledWhileThereIsNone) {
  open_one_file();
  const auto sent = submit(wire::Read{HandleId(1), 0, 3}, {}, std::chrono::seconds(10));
  loop.advance(std::chrono::seconds(4));
  lose();
  const auto waiting = submit(wire::Read{HandleId(1), 0, 3}, {}, std::chrono::seconds(10));
  const auto cancelled = submit(wire::Read{HandleId(1), 0, 3});
  files_->cancel(cancelled->id);
  EXPECT_FALSE(cancelled->result) << "inside the call";
  loop.drain();
  EXPECT_TRUE(cancelled->failed(Errc::cancelled));
  loop.advance(std::chrono::milliseconds(5999));
  EXPECT_FALSE(sent->result);
  loop.advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(sent->failed(Errc::timeout));
  restart(hello(0));
  EXPECT_EQ(asked().back(), "read");
  loop.advance(std::chrono::seconds(4));
  EXPECT_TRUE(waiting->failed(Errc::timeout)) << "of both sessions together";
  EXPECT_TRUE(agent.responders.back().cancelled());
}

TEST_F(RestartRequests, CommandsOfALostSessionAreUnknownAtOnce) {
  const auto started = submit(spawn("p"));
  const auto wait = submit(wire::WaitProcess{"p"});
  const auto signal = submit(wire::SignalProcess{"p", 15});
  const auto read = submit(wire::StatFs{ObjectId(9)});
  lose();
  for (const auto& each : {started, wait, signal}) EXPECT_TRUE(each->failed(Errc::unknown));
  EXPECT_FALSE(read->result.has_value());
  EXPECT_TRUE(submit(spawn("q"))->failed(Errc::disconnected)) << "it has no streams: surely not started";
  const auto later = submit(wire::WaitProcess{"p"});
  restart(hello(0, 2));
  EXPECT_EQ(asked(), (Words{"statfs", "wait_process"}));
  submit(spawn("r"));
  EXPECT_EQ(asked().back(), "spawn");
}

TEST_F(RestartRequests, GivingUpFailsAllThatWaitsAndAllThatComes) {
  open_one_file();
  const auto sent = submit(wire::Read{HandleId(1), 0, 3});
  lose();
  const auto waiting = submit(wire::Unlink{ObjectId(1), "a"});
  files_->give_up(make_error(Errc::unauthorized, "connect", "the grant is over"));
  EXPECT_FALSE(sent->result) << "inside the call";
  loop.drain();
  for (const auto& each : {sent, waiting, submit(wire::StatFs{ObjectId(1)})}) {
    ASSERT_TRUE(each->failed(Errc::unauthorized));
    EXPECT_NE(each->result->error().message().find("grant is over"), std::string::npos);
  }
  restart(hello(0));
  submit(wire::StatFs{ObjectId(1)});
  EXPECT_EQ(asked(), (Words{"unlink", "restore 1", "statfs"})) << "unless there is a session after all";
  EXPECT_EQ(numbers(), (Numbers{1, 0, 0})) << "the unlink's number is used up";
}

TEST_F(RestartRequests, GivingUpAtOnce) {
  const auto sent = submit(wire::StatFs{ObjectId(1)});
  agent_end_.reset();
  loop.drain();
  files_->give_up(make_error(Errc::disconnected, "", "gone"));
  loop.drain();
  EXPECT_TRUE(sent->failed(Errc::disconnected));
}

TEST_F(RestartRequests, WhatIsUnansweredAtTheEndFails) {
  const auto sent = submit(wire::StatFs{ObjectId(1)});
  lose();
  const auto waiting = submit(wire::StatFs{ObjectId(1)}, {}, std::chrono::seconds(1));
  files_.reset();
  EXPECT_TRUE(sent->failed(Errc::disconnected));
  EXPECT_TRUE(waiting->failed(Errc::disconnected));
  loop.advance(std::chrono::seconds(2));
  EXPECT_EQ(waiting->runs, 1);
}

TEST_F(RestartRequests, AnAgentThatSaysDisconnectedIsTakenForOneThatEnds) {
  attach(1);
  const auto stat = submit(wire::StatFs{ObjectId(1)}, {}, std::chrono::seconds(9));
  const auto other = submit(wire::StatFs{ObjectId(1)}, {}, std::chrono::seconds(9));
  refuse(1, make_error(Errc::disconnected, "", "the agent ends"));
  refuse(2, make_error(Errc::disconnected, "", "the agent ends"));
  EXPECT_FALSE(stat->result.has_value());
  lose_and_restart(hello(0, 2));
  EXPECT_EQ(asked(), (Words{"restore 1", "statfs", "statfs"}));
  refuse(1, make_error(Errc::disconnected, "", "and stays"));
  loop.advance(std::chrono::seconds(9));
  EXPECT_TRUE(stat->failed(Errc::timeout)) << "nothing hangs";
}

TEST_F(RestartRequests, TellsHowItStands) {
  using Phase = ConnectionState::Phase;
  EXPECT_EQ(files_->state().phase, Phase::connected);
  files_->connection_broken();
  EXPECT_EQ(files_->state().phase, Phase::connecting);
  files_->connection_resumed();
  EXPECT_EQ(files_->state().phase, Phase::connected);
  EXPECT_EQ(files_->state().resumes, 1U);
  lose();
  EXPECT_EQ(files_->state().phase, Phase::lost);
  restart(hello(0, 8));
  EXPECT_EQ(files_->state().phase, Phase::connected);
  EXPECT_EQ(files_->state().sessions_lost, 1U);
  EXPECT_EQ(files_->agent().epoch, 8U);
}

TEST_F(RestartRequests, NumbersThatAreUsedUp) {
  lose_and_restart(hello(UINT64_MAX, 2));
  EXPECT_TRUE(submit(wire::Unlink{ObjectId(1), "a"})->failed(Errc::protocol));
  submit(wire::StatFs{ObjectId(1)});
  EXPECT_EQ(asked().back(), "statfs");
}

}  // namespace
}  // namespace sandbar::client
