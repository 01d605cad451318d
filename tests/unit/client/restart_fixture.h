// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/remote_files.h"
#include "fakes/fake_loop.h"
#include "fakes/fake_transport.h"
#include "mux/session.h"
#include "unit/client/session_ends.h"
#include "wire/codec.h"
#include "wire/dirents.h"

namespace sandbar::client {

using wire::HandleId;
using wire::MutationNumber;
using wire::ObjectId;

/// A client with a journal and one session after the other with a scripted agent. Each session's requests are numbered
/// from 0 in `agent`.
class RestartTest : public testing::Test {
 protected:
  RestartTest() { open(start_); }
  ~RestartTest() override {
    agent.responders.clear();
    files_.reset();
    client_.reset();
    agent_end_.reset();
    loop.drain();
  }

  /// Of an agent that has a record of the journal, unless `forgotten`.
  static wire::Hello hello(std::uint64_t last_mutation, std::uint64_t epoch = 1, std::string id = "agent") {
    wire::Hello hello;
    hello.agent = std::move(id);
    hello.epoch = epoch;
    hello.last_mutation = MutationNumber(last_mutation);
    hello.journal_known = true;
    return hello;
  }
  static wire::Hello forgotten(std::uint64_t last_mutation, std::uint64_t epoch = 2) {
    wire::Hello hello = RestartTest::hello(last_mutation, epoch);
    hello.journal_known = false;
    return hello;
  }

  /// A call's outcome.
  struct Outcome {
    std::optional<Result<RemoteFs::AnyAnswer>> result;
    int runs = 0;
    CallId id;

    [[nodiscard]] bool ok() const { return result && result->ok(); }
    [[nodiscard]] bool failed(Errc code) const { return result && !result->ok() && result->error().code == code; }
    [[nodiscard]] int os_errno() const { return failed(Errc::os) ? result->error().os_errno : 0; }
  };
  using OutcomePtr = std::shared_ptr<Outcome>;
  OutcomePtr submit(wire::RequestBody request, base::Bytes body = {}, base::Duration timeout = {},
                    wire::RequestContext context = {}) {
    auto outcome = std::make_shared<Outcome>();
    outcome->id = files_->submit(std::move(context), std::move(request), std::move(body), {timeout},
                                 [outcome](Result<RemoteFs::AnyAnswer> answer) {
                                   outcome->result.emplace(std::move(answer));
                                   EXPECT_EQ(++outcome->runs, 1);
                                 });
    EXPECT_FALSE(outcome->result.has_value()) << "inside the call";
    loop.drain();
    return outcome;
  }

  static wire::Attributes attributes(std::uint64_t inode) {
    wire::Attributes attributes;
    attributes.device = 5;
    attributes.inode = inode;
    return attributes;
  }
  /// Answers the session's request of this number.
  void answer(std::size_t index, wire::ReplyBody reply = wire::EmptyReply{}, base::Bytes body = {}) {
    agent.responders.at(index).reply({wire::encode_reply({{}, std::move(reply)}), std::move(body)});
    loop.drain();
  }
  void answer_file(std::size_t index, std::uint64_t inode) { answer(index, wire::AttributesReply{attributes(inode)}); }
  void refuse(std::size_t index, const Error& error) {
    agent.responders.at(index).fail(error);
    loop.drain();
  }

  // Submitted and answered, all at once.
  void attach(std::uint64_t object, const char* path = "/top") {
    submit(wire::Attach{ObjectId(object), path});
    answer_file(agent.requests.size() - 1, object);
  }
  void lookup(std::uint64_t parent, const char* name, std::uint64_t object) {
    submit(wire::Lookup{ObjectId(parent), name, ObjectId(object)});
    answer_file(agent.requests.size() - 1, object);
  }
  void open_file(std::uint64_t object, std::uint64_t handle, std::uint32_t flags = 2) {
    submit(wire::Open{ObjectId(object), HandleId(handle), flags});
    answer_file(agent.requests.size() - 1, object);
  }
  void done(wire::RequestBody request, wire::ReplyBody reply = wire::EmptyReply{}) {
    const OutcomePtr outcome = submit(std::move(request));
    answer(agent.requests.size() - 1, std::move(reply));
    ASSERT_TRUE(outcome->ok());
  }
  void lock(std::uint64_t handle, std::uint64_t owner, wire::LockType type = wire::LockType::write) {
    done(wire::Lock{.handle = HandleId(handle), .owner = wire::LockOwner(owner), .type = type});
  }
  /// The object 1 "/top", in it 2 "f", which is open as handle 1.
  void open_one_file() {
    attach(1);
    lookup(1, "f", 2);
    open_file(2, 1);
  }

  /// The session ends: the agent does not know it any more.
  void lose() {
    agent_end_.reset();
    loop.drain();
    files_->pause();
    client_.reset();
    loop.drain();
  }
  void restart(const wire::Hello& now) {
    agent.requests.clear();
    agent.bodies.clear();
    agent.responders.clear();
    start_session(now);
    files_->restart(*client_);
    loop.drain();
  }
  void lose_and_restart(const wire::Hello& now) {
    lose();
    restart(now);
  }

  /// What the session has asked: "restore 2", "write", "open 2 as 1", ...
  [[nodiscard]] std::vector<std::string> asked(std::size_t from = 0) const {
    std::vector<std::string> words;
    for (std::size_t i = from; i < agent.requests.size(); ++i) words.push_back(in_words(agent.requests[i].body));
    return words;
  }
  static wire::SetAttributes set_mode(std::uint64_t object, std::uint32_t mode, std::uint64_t handle = 0) {
    wire::SetAttributes request;
    request.object = ObjectId(object);
    request.handle = HandleId(handle);
    request.mode = mode;
    return request;
  }
  static wire::Spawn spawn(const char* id) {
    wire::Spawn request;
    request.id = id;
    return request;
  }
  static std::string in_words(const wire::RequestBody& request) {
    std::string text = wire::request_name(request);
    if (const auto* restore = std::get_if<wire::Restore>(&request)) text += " " + std::to_string(restore->object.value);
    if (const auto* open = std::get_if<wire::Open>(&request))
      text += " " + std::to_string(open->object.value) + " as " + std::to_string(open->handle.value);
    return text;
  }
  [[nodiscard]] std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (const auto& request : agent.requests) all.push_back(request.context.mutation.value);
    return all;
  }
  using Words = std::vector<std::string>;
  using Numbers = std::vector<std::uint64_t>;

  void open(const wire::Hello& now) {
    start_session(now);
    files_.emplace(loop, *client_, true, OnLoss::wait);
  }
  void start_session(const wire::Hello& now) {
    auto [a, b] = fakes::FakeTransport::pair(loop);
    mux::SessionOptions client;
    mux::SessionOptions agent_side;
    agent_side.role = mux::Role::agent;
    agent_side.hello = now;
    client_ = std::make_unique<mux::Session>(loop, std::move(a), std::move(client), client_handler_);
    agent_end_ = std::make_unique<mux::Session>(loop, std::move(b), std::move(agent_side), agent);
    loop.drain();
    ASSERT_TRUE(client_->ready());
  }

  fakes::FakeLoop loop;
  ScriptedAgent agent;
  NoService client_handler_;
  const wire::Hello start_ = hello(0);
  std::unique_ptr<mux::Session> client_;
  std::unique_ptr<mux::Session> agent_end_;
  std::optional<RemoteFiles> files_;
};

}  // namespace sandbar::client
