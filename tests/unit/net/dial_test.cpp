// SPDX-License-Identifier: Apache-2.0
#include "net/dial.h"

#include "net_test.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

SocketAddress at(const std::string& digits, std::uint16_t port = 1) { return literal_addresses(digits, port).front(); }

TEST(Dial, FamiliesTakeTurns) {
  const auto order = [](const std::vector<std::string>& hosts) {
    std::vector<SocketAddress> addresses;
    for (const auto& host : hosts) addresses.push_back(at(host));
    std::string text;
    for (const auto& address : interleaved(addresses)) text += to_text(address) + " ";
    return text;
  };
  EXPECT_EQ(order({"::1", "::2", "::3", "1.1.1.1", "2.2.2.2"}), "[::1]:1 1.1.1.1:1 [::2]:1 2.2.2.2:1 [::3]:1 ");
  EXPECT_EQ(order({"1.1.1.1", "2.2.2.2", "::1"}), "1.1.1.1:1 [::1]:1 2.2.2.2:1 ");
  EXPECT_EQ(order({"1.1.1.1"}), "1.1.1.1:1 ");
}

/// A port at which nothing answers: its backlog is full, so Linux drops further SYNs.
class BlackHole {
 public:
  BlackHole() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&name), size) != 0 || ::listen(fd_.get(), 0) != 0 ||
        ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0)
      std::abort();
    port = ntohs(name.sin_port);
    Endpoint endpoint;
    endpoint.port = port;
    filler_ = RawPeer(endpoint);
  }
  std::uint16_t port = 0;

 private:
  base::UniqueFd fd_;
  RawPeer filler_;
};

class Dialing : public NetTest {
 protected:
  Result<Dialed> dial_all(std::vector<SocketAddress> addresses) {
    std::optional<Result<Dialed>> outcome;
    const auto pending = dial(loop, std::move(addresses), [&](Result<Dialed> result) {
      outcome = std::move(result);
      loop.stop();
    });
    EXPECT_FALSE(outcome.has_value());
    EXPECT_TRUE(run_until([&] { return outcome.has_value(); }));
    return std::move(*outcome);
  }
};

TEST_F(Dialing, ABlackHoleDelaysTheNextOnlyShortly) {
  const BlackHole hole;
  const RawListener good;
  const Resources before = Resources::now();
  const base::TimePoint start = loop.now();
  {
    const auto won = dial_all({at("127.0.0.1", hole.port), at("127.0.0.1", good.endpoint.port)});
    ASSERT_TRUE(won.ok()) << won.error().message();
    EXPECT_EQ(to_text(won->address), "127.0.0.1:" + std::to_string(good.endpoint.port));
    EXPECT_GE(loop.now() - start, kNextAttempt);
    EXPECT_LT(loop.now() - start, 10s);  // TCP alone would take minutes
  }
  EXPECT_EQ(Resources::now(), before);
}

TEST_F(Dialing, AFailureStartsTheNextAtOnce) {
  RawListener closed;
  closed.close();
  const RawListener good;
  std::vector<SocketAddress> addresses(20, at("127.0.0.1", closed.endpoint.port));
  addresses.push_back(at("127.0.0.1", good.endpoint.port));
  const base::TimePoint start = loop.now();
  EXPECT_TRUE(dial_all(addresses).ok());
  EXPECT_LT(loop.now() - start, 20 * kNextAttempt);
}

TEST_F(Dialing, TheMostTellingError) {
  RawListener closed;
  closed.close();
  // 240.0.0.0/4 is nobody's: EINVAL or ENETUNREACH at once, or nothing.
  const auto failed = dial_all({at("127.0.0.1", closed.endpoint.port), at("::1", closed.endpoint.port)});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().os_errno, ECONNREFUSED);
}

TEST_F(Dialing, CancelledLeavesNothing) {
  const BlackHole hole;
  const Resources before = Resources::now();
  for (int i = 0; i < 100; ++i) {
    auto pending = dial(loop, {at("127.0.0.1", hole.port), at("127.0.0.1", hole.port)},
                        [](const Result<Dialed>&) { ADD_FAILURE(); });
    for (int turn = 0; turn < i % 3; ++turn) settle();
    pending.reset();
  }
  EXPECT_EQ(Resources::now(), before);
}

TEST_F(Dialing, ThroughConnect) {
  // "localhost" is 127.0.0.1 and ::1, and the first one is a black hole.
  const BlackHole hole;
  listen_at("[::1]:" + std::to_string(hole.port));
  Endpoint endpoint = endpoint_of(listener->url());
  endpoint.host = "localhost";
  const auto connected = connect_to(endpoint);
  ASSERT_TRUE(connected.ok()) << connected.error().message();
  EXPECT_EQ((*connected)->peer(), "[::1]:" + std::to_string(hole.port));
}

// --- plaintext beyond this machine ---

TEST_F(Dialing, PlaintextStaysOnThisMachine) {
  // 0.0.0.0 is no loopback address, but leads here: whoever connects is seen.
  ListenOptions options = listen_options("s3cr3t");
  const auto refused = listen(loop, "0.0.0.0:0", std::move(options));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_TRUE(has(refused.error().message(), "--tls-cert FILE")) << refused.error().message();
  EXPECT_TRUE(has(refused.error().message(), "--insecure"));
  options = listen_options("s3cr3t");
  options.insecure = true;
  auto allowed = listen(loop, "0.0.0.0:0", std::move(options));
  ASSERT_TRUE(allowed.ok()) << allowed.error().message();

  ConnectOptions how;
  how.token = "s3cr3t";
  RawListener watcher;
  for (const char* host : {"0.0.0.0", "192.0.2.1", "2001:db8::1", "::"}) {
    Endpoint endpoint = watcher.endpoint;
    endpoint.host = host;
    const auto failed = connect_to(endpoint, how);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Errc::invalid) << host;
    EXPECT_TRUE(has(failed.error().message(), "use wss://, or --insecure")) << failed.error().message();
    EXPECT_FALSE(has(failed.error().message(), "s3cr3t"));
  }
  RawPeer peer;
  EXPECT_FALSE(watcher.accept(peer));
  Endpoint endpoint = endpoint_of((*allowed)->url());
  how.insecure = true;
  EXPECT_TRUE(connect_to(endpoint, how).ok());
}

TEST_F(Dialing, InheritedSocketsTheSame) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(::listen(fd.get(), 1), 0);
  const auto refused = listen_inherited(loop, std::move(fd), listen_options());
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(has(refused.error().message(), "--insecure")) << refused.error().message();
}

}  // namespace
}  // namespace sandbar::net::testing
