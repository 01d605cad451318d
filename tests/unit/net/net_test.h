// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
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
#include <thread>
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
    options.accepted = [this](std::unique_ptr<Transport> transport, const UpgradeRequest&) {
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
    const std::size_t colon = url.rfind(':'), start = url.find("//") + 2;
    endpoint.tls = url.rfind("wss:", 0) == 0;
    endpoint.host = url.substr(start, colon - start);
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

/// One end of a connection that speaks no WebSocket, but whatever bytes the test wants.
class RawPeer {
 public:
  RawPeer() = default;
  explicit RawPeer(base::UniqueFd fd) : fd_(std::move(fd)) {}
  /// To a listener's url.
  explicit RawPeer(const Endpoint& endpoint) {
    sockaddr_storage storage{};
    socklen_t size = 0;
    if (endpoint.kind == Endpoint::Kind::unix_socket) {
      auto& name = reinterpret_cast<sockaddr_un&>(storage);
      name.sun_family = AF_UNIX;
      endpoint.socket_path.copy(name.sun_path, sizeof name.sun_path - 1);
      size = sizeof name;
    } else {
      auto& name = reinterpret_cast<sockaddr_in&>(storage);
      name.sin_family = AF_INET;
      name.sin_port = htons(endpoint.port);
      name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      size = sizeof name;
    }
    fd_.reset(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) fd_.reset();
  }

  bool send(const std::string& bytes) {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  /// Takes what is there.
  RawPeer& take() {
    std::string buffer(65536, '\0');
    for (;;) {
      const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got > 0) received.append(buffer, 0, static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN)) ended = true;
      if (got <= 0) return *this;
    }
  }
  void shutdown() { ::shutdown(fd_.get(), SHUT_WR); }
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    fd_.reset();
  }
  [[nodiscard]] int fd() const { return fd_.get(); }

  std::string received;
  bool ended = false;

 private:
  base::UniqueFd fd_;
};

/// A server of the test's own, for bytes that no server of ours sends.
class RawListener {
 public:
  RawListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&name), size) != 0 || ::listen(fd_.get(), 1024) != 0 ||
        ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0)
      std::abort();
    endpoint.host = "127.0.0.1";
    endpoint.port = ntohs(name.sin_port);
  }
  /// Whether a connection waits; it is the peer's then.
  bool accept(RawPeer& peer) {
    pollfd ready{fd_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) != 1) return false;
    peer = RawPeer(base::UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    return true;
  }
  void close() { fd_.reset(); }
  Endpoint endpoint;

 private:
  base::UniqueFd fd_;
};

/// A proper upgrade request of the RFC's example key.
inline std::string upgrade_request(const std::string& more = {}, const std::string& protocol = "sandbox-mux.v1") {
  return "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" +
         (protocol.empty() ? std::string{} : "Sec-WebSocket-Protocol: " + protocol + "\r\n") + more + "\r\n";
}
/// A client's frame with the mask 0, which leaves its payload as it is.
inline std::string raw_frame(int first_byte, const std::string& payload, bool masked = true) {
  std::string frame(1, static_cast<char>(first_byte));
  const int mask = masked ? 0x80 : 0;
  if (payload.size() < 126) {
    frame += static_cast<char>(mask | static_cast<int>(payload.size()));
  } else if (payload.size() < 65536) {
    frame += static_cast<char>(mask | 126);
    for (int shift = 8; shift >= 0; shift -= 8) frame += static_cast<char>(payload.size() >> shift & 0xFF);
  } else {
    frame += static_cast<char>(mask | 127);
    for (int shift = 56; shift >= 0; shift -= 8) frame += static_cast<char>(payload.size() >> shift & 0xFF);
  }
  if (masked) frame += std::string(4, '\0');
  return frame + payload;
}
constexpr int kBinary = 0x82, kBinaryStart = 0x02, kContinue = 0x00, kContinueEnd = 0x80, kText = 0x81, kClose = 0x88,
              kPing = 0x89, kPong = 0x8A;

/// What a failed connect must leave as it was.
struct Resources {
  std::size_t descriptors = 0, threads = 0, children = 0;

  static std::size_t entries(const char* path) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++count;
    return count;
  }
  static Resources now() {
    // TSan starts a thread of its own beside the process' first one.
    [[maybe_unused]] static const bool has_started_one = [] { return std::thread([] {}).join(), true; }();
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
