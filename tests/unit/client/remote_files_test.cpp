// SPDX-License-Identifier: Apache-2.0
#include "client/remote_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fakes/fake_loop.h"
#include "fakes/fake_transport.h"
#include "mux/session.h"
#include "unit/client/session_ends.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace sandbar::client {
namespace {

using wire::MutationNumber;

class RemoteFilesTest : public ::testing::Test {
 protected:
  /// What is under way ends here, while the answers can still be kept.
  ~RemoteFilesTest() override {
    agent_end_.responders.clear();
    client_.reset();
    agent_.reset();
    loop_.drain();
  }

  void connect(bool numbers, std::uint64_t last_mutation = 0) {
    auto [a, b] = fakes::FakeTransport::pair(loop_);
    mux::SessionOptions client;
    mux::SessionOptions agent;
    agent.role = mux::Role::agent;
    agent.hello.last_mutation = MutationNumber(last_mutation);
    agent.hello.root = "/srv";
    client_ = std::make_unique<mux::Session>(loop_, std::move(a), std::move(client), client_end_);
    agent_ = std::make_unique<mux::Session>(loop_, std::move(b), std::move(agent), agent_end_);
    loop_.drain();
    ASSERT_TRUE(client_->ready());
    files_.emplace(loop_, *client_, numbers);
  }

  CallId submit(wire::RequestBody request, base::Bytes body = {}) {
    return files_->submit({}, std::move(request), std::move(body), {},
                          [this](Result<RemoteFs::AnyAnswer> answer) { answers_.push_back(std::move(answer)); });
  }
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (const auto& request : agent_end_.requests) all.push_back(request.context.mutation.value);
    return all;
  }

  fakes::FakeLoop loop_;
  ScriptedAgent agent_end_;
  NoService client_end_;
  std::unique_ptr<mux::Session> client_;
  std::unique_ptr<mux::Session> agent_;
  std::optional<RemoteFiles> files_;
  std::vector<Result<RemoteFs::AnyAnswer>> answers_;
};

wire::Open open_with(std::uint32_t flags) { return {wire::ObjectId(1), wire::HandleId(1), flags}; }

TEST_F(RemoteFilesTest, NumbersMutationsFromOneInSendOrder) {
  connect(true);
  submit(wire::Lookup{});
  submit(wire::MakeDirectory{});
  submit(open_with(O_RDWR));
  submit(wire::Write{}, "x");
  submit(wire::Read{});
  submit(open_with(O_WRONLY | O_TRUNC));
  submit(wire::Fsync{});
  submit(wire::Unlink{});
  loop_.drain();
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{0, 1, 0, 2, 0, 3, 0, 4}));
  EXPECT_EQ(files_->last_mutation(), MutationNumber(4));
}

TEST_F(RemoteFilesTest, GoesOnFromWhatTheAgentKnowsOfTheJournal) {
  connect(true, 41);
  submit(wire::MakeDirectory{});
  loop_.drain();
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{42}));
}

TEST_F(RemoteFilesTest, NumbersNothingWithoutAJournal) {
  connect(false, 41);
  files_->submit({.caller = {}, .mutation = MutationNumber(9), .after = {}}, wire::MakeDirectory{}, {}, {},
                 [](const Result<RemoteFs::AnyAnswer>&) {});
  loop_.drain();
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{0}));
}

TEST_F(RemoteFilesTest, KeepsTheContextThatItWasGiven) {
  connect(true);
  wire::RequestContext context;
  context.caller = wire::Caller{7, 8, {9}, 022};
  context.after = MutationNumber(3);
  files_->submit(context, wire::Lookup{}, {}, {}, [](const Result<RemoteFs::AnyAnswer>&) {});
  loop_.drain();
  ASSERT_EQ(agent_end_.requests.size(), 1U);
  EXPECT_EQ(agent_end_.requests[0].context, context);
}

TEST_F(RemoteFilesTest, ARequestThatIsTooLargeTakesNoNumberAndFailsLater) {
  connect(true);
  submit(wire::Write{}, base::Bytes(wire::kMaxBody + 1, 'x'));
  EXPECT_TRUE(answers_.empty()) << "inside the call";
  wire::MakeSymlink symlink;
  symlink.target = base::Bytes(wire::kMaxHead, 'x');
  submit(symlink);
  submit(wire::Write{}, base::Bytes(wire::kMaxBody, 'x'));
  loop_.drain();
  ASSERT_EQ(answers_.size(), 2U);
  for (const auto& answer : answers_) EXPECT_EQ(answer.error().code, Errc::limit);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(agent_end_.bodies.at(0).size(), wire::kMaxBody);
}

