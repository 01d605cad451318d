// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/stat.h>

#include "net_test.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

class Listening : public NetTest {
 protected:
  /// Sends bytes to a listener and waits until it has hung up; what it said.
  std::string hung_up_with(const std::string& bytes) {
    if (!listener) listen_at("127.0.0.1:0", "secret");
    RawPeer peer(endpoint_of(listener->url()));
    EXPECT_TRUE(peer.send(bytes));
    EXPECT_TRUE(run_until([&] { return peer.take().ended; }));
    EXPECT_TRUE(accepted.empty());
    return peer.received;
  }
  static std::string with_token(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }
};

TEST_F(Listening, UpgradesAProperRequest) {
  listen_at("127.0.0.1:0", "secret");
  RawPeer peer(endpoint_of(listener->url()));
  // Byte by byte, with a frame right behind.
  const std::string bytes =
      upgrade_request(with_token("secret"), "other, sandbox-mux.v1") + raw_frame(kBinary, "early");
  for (const char byte : bytes) {
    ASSERT_TRUE(peer.send(std::string(1, byte)));
    settle();
  }
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  EXPECT_TRUE(run_until([&] { return peer.take().received.find("\r\n\r\n") != std::string::npos; }));
  EXPECT_EQ(peer.received.rfind("HTTP/1.1 101 ", 0), 0U) << peer.received;
  // The accept value of RFC 6455 section 1.3.
  EXPECT_NE(peer.received.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), std::string::npos);
  EXPECT_NE(peer.received.find("Sec-WebSocket-Protocol: sandbox-mux.v1\r\n"), std::string::npos);
  EXPECT_EQ(peer.received.find("Extensions"), std::string::npos);
  Peer& server = *accepted.front();
  server.transport->start(server.seen);
  ASSERT_TRUE(run_until([&] { return !server.seen.messages.empty(); }));
  EXPECT_EQ(server.seen.messages.front(), "early");
  EXPECT_EQ(server.transport->peer().rfind("127.0.0.1:", 0), 0U);
}

TEST_F(Listening, RefusesAWrongToken) {
  for (const std::string& header :
       {std::string{}, with_token("wrong"), with_token(""), with_token("secret2"),
        std::string("Authorization: Basic secret\r\n"), with_token("secret") + with_token("secret")}) {
    const std::string answer = hung_up_with(upgrade_request(header));
    EXPECT_EQ(answer.rfind("HTTP/1.1 401 Unauthorized\r\n", 0), 0U) << answer;
    EXPECT_NE(answer.find("WWW-Authenticate: Bearer\r\n"), std::string::npos);
  }
  // Before anything else is said about the request.
  EXPECT_EQ(hung_up_with(upgrade_request({}, "nonsense")).rfind("HTTP/1.1 401", 0), 0U);
}

