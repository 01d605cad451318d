// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fakes/fake_agent.h"
#include "sandbar/client.h"

/// The public library against an agent whose answers are written in the test.
namespace sandbar {

using fakes::FakeAgent;

/// An event that a test waits for. Waiting for it in vain ends in ctest's time limit.
class Event {
 public:
  void set() {
    if (!std::exchange(is_set_, true)) promise_.set_value();
  }
  void wait() { future_.wait(); }

 private:
  bool is_set_ = false;
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

/// One end of a stream on the agent's side; all on the agent's thread.
struct AgentStream : mux::Channel::Handler {
  void on_data(base::Bytes data) override {
    received += data;
    const std::size_t size = data.size();
    if (consumes) channel->consumed(size);
    if (on_received) on_received();
  }
  void on_end() override {
    ended = true;
    if (on_received) on_received();
  }
  void on_reset(const Error& reason) override {
    reset = reason;
    if (on_received) on_received();
  }
  void on_writable() override { pump(); }
  /// Writes what `to_send` still holds, as credit comes.
  void pump() {
    while (!to_send.empty() && channel->budget() > 0) {
      const std::size_t size = std::min(channel->budget(), to_send.size());
      channel->write(to_send.substr(0, size));
      to_send.erase(0, size);
      sent += size;
    }
    if (to_send.empty() && ends && !std::exchange(end_sent, true)) channel->end();
  }
  void send(base::Bytes bytes, bool and_end) {
    to_send += bytes;
    ends = and_end;
    pump();
  }

  std::shared_ptr<mux::Channel> channel;
  base::Bytes received, to_send;
  std::size_t sent = 0;
  bool consumes = true, ended = false, ends = false, end_sent = false;
  std::optional<Error> reset;
  base::Function<void()> on_received;
};

/// A process as the agent sees it. Members belong to the agent's thread: use agent.run().
struct AgentProcess {
  wire::Spawn spawn;
  mux::Responder spawned, waiting;
  AgentStream in, out, err;
  std::vector<std::uint32_t> signals;
  Event asked;      ///< spawn and wait have both arrived
  Event signalled;  ///< a signal has
  bool answers_spawn = true;

  static void take(mux::Session& session, AgentStream& stream, wire::ChannelId id) {
    if (!id) return;
    stream.channel = session.take_channel(id);
    stream.channel->set_handler(&stream);
  }
  void on_request(mux::Session& session, wire::Request request, mux::Responder responder) {
    if (auto* asked_for = std::get_if<wire::Spawn>(&request.body)) {
      spawn = *asked_for;
      spawned = std::move(responder);
      take(session, in, spawn.stdin_channel);
      take(session, out, spawn.stdout_channel);
      take(session, err, spawn.stderr_channel);
    } else if (std::get_if<wire::WaitProcess>(&request.body) != nullptr) {
      waiting = std::move(responder);
      if (answers_spawn) spawned.reply(FakeAgent::reply(wire::Spawn::Reply{77}));
      asked.set();
    } else if (auto* signal = std::get_if<wire::SignalProcess>(&request.body)) {
      signals.push_back(signal->signal);
      responder.reply(FakeAgent::reply(wire::EmptyReply{}));
      signalled.set();
    }
  }
  void exit(std::uint32_t code, std::uint32_t signal = 0, bool core = false) {
    waiting.reply(FakeAgent::reply(wire::WaitProcess::Reply{code, signal, core, {}}));
  }
  ~AgentProcess() {
    for (AgentStream* stream : {&in, &out, &err})
      if (stream->channel) stream->channel->set_handler(nullptr);
  }
};

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() { start({}); }
  ~ClientTest() override {
    client_.reset();
    agent_.reset();
  }

  void start(FakeAgent::Script script) {
    if (!script.on_request)
      script.on_request = [this](mux::Session& session, wire::Request request, const base::Bytes&,
                                 mux::Responder responder) {
        process_.on_request(session, std::move(request), std::move(responder));
      };
    agent_ = std::make_unique<FakeAgent>(std::move(script));
  }
  Target target() const { return Target::parse(agent_->target() + ":/work").value(); }
  Client& client() {
    if (!client_) {
      auto connected = Client::connect(target(), options_);
      if (!connected) {
        ADD_FAILURE() << connected.error().message();
        std::abort();
      }
      client_.emplace(std::move(connected).value());
    }
    return *client_;
  }
  Process spawn(ProcessOptions options = {}) {
    if (options.argv.empty()) options.argv = {"cmd"};
    auto process = client().spawn(std::move(options));
    if (!process) {
      ADD_FAILURE() << process.error().message();
      std::abort();
    }
    return std::move(process).value();
  }
  ClientOptions options_;  ///< of client()

  void end_outputs() {
    process_.out.send({}, true);
    process_.err.send({}, true);
  }

  AgentProcess process_;
  std::unique_ptr<FakeAgent> agent_;
  std::optional<Client> client_;
};

inline OutputSink into(std::string& text) {
  return [&text](const OutputChunk& chunk) { text += chunk.bytes(); };
}

}  // namespace sandbar