TEST_F(RemoteFilesTest, GivesTheReplyItsBodyAndItsChange) {
  connect(false);
  submit(wire::Read{wire::HandleId(1), 0, 10});
  loop_.drain();
  agent_end_.responders.at(0).reply({wire::encode_reply({wire::ChangeNumber(5), wire::EmptyReply{}}), "ten bytes"});
  loop_.drain();
  ASSERT_EQ(answers_.size(), 1U);
  ASSERT_TRUE(answers_[0].ok());
  EXPECT_EQ(answers_[0]->body, "ten bytes");
  EXPECT_EQ(answers_[0]->change, wire::ChangeNumber(5));
  EXPECT_TRUE(std::holds_alternative<wire::EmptyReply>(answers_[0]->reply));
}

TEST_F(RemoteFilesTest, PassesTheAgentsErrorOn) {
  connect(false);
  submit(wire::Lookup{});
  loop_.drain();
  agent_end_.responders.at(0).fail(os_error(ENOENT, "lookup", "x"));
  loop_.drain();
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].error().code, Errc::os);
  EXPECT_EQ(answers_[0].error().os_errno, ENOENT);
  EXPECT_NE(answers_[0].error().message().find("lookup"), std::string::npos);
}

TEST_F(RemoteFilesTest, AReplyThatDoesNotDecodeIsTheProtocolsFault) {
  connect(false);
  submit(wire::Lookup{});
  loop_.drain();
  agent_end_.responders.at(0).reply({"{\"no\":", ""});
  loop_.drain();
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].error().code, Errc::protocol);
}

TEST_F(RemoteFilesTest, AReplyOfAnotherKindIsTheProtocolsFault) {
  connect(false);
  std::optional<Result<Answer<wire::AttributesReply>>> got;
  files_->call<wire::Lookup>({}, {}, {}, {},
                             [&](Result<Answer<wire::AttributesReply>> answer) { got = std::move(answer); });
  loop_.drain();
  agent_end_.responders.at(0).reply({wire::encode_reply({{}, wire::CountReply{1}}), {}});
  loop_.drain();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->error().code, Errc::protocol);
}

TEST_F(RemoteFilesTest, CancelTellsTheAgentAndFailsTheCall) {
  connect(false);
  const CallId call = submit(wire::Lock{});
  loop_.drain();
  ASSERT_EQ(agent_end_.responders.size(), 1U);
  files_->cancel(call);
  EXPECT_TRUE(answers_.empty()) << "inside the call";
  loop_.drain();
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].error().code, Errc::cancelled);
  EXPECT_TRUE(agent_end_.responders[0].cancelled());
  files_->cancel(call);
  files_->cancel(CallId(12345));
}

TEST_F(RemoteFilesTest, TimeRunsOut) {
  connect(false);
  files_->submit({}, wire::Lookup{}, {}, {std::chrono::seconds(5)},
                 [this](Result<RemoteFs::AnyAnswer> answer) { answers_.push_back(std::move(answer)); });
  loop_.advance(std::chrono::milliseconds(4999));
  EXPECT_TRUE(answers_.empty());
  loop_.advance(std::chrono::milliseconds(1));
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_[0].error().code, Errc::timeout);
}

TEST_F(RemoteFilesTest, FailsEachCallOnceWhenTheConnectionEnds) {
  connect(true);
  submit(wire::Lookup{});
  submit(wire::Write{}, "x");
  loop_.drain();
  agent_.reset();
  loop_.drain();
  ASSERT_EQ(answers_.size(), 2U);
  submit(wire::Lookup{});
  loop_.drain();
  ASSERT_EQ(answers_.size(), 3U);
  for (const auto& answer : answers_) EXPECT_EQ(answer.error().code, Errc::disconnected);
}

TEST_F(RemoteFilesTest, ShowsTheAgentsHello) {
  connect(false);
  EXPECT_EQ(files_->agent().root, "/srv");
}

/// One of each alternative of RequestBody, so that a new request cannot be forgotten here.
template <std::size_t... I>
std::vector<wire::RequestBody> one_of_each(std::index_sequence<I...>) {
  return {wire::RequestBody(std::in_place_index<I>)...};
}

TEST(IsMutationTest, IsRightForEveryRequest) {
  const std::vector<std::string> mutations = {
      "set_attributes",   "make_directory", "make_node", "make_symlink", "make_link",    "unlink",   "rename",
      "remove_directory", "create",         "write",     "set_xattr",    "remove_xattr", "allocate", "copy_range"};
  const auto all = one_of_each(std::make_index_sequence<std::variant_size_v<wire::RequestBody>>());
  std::size_t found = 0;
  for (const auto& request : all) {
    const bool expected = std::find(mutations.begin(), mutations.end(), wire::request_name(request)) != mutations.end();
    EXPECT_EQ(is_mutation(request), expected) << wire::request_name(request);
    found += expected ? 1 : 0;
  }
  EXPECT_EQ(found, mutations.size()) << "a name in this table is no request's";
}

TEST(IsMutationTest, AnOpenIsOneWhenItTruncates) {
  EXPECT_TRUE(is_mutation(open_with(01 | 01000)));
  EXPECT_FALSE(is_mutation(open_with(01 | 02000)));
}

}  // namespace
}  // namespace sandbar::client