TEST_F(Listening, RefusesOtherRequests) {
  const std::string token = with_token("secret");
  const auto answer = [&](const std::string& bytes) { return hung_up_with(bytes).substr(0, 12); };
  const auto without = [&](const std::string& header, const std::string& instead = {}) {
    std::string request = upgrade_request(token);
    const std::size_t start = request.find(header);
    return request.replace(start, request.find("\r\n", start) + 2 - start, instead);
  };
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 426");
  EXPECT_EQ(answer(without("Upgrade: ")), "HTTP/1.1 426");
  EXPECT_EQ(answer(without("Connection: ")), "HTTP/1.1 426");
  EXPECT_EQ(answer(without("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8\r\n")), "HTTP/1.1 426");
  EXPECT_EQ(answer(without("Sec-WebSocket-Version")), "HTTP/1.1 426");
  EXPECT_EQ(answer(without("Sec-WebSocket-Key")), "HTTP/1.1 400");
  EXPECT_EQ(answer(without("Sec-WebSocket-Key", "Sec-WebSocket-Key: short\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(without("Host")), "HTTP/1.1 400");
  EXPECT_EQ(answer(without("GET", "POST / HTTP/1.1\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(without("GET", "GET / HTTP/1.0\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(without("GET", "GET http://x/ HTTP/1.1\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(without("GET", "GET\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(upgrade_request(token + "Content-Length: 5\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(upgrade_request(token + "Content-Length: 99999999999999999999\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(upgrade_request(token + "Transfer-Encoding: chunked\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(answer(upgrade_request(token + "Origin: http://localhost\r\n")), "HTTP/1.1 403");
  EXPECT_EQ(answer(upgrade_request(token, "")), "HTTP/1.1 400");
  EXPECT_EQ(answer(upgrade_request(token, "sandbox-mux.v2")), "HTTP/1.1 400");
  EXPECT_EQ(answer(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 11)), "HTTP/1.1 400");
  EXPECT_EQ(answer("no header line\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer("\r\n\r\n"), "HTTP/1.1 400");
}

TEST_F(Listening, BoundsTheHeader) {
  const std::size_t bare = upgrade_request(with_token("secret") + "X: \r\n").size() - 4;
  const auto padded = [&](std::size_t size) {
    return upgrade_request(with_token("secret") + "X: " + std::string(size - bare, 'x') + "\r\n");
  };
  EXPECT_EQ(hung_up_with(padded(15 * 1024 + 1)).substr(0, 12), "HTTP/1.1 431");
  EXPECT_EQ(hung_up_with("GET / HTTP/1.1\r\n" + std::string(20000, 'x')).substr(0, 12), "HTTP/1.1 431");
  RawPeer peer(endpoint_of(listener->url()));
  ASSERT_TRUE(peer.send(padded(15 * 1024)));
  EXPECT_TRUE(run_until([&] { return !accepted.empty(); }));
}

TEST_F(Listening, ClosesSlowClients) {
  ListenOptions options = listen_options();
  options.upgrade_timeout = 50ms;
  auto made = listen(loop, "127.0.0.1:0", std::move(options));
  ASSERT_TRUE(made.ok());
  RawPeer silent(endpoint_of((*made)->url()));
  RawPeer slow(endpoint_of((*made)->url()));
  ASSERT_TRUE(slow.send("GET / HTTP/1.1\r\n"));
  EXPECT_TRUE(run_until([&] { return silent.take().ended && slow.take().ended; }));
  EXPECT_EQ(silent.received + slow.received, "");
}

TEST_F(Listening, HoldsOnlySoManyUpgrades) {
  ListenOptions options = listen_options();
  options.max_upgrading = 2;
  auto made = listen(loop, "127.0.0.1:0", std::move(options));
  ASSERT_TRUE(made.ok());
  const Endpoint there = endpoint_of((*made)->url());
  RawPeer first(there), second(there), third(there);
  settle();
  ASSERT_TRUE(third.send(upgrade_request()));
  settle();
  EXPECT_TRUE(accepted.empty());
  first.reset();
  EXPECT_TRUE(run_until([&] { return !accepted.empty(); }));
  ASSERT_TRUE(second.send(upgrade_request()));
  EXPECT_TRUE(run_until([&] { return accepted.size() == 2; }));
}

TEST_F(Listening, OutlivesAPeerThatVanishesAtAnyStage) {
  listen_at("127.0.0.1:0");
  const std::string request = upgrade_request();
  const Resources before = Resources::now();
  for (const std::size_t sent : {std::size_t{0}, std::size_t{1}, request.size() / 2, request.size() - 1}) {
    for (const bool hard : {false, true}) {
      RawPeer peer(endpoint_of(listener->url()));
      ASSERT_TRUE(sent == 0 || peer.send(request.substr(0, sent)));
      settle();
      if (hard) peer.reset();
    }
  }
  EXPECT_TRUE(run_until([&] { return Resources::now() == before; })) << Resources::now();
  EXPECT_TRUE(accepted.empty());
  RawPeer peer(endpoint_of(listener->url()));
  ASSERT_TRUE(peer.send(request));
  EXPECT_TRUE(run_until([&] { return !accepted.empty(); }));
}

TEST_F(Listening, PausesWithoutDescriptorsAndGoesOn) {
  listen_at("unix:" + dir / "s");
  const Endpoint there = endpoint_of(listener->url());
  RawPeer peer(there);
  ASSERT_TRUE(peer.send(upgrade_request()));
  std::vector<base::UniqueFd> hoard;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit low = old;
  low.rlim_cur = 200;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  for (int fd = 0; (fd = ::fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0;) hoard.emplace_back(fd);
  settle();
  settle();
  EXPECT_TRUE(accepted.empty());
  hoard.clear();
  EXPECT_TRUE(run_until([&] { return !accepted.empty(); }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST_F(Listening, MayBeDestroyedInItsCallbacks) {
  for (const bool in_authorize : {true, false}) {
    std::unique_ptr<Listener> own;
    std::unique_ptr<Transport> got;
    bool called = false;
    ListenOptions options;
    options.authorize = [&](const UpgradeRequest& request) {
      EXPECT_EQ(request.token, "t");
      EXPECT_EQ(request.path, "/");
      if (in_authorize) {
        own.reset();
        called = true;
      }
      return true;
    };
    options.accepted = [&](std::unique_ptr<Transport> transport, const UpgradeRequest&) {
      got = std::move(transport);
      own.reset();
      called = true;
    };
    auto made = listen(loop, "127.0.0.1:0", std::move(options));
    ASSERT_TRUE(made.ok());
    own = std::move(*made);
    RawPeer peer(endpoint_of(own->url()));
    ASSERT_TRUE(peer.send(upgrade_request(with_token("t"))));
    ASSERT_TRUE(run_until([&] { return called; }));
    if (in_authorize) {
      EXPECT_TRUE(run_until([&] { return peer.take().ended; }));
    }
    EXPECT_EQ(got != nullptr, !in_authorize);
  }
}

TEST_F(Listening, AUnixSocketIsPrivateAndGoesWithItsListener) {
  const std::string path = dir / "agent.sock";
  const ::mode_t old = ::umask(0);
  listen_at("unix:" + path);
  ::umask(old);
  EXPECT_EQ(listener->url(), "unix:" + path);
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  listener.reset();
  EXPECT_NE(::stat(path.c_str(), &info), 0);
}

TEST_F(Listening, AUnixSocketReplacesOnlyADeadOne) {
  const std::string path = dir / "agent.sock";
  listen_at("unix:" + path);
  const auto refused = listen(loop, "unix:" + path, listen_options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_NE(refused.error().message().find("listen on unix:" + path + ": something is listening there already"),
            std::string::npos)
      << refused.error().message();
  // One that was left behind: its listener's file, under another name, survives it.
  const std::string left = dir / "left.sock";
  ASSERT_EQ(::rename(path.c_str(), left.c_str()), 0);
  listener.reset();
  const auto replaced = listen(loop, "unix:" + left, listen_options());
  EXPECT_TRUE(replaced.ok());
  // A file of another kind stays.
  const std::string file = dir / "file";
  std::ofstream(file) << "precious";
  const auto kept = listen(loop, "unix:" + file, listen_options());
  ASSERT_FALSE(kept.ok());
  EXPECT_NE(kept.error().message().find("not a socket"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(file), 8U);
}

TEST_F(Listening, LeavesAFileThatIsNotItsOwnAnyMore) {
  const std::string path = dir / "agent.sock";
  listen_at("unix:" + path);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  std::ofstream(path) << "another's";
  listener.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(Listening, BadAddresses) {
  const auto error = [&](const std::string& address) {
    const auto made = listen(loop, address, listen_options());
    EXPECT_FALSE(made.ok()) << address;
    return made.ok() ? Error{} : made.error();
  };
  for (const char* address : {"", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1",
                              "127.0.0.1: 1", ":8080", "::1:80", "[::1]", "[]:80", "unix:"})
    EXPECT_EQ(error(address).code, Errc::invalid) << address;
  EXPECT_EQ(error("unix:" + std::string(108, 'x')).code, Errc::invalid);
  EXPECT_EQ(error("unix:" + dir / "missing/s").os_errno, ENOENT);
  EXPECT_EQ(error("192.0.2.1:0").os_errno, EADDRNOTAVAIL);
  listen_at("127.0.0.1:0");
  const Error taken = error(listener->url().substr(5));
  EXPECT_EQ(taken.os_errno, EADDRINUSE);
  EXPECT_EQ(taken.operation, "listen on " + listener->url().substr(5));
}

TEST_F(Listening, UrlsAreAsBound) {
  const auto url = [&](const std::string& address) {
    ListenOptions options = listen_options();
    options.insecure = true;
    auto made = listen(loop, address, std::move(options));
    EXPECT_TRUE(made.ok()) << address;
    return made.ok() ? (*made)->url() : std::string{};
  };
  EXPECT_EQ(url("0.0.0.0:0").rfind("ws://0.0.0.0:", 0), 0U);
  EXPECT_EQ(url("[::]:0").rfind("ws://[::]:", 0), 0U);
  EXPECT_EQ(url("localhost:0").rfind("ws://127.0.0.1:", 0), 0U);
  EXPECT_NE(url("127.0.0.1:0"), "ws://127.0.0.1:0");
}

TEST_F(Listening, LocalAddresses) {
  for (const char* address :
       {"127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:80", "unix:/x", "[::ffff:127.0.0.1]:1"})
    EXPECT_TRUE(is_local_address(address)) << address;
  for (const char* address : {"0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[::ffff:192.0.2.1]:1", "example.org:80",
                              "localhost.example.org:80", "nonsense", "128.0.0.1:1"})
    EXPECT_FALSE(is_local_address(address)) << address;
}

TEST_F(Listening, OnAnInheritedSocket) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  base::UniqueFd idle(::dup(fd.get()));
  const auto refused = listen_inherited(loop, std::move(idle), listen_options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::invalid);
  ASSERT_EQ(::listen(fd.get(), 10), 0);
  const int number = fd.get();
  auto made = listen_inherited(loop, std::move(fd), listen_options());
  ASSERT_TRUE(made.ok());
  EXPECT_NE(::fcntl(number, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(number, F_GETFD) & FD_CLOEXEC, 0);
  listener = std::move(*made);
  EXPECT_TRUE(connect_to(endpoint_of(listener->url())).ok());
  EXPECT_FALSE(listen_inherited(loop, base::UniqueFd(::open("/dev/null", O_RDONLY)), listen_options()).ok());
}

class Stdio : public NetTest {
 protected:
  void serve(base::UniqueFd in, base::UniqueFd out) {
    server = serve_stdio(loop, std::move(in), std::move(out), listen_options(), [this](Error error) {
      failed = std::move(error);
      loop.stop();
    });
  }
  std::unique_ptr<StdioServer> server;
  std::optional<Error> failed;
};

TEST_F(Stdio, ServesOneConnectionOnTwoPipes) {
  std::array<int, 2> up{}, down{};
  ASSERT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(down.data(), O_CLOEXEC), 0);
  base::UniqueFd to_server(up[1]), from_server(down[0]);
  serve(base::UniqueFd(up[0]), base::UniqueFd(down[1]));
  const std::string bytes = upgrade_request() + raw_frame(kBinary, "over pipes");
  ASSERT_EQ(::write(to_server.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  Peer& peer = *accepted.front();
  EXPECT_EQ(peer.transport->peer(), "stdio");
  peer.transport->start(peer.seen);
  ASSERT_TRUE(run_until([&] { return !peer.seen.messages.empty(); }));
  EXPECT_EQ(peer.seen.messages.front(), "over pipes");
  to_server.reset();
  ASSERT_TRUE(run_until([&] { return peer.seen.closed.has_value(); }));
  EXPECT_EQ(peer.seen.closed->code, Errc::disconnected);
}

TEST_F(Stdio, ServesOneConnectionOnASocket) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  RawPeer client{base::UniqueFd(ends[0])};
  base::UniqueFd in(ends[1]), out(::fcntl(ends[1], F_DUPFD_CLOEXEC, 0));
  serve(std::move(in), std::move(out));
  ASSERT_TRUE(client.send(upgrade_request()));
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  Peer& peer = *accepted.front();
  peer.transport->start(peer.seen);
  client.received.clear();
  peer.transport->send("back");
  EXPECT_TRUE(run_until([&] { return client.take().received.find("back") != std::string::npos; }));
  peer.transport.reset();
  EXPECT_TRUE(run_until([&] { return client.take().ended; }));
}

TEST_F(Stdio, FailsWhenTheInputEnds) {
  std::array<int, 2> up{};
  ASSERT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
  ::close(up[1]);
  serve(base::UniqueFd(up[0]), base::UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
  ASSERT_TRUE(run_until([&] { return failed.has_value(); }));
  EXPECT_EQ(failed->code, Errc::disconnected);
}

TEST_F(Stdio, RefusesFiles) {
  std::ofstream(dir / "file") << upgrade_request();
  serve(base::UniqueFd(::open((dir / "file").c_str(), O_RDONLY | O_CLOEXEC)),
        base::UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)));
  EXPECT_FALSE(failed.has_value());
  ASSERT_TRUE(run_until([&] { return failed.has_value(); }));
  EXPECT_EQ(failed->code, Errc::invalid);
  EXPECT_NE(failed->message().find("is a file"), std::string::npos);
}

}  // namespace
}  // namespace sandbar::net::testing
