// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mux/greeter.h"
#include "unit/mux/session_pair.h"

namespace sandbar::mux {

/// The agent's side of many connections, as its server has it: a greeter for each, and sessions that are found by name.
class Lobby {
 public:
  Lobby(base::Loop& loop, Session::Handler& handler) : loop_(loop), handler_(handler) {}

  void accept(std::unique_ptr<net::Transport> transport) {
    const std::uint64_t id = ++last_greeter_;
    greeters_[id] = std::make_unique<Greeter>(
        loop_, std::move(transport), std::chrono::seconds(10),
        [this, id](Greeter::Greeted client) { greeted(id, std::move(client)); }, [this, id] { greeters_.erase(id); });
  }
  [[nodiscard]] std::size_t greeters() const { return greeters_.size(); }

  bool keeps = true;           ///< names its sessions
  std::function<bool()> busy;  ///< whether it has no room now for one that comes back
  std::map<std::string, std::unique_ptr<Session>> sessions;
  std::vector<Error> refused;

 private:
  void greeted(std::uint64_t id, Greeter::Greeted client) {
    if (client.hello.session.empty()) {
      begin(std::move(client));
    } else {
      if (busy && busy())
        return greeters_.at(id)->refuse(make_error(Errc::limit, "connect", "too many clients"),
                                        std::move(client.transport));
      const auto found = sessions.find(client.hello.session);
      const Result<void> taken = found == sessions.end() ? make_error(Errc::unknown, "take a session up", "no such one")
                                                         : found->second->take_over(client.transport, client.hello);
      if (!taken) {
        EXPECT_TRUE(client.transport) << "a connection that is refused stays the caller's";
        refused.push_back(taken.error());
        return greeters_.at(id)->refuse(taken.error(), std::move(client.transport));
      }
      EXPECT_FALSE(client.transport);
    }
    greeters_.erase(id);
  }
  void begin(Greeter::Greeted client) {
    const std::string name = "session-" + std::to_string(sessions.size() + 1);
    SessionOptions options;
    options.role = Role::agent;
    options.first_message = std::move(client.message);
    options.on_hello = [name, this](const wire::Hello&, wire::Hello& ours) -> Result<void> {
      if (keeps) ours.session = name;
      ours.lease = 3600;
      return {};
    };
    sessions[name] = std::make_unique<Session>(loop_, std::move(client.transport), std::move(options), handler_);
  }

  base::Loop& loop_;
  Session::Handler& handler_;
  std::uint64_t last_greeter_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Greeter>> greeters_;
};

/// Keeps what a stream brings.
class StreamReader : public Channel::Handler {
 public:
  explicit StreamReader(std::shared_ptr<Channel> channel) : channel(std::move(channel)) {
    this->channel->set_handler(this);
  }
  void on_data(base::Bytes data) override {
    bytes += data;
    if (eager) channel->consumed(data.size());
  }
  void on_end() override { ++ends; }
  void on_reset(const Error& why) override { reset = why; }
  void on_writable() override {
    if (fill) fill();
  }
  std::shared_ptr<Channel> channel;
  std::function<void()> fill;
  bool eager = true;
  std::string bytes;
  int ends = 0;
  std::optional<Error> reset;
};

inline SessionOptions resumable_client() {
  SessionOptions options;
  options.role = Role::client;
  options.resumable = true;
  options.hello.capabilities = {wire::kCapabilityResume};
  return options;
}

/// A client's session that comes back, and the agent's that waits for it, linked.
struct ResumePair {
  explicit ResumePair(SessionOptions options = resumable_client()) : lobby(loop, agent_handler) {
    client = std::make_unique<Session>(loop, connect(), std::move(options), client_handler);
    settle();
    agent = lobby.sessions.at("session-1").get();
  }

  /// One more connection to the agent; what the ends below mean from now on.
  std::unique_ptr<net::Transport> connect() {
    auto [a, b] = fakes::FakeTransport::pair(loop);
    client_end = a->end();
    agent_end = b->end();
    lobby.accept(std::move(b));
    return std::move(a);
  }
  void settle() { loop.drain(); }
  /// From now on the test delivers.
  void hold() { client_end->automatic = agent_end->automatic = false; }
  /// Everything that waits, and what that leads to, is delivered.
  void flow() {
    settle();
    while (client_end->deliver_one() || agent_end->deliver_one()) settle();
  }
  /// What is on its way is lost, and both sides hear of it.
  void cut() {
    lose(*client_end);
    lose(*agent_end);
    settle();
  }
  static void lose(fakes::FakeTransport::End& end) {
    end.outbox.clear();
    end.bytes = 0;
    end.end(make_error(Errc::disconnected, "", "cut"));
  }
  /// The connection carries nothing any more, and nobody is told.
  void silence() {
    hold();
    client_end->peer.reset();
    agent_end->peer.reset();
  }
  void resume() {
    client->resume(connect());
    settle();
  }
  /// Acknowledgements are due a little later.
  void wait_for_acks() { loop.advance(std::chrono::milliseconds(200)); }

  fakes::FakeLoop loop;
  Recorder client_handler;
  Recorder agent_handler;
  Lobby lobby;
  std::shared_ptr<fakes::FakeTransport::End> client_end;
  std::shared_ptr<fakes::FakeTransport::End> agent_end;
  std::unique_ptr<Session> client;
  Session* agent = nullptr;
};

}  // namespace sandbar::mux
