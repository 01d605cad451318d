// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "net/asio_loop.h"
#include "net/connect.h"
#include "net/listen.h"
#include "net/transport.h"

namespace sandbar::net::testing {

/// A folder that is gone afterwards.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "sandbar-net.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A Handler that writes down what it is told.
class Recorder : public Transport::Handler {
 public:
  explicit Recorder(AsioLoop& loop) : loop_(loop) {}

  void on_message(base::Bytes message) override {
    bytes += message.size();
    messages.push_back(std::move(message));
    if (on_each) on_each();
    loop_.stop();
  }
  void on_writable() override {
    ++writables;
    if (refill) refill();
    loop_.stop();
  }
  void on_closed(Error reason) override {
    ++closings;
    closed = std::move(reason);
    if (on_end) on_end();
    loop_.stop();
  }

  std::vector<base::Bytes> messages;
  std::size_t bytes = 0;
  int writables = 0;
  int closings = 0;
  std::optional<Error> closed;
  base::Function<void()> on_each, refill, on_end;

 private:
  AsioLoop& loop_;
};

struct Peer {
  explicit Peer(AsioLoop& loop) : seen(loop) {}
  std::unique_ptr<Transport> transport;
  Recorder seen;
};

class NetTest : public ::testing::Test {
 protected:
  NetTest() { ::signal(SIGPIPE, SIG_IGN); }

  /// Runs the loop until `done()`. The tick is for what the loop is not told of (a process gone, a descriptor closed).
  template <class F>
  [[nodiscard]] bool run_until(F done, base::Duration limit = std::chrono::seconds(30)) {
    const base::TimePoint end = loop.now() + limit;
    while (!done()) {
      if (loop.now() > end) return false;
      const base::TimerId tick = loop.schedule(std::chrono::milliseconds(2), [this] { loop.stop(); });
      loop.run();
      loop.cancel(tick);
    }
    return true;
  }
  /// Lets everything that is ready or posted happen.
  void settle() {
    for (int i = 0; i < 3; ++i) {
      loop.schedule(base::Duration::zero(), [this] { loop.post([this] { loop.stop(); }); });
      loop.run();
    }
  }

  /// A listener whose connections go to `accepted`.
  void listen_at(const std::string& address, const std::string& token = {}) {
    auto made = listen(loop, address, listen_options(token));
    ASSERT_TRUE(made.ok()) << made.error().message();
    listener = std::move(*made);
  }
  ListenOptions listen_options(const std::string& token = {}) {
    ListenOptions options;
    options.authorize = [token](const UpgradeRequest& request) { return request.token == token; };
    options.accepted = [this](std::unique_ptr<Transport> transport) {
      auto peer = std::make_unique<Peer>(loop);
      peer->transport = std::move(transport);
      accepted.push_back(std::move(peer));
      loop.stop();
    };
    return options;
  }
  static Endpoint endpoint_of(const std::string& url) {
    Endpoint endpoint;
    if (url.rfind("unix:", 0) == 0) {
      endpoint.kind = Endpoint::Kind::unix_socket;
      endpoint.socket_path = url.substr(5);
      return endpoint;
    }
    const std::size_t colon = url.rfind(':');
    endpoint.host = url.substr(5, colon - 5);
    if (endpoint.host.front() == '[') endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    endpoint.port = static_cast<std::uint16_t>(std::stoi(url.substr(colon + 1)));
    return endpoint;
  }
  static Endpoint command(const std::string& text) {
    Endpoint endpoint;
    endpoint.kind = Endpoint::Kind::command;
    endpoint.command = text;
    return endpoint;
  }
  using Outcome = std::optional<Result<std::unique_ptr<Transport>>>;
  std::unique_ptr<PendingConnect> begin_connect(const Endpoint& endpoint, const ConnectOptions& options,
                                                Outcome& outcome) {
    return connect(loop, endpoint, options, [this, &outcome](Result<std::unique_ptr<Transport>> result) {
      outcome = std::move(result);
      loop.stop();
    });
  }
  Result<std::unique_ptr<Transport>> connect_to(const Endpoint& endpoint, const ConnectOptions& options = {}) {
    Outcome outcome;
    const auto pending = begin_connect(endpoint, options, outcome);
    EXPECT_FALSE(outcome.has_value()) << "done ran inside connect()";
    if (!run_until([&] { return outcome.has_value(); })) return make_error(Errc::internal, "test", "no outcome");
    return std::move(*outcome);
  }
  /// Both ends, connected and started.
  struct Pair {
    std::unique_ptr<Peer> client, server;
  };
  Pair make_pair(const std::string& address) {
    if (!listener) listen_at(address);
    Pair pair;
    pair.client = std::make_unique<Peer>(loop);
    auto connected = connect_to(endpoint_of(listener->url()));
    EXPECT_TRUE(connected.ok()) << connected.error().message();
    if (!connected) return pair;
    pair.client->transport = std::move(*connected);
    EXPECT_TRUE(run_until([&] { return !accepted.empty(); }));
    pair.server = std::move(accepted.back());
    accepted.pop_back();
    pair.client->transport->start(pair.client->seen);
    pair.server->transport->start(pair.server->seen);
    return pair;
  }

  AsioLoop loop;
  TempDir dir;
  std::unique_ptr<Listener> listener;
  std::vector<std::unique_ptr<Peer>> accepted;
};

/// What a failed connect must leave as it was.
struct Resources {
  std::size_t descriptors = 0, threads = 0, children = 0;

  static std::size_t entries(const char* path) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++count;
    return count;
  }
  static Resources now() {
    Resources used{entries("/proc/self/fd"), entries("/proc/self/task"), 0};
    std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    for (int pid = 0; list >> pid;) ++used.children;
    return used;
  }
  friend bool operator==(const Resources&, const Resources&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Resources& used) {
    return out << used.descriptors << " descriptors, " << used.threads << " threads, " << used.children << " children";
  }
};

}  // namespace sandbar::net::testing
