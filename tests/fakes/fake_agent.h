// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "mux/session.h"
#include "net/asio_loop.h"
#include "net/listen.h"
#include "wire/codec.h"

namespace sandbar::fakes {

/// An agent whose answers the test writes: a real listener on a Unix socket and real sessions, on a thread of its own.
class FakeAgent {
 public:
  struct Script {
    /// On the agent's thread; unset: every request is refused.
    base::Function<void(mux::Session&, wire::Request, base::Bytes, mux::Responder)> on_request;
    wire::Hello hello = usual_hello();
    std::string token;       ///< empty: everybody is let in
    bool is_silent = false;  ///< upgrades, then says nothing
  };

  static wire::Hello usual_hello() {
    wire::Hello hello;
    hello.software = "fake 1";
    hello.capabilities = {wire::kCapabilityFilesPosix, wire::kCapabilityProcess};
    hello.agent = "00112233445566778899aabbccddeeff";
    hello.epoch = 1;
    hello.root = "/srv";
    return hello;
  }

  explicit FakeAgent(Script script) : script_(std::move(script)) {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-agent.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    start_listening();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~FakeAgent() {
    run([this] {
      listener_.reset();
      sessions_.clear();
      silent_.clear();
    });
    loop_.post([this] { loop_.stop(); });
    thread_.join();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

  [[nodiscard]] std::string target() const { return "unix:" + folder_ + "/s"; }

  /// Runs `task` on the agent's thread before it returns.
  void run(base::Task task) {
    std::promise<void> done;
    loop_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  /// Ends all sessions without a word, as a cut cable or a killed agent.
  void drop_sessions() {
    run([this] {
      sessions_.clear();
      silent_.clear();
    });
  }
  [[nodiscard]] std::size_t sessions() {
    std::size_t count = 0;
    run([&] { count = sessions_.size() + silent_.size(); });
    return count;
  }

  /// An answer's message.
  static mux::Message reply(wire::ReplyBody body, base::Bytes bytes = {}, std::uint64_t change = 0) {
    return {wire::encode_reply({wire::ChangeNumber(change), std::move(body)}), std::move(bytes)};
  }

 private:
  struct Peer final : mux::Session::Handler {
    explicit Peer(FakeAgent& in) : agent(in) {}
    void on_ready(const wire::Hello&) override {}
    void on_request(mux::Message message, mux::Responder responder) override {
      auto request = wire::decode_request(message.head);
      if (!request || !agent.script_.on_request)
        return responder.fail(make_error(Errc::unsupported, "answer", "not in the script"));
      agent.script_.on_request(*session, std::move(*request), std::move(message.body), std::move(responder));
    }
    void on_closed(const Error&) override {
      agent.loop_.post([&agent = agent, this] { agent.sessions_.erase(this); });
    }
    FakeAgent& agent;
    std::unique_ptr<mux::Session> session;
  };

  void start_listening() {
    net::ListenOptions options;
    options.authorize = [this](const net::UpgradeRequest& upgrade) { return upgrade.token == script_.token; };
    if (script_.token.empty()) options.authorize = [](const net::UpgradeRequest&) { return true; };
    options.accepted = [this](std::unique_ptr<net::Transport> transport, const net::UpgradeRequest&) {
      adopt(std::move(transport));
    };
    auto listener = net::listen(loop_, target(), std::move(options));
    if (!listener) std::abort();
    listener_ = std::move(listener).value();
  }
  void adopt(std::unique_ptr<net::Transport> transport) {
    if (script_.is_silent) return silent_.push_back(std::move(transport));
    auto peer = std::make_unique<Peer>(*this);
    mux::SessionOptions options;
    options.role = mux::Role::agent;
    options.hello = script_.hello;
    peer->session = std::make_unique<mux::Session>(loop_, std::move(transport), std::move(options), *peer);
    sessions_.emplace(peer.get(), std::move(peer));
  }

  Script script_;
  std::string folder_;
  net::AsioLoop loop_;
  std::unique_ptr<net::Listener> listener_;
  std::map<Peer*, std::unique_ptr<Peer>> sessions_;
  std::vector<std::unique_ptr<net::Transport>> silent_;
  std::thread thread_;
};

}  // namespace sandbar::fakes
