// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fakes/fake_loop.h"
#include "fakes/fake_transport.h"
#include "mux/session.h"

namespace sandbar::mux {

/// Keeps what a session tells, and answers requests with what the test says.
class Recorder : public Session::Handler {
 public:
  void on_ready(const wire::Hello& hello) override { ready = hello; }
  void on_request(Message request, Responder responder) override {
    if (answer) return answer(std::move(request), std::move(responder));
    requests.push_back(std::move(request));
    responders.push_back(std::move(responder));
  }
  void on_drained() override { ++drained; }
  void on_detached(const Error& reason) override {
    ++detaches;
    detached = reason;
  }
  void on_resumed(const wire::Hello& hello) override {
    ++resumes;
    resumed = hello;
  }
  void on_closed(const Error& reason) override {
    ++closes;
    closed = reason;
  }

  std::function<void(Message, Responder)> answer;
  std::optional<wire::Hello> ready;
  std::vector<Message> requests;
  std::vector<Responder> responders;
  std::optional<Error> detached;
  std::optional<wire::Hello> resumed;
  std::optional<Error> closed;
  int detaches = 0;
  int resumes = 0;
  int closes = 0;
  int drained = 0;
};

/// A client's and an agent's session over one connection in memory.
struct SessionPair {
  explicit SessionPair(SessionOptions client_options = {}, SessionOptions agent_options = {}) {
    auto [a, b] = fakes::FakeTransport::pair(loop);
    client_end = a->end();
    agent_end = b->end();
    client_options.role = Role::client;
    agent_options.role = Role::agent;
    client = std::make_unique<Session>(loop, std::move(a), std::move(client_options), client_handler);
    agent = std::make_unique<Session>(loop, std::move(b), std::move(agent_options), agent_handler);
  }
  void settle() { loop.drain(); }

  fakes::FakeLoop loop;
  Recorder client_handler;
  Recorder agent_handler;
  std::shared_ptr<fakes::FakeTransport::End> client_end;
  std::shared_ptr<fakes::FakeTransport::End> agent_end;
  std::unique_ptr<Session> client;
  std::unique_ptr<Session> agent;
};

/// What a completion got, and how often it ran. May go before the session does.
struct Outcome {
  base::OneShot<Message> completion() {
    return [this, alive = std::weak_ptr<bool>(alive)](Result<Message> result) {
      if (alive.expired()) return;
      ++runs;
      if (result) {
        message = std::move(result).value();
      } else {
        error = std::move(result).error();
      }
    };
  }
  int runs = 0;
  std::optional<Message> message;
  std::optional<Error> error;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

}  // namespace sandbar::mux
