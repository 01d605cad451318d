// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "mux/session.h"
#include "wire/codec.h"

/// The two ends of a session in memory, for tests of what a client asks.
namespace sandbar::client {

/// The agent of one session: keeps requests until the test answers them.
class ScriptedAgent : public mux::Session::Handler {
 public:
  void on_ready(const wire::Hello&) override {}
  void on_request(mux::Message message, mux::Responder responder) override {
    auto request = wire::decode_request(message.head);
    if (!request) return responder.fail(request.error());
    requests.push_back(std::move(*request));
    bodies.push_back(std::move(message.body));
    responders.push_back(std::move(responder));
  }
  void on_closed(const Error&) override {}

  std::vector<wire::Request> requests;
  std::vector<base::Bytes> bodies;
  std::vector<mux::Responder> responders;
};

class NoService : public mux::Session::Handler {
 public:
  void on_ready(const wire::Hello&) override {}
  void on_request(mux::Message, mux::Responder) override {}
  void on_closed(const Error&) override {}
};

}  // namespace sandbar::client
