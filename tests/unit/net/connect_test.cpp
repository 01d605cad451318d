// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "net/resolve.h"
#include "net_test.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

class Connecting : public NetTest {
 protected:
  Error error_of(const Endpoint& endpoint, const ConnectOptions& options = {}) {
    auto result = connect_to(endpoint, options);
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  }
  /// What connect() says to a server that answers with these bytes and then hangs up, or not.
  Error error_of_answer(const std::string& bytes, bool hang_up = true) {
    RawListener server;
    RawPeer peer;
    Outcome outcome;
    const auto pending = begin_connect(server.endpoint, {}, outcome);
    EXPECT_TRUE(run_until([&] { return server.accept(peer); }));
    EXPECT_TRUE(run_until([&] { return peer.take().received.find("\r\n\r\n") != std::string::npos; }));
    EXPECT_TRUE(bytes.empty() || peer.send(bytes));
    if (hang_up) peer.shutdown();
    EXPECT_TRUE(run_until([&] { return outcome.has_value(); }));
    EXPECT_FALSE(outcome->ok());
    return outcome->ok() ? Error{} : outcome->error();
  }
  static Endpoint refusing() {
    RawListener server;
    server.close();
    return server.endpoint;
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(Connecting, SendsAProperRequest) {
  RawListener server;
  RawPeer peer;
  Outcome outcome;
  ConnectOptions options;
  options.token = "s3cr3t";
  Endpoint endpoint = server.endpoint;
  endpoint.http_path = "/v1/mux?x=1";
  const auto pending = begin_connect(endpoint, options, outcome);
  ASSERT_TRUE(run_until([&] { return server.accept(peer); }));
  ASSERT_TRUE(run_until([&] { return peer.take().received.find("\r\n\r\n") != std::string::npos; }));
  const std::string& request = peer.received;
  EXPECT_EQ(request.rfind("GET /v1/mux?x=1 HTTP/1.1\r\n", 0), 0U) << request;
  EXPECT_TRUE(has(request, "\r\nHost: 127.0.0.1:" + std::to_string(endpoint.port) + "\r\n"));
  EXPECT_TRUE(has(request, "\r\nAuthorization: Bearer s3cr3t\r\n"));
  EXPECT_TRUE(has(request, "\r\nSec-WebSocket-Protocol: sandbox-mux.v1\r\n"));
  EXPECT_TRUE(has(request, "\r\nSec-WebSocket-Version: 13\r\n"));
  EXPECT_FALSE(has(request, "Extensions"));
}

TEST_F(Connecting, NobodyThere) {
  const Endpoint endpoint = refusing();
  const Error refused = error_of(endpoint);
  EXPECT_EQ(refused.code, Errc::disconnected);
  EXPECT_EQ(refused.message(), "connect to ws://127.0.0.1:" + std::to_string(endpoint.port) +
                                   ": Connection refused (is `sandboxd agent` running there?)");
  const std::string path = dir / "none";
  const Error missing = error_of(endpoint_of("unix:" + path));
  EXPECT_EQ(missing.code, Errc::disconnected);
  EXPECT_EQ(missing.message(),
            "connect to unix:" + path + ": No such file or directory (is `sandboxd agent` running there?)");
}

TEST_F(Connecting, TriesEachAddress) {
  // "localhost" is 127.0.0.1 and ::1; only the second is there.
  listen_at("[::1]:0");
  Endpoint endpoint = endpoint_of(listener->url());
  endpoint.host = "localhost";
  const auto connected = connect_to(endpoint);
  ASSERT_TRUE(connected.ok()) << connected.error().message();
  EXPECT_EQ((*connected)->peer(), "[::1]:" + std::to_string(endpoint.port));
}

TEST_F(Connecting, UnknownNames) {
  Endpoint endpoint;
  endpoint.host = "no..such.invalid";  // not even asked of a server
  endpoint.port = 80;
  const Error error = error_of(endpoint);
  EXPECT_EQ(error.code, Errc::disconnected);
  EXPECT_TRUE(has(error.message(), "connect to ws://no..such.invalid:80: the name \"no..such.invalid\""))
      << error.message();
}

TEST_F(Connecting, WhatCanNeverBeRight) {
  listen_at("127.0.0.1:0");
  const Endpoint good = endpoint_of(listener->url());
  ConnectOptions options;
  options.token = "a\r\nX: y";
  EXPECT_EQ(error_of(good, options).code, Errc::invalid);
  Endpoint bad = good;
  bad.http_path = "/a b";
  EXPECT_EQ(error_of(bad).code, Errc::invalid);
  bad = good;
  bad.host = "a\r\nb";
  EXPECT_EQ(error_of(bad).code, Errc::invalid);
  EXPECT_EQ(error_of(command(" ")).code, Errc::invalid);
  EXPECT_EQ(error_of(endpoint_of("unix:" + std::string(108, 'x'))).code, Errc::invalid);
}

TEST_F(Connecting, TheToken) {
  listen_at("127.0.0.1:0", "right");
  const Endpoint endpoint = endpoint_of(listener->url());
  ConnectOptions options;
  options.token = "wrong";
  const Error wrong = error_of(endpoint, options);
  EXPECT_EQ(wrong.code, Errc::unauthorized);
  EXPECT_TRUE(has(wrong.message(), "the token was refused (HTTP 401)")) << wrong.message();
  const Error none = error_of(endpoint);
  EXPECT_EQ(none.code, Errc::unauthorized);
  EXPECT_TRUE(has(none.message(), "a token is needed (HTTP 401)")) << none.message();
  options.token = "right";
  EXPECT_TRUE(connect_to(endpoint, options).ok());
  EXPECT_EQ(error_of_answer("HTTP/1.1 403 Forbidden\r\n\r\n").code, Errc::unauthorized);
}

/// What gateways make of a token that has expired. Nothing is followed: the token is for this origin.
TEST_F(Connecting, ARedirectOrAPageCountsAsARefusal) {
  for (const char* answer :
       {"HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\n\r\n",
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: /login\r\n\r\n", "HTTP/1.1 303 See Other\r\n\r\n"}) {
    const Error error = error_of_answer(answer, false);
    EXPECT_EQ(error.code, Errc::unauthorized) << answer;
    EXPECT_TRUE(has(error.message(), "the server redirects")) << error.message();
  }
  for (const char* type :
       {"Content-Type: text/html", "content-type:text/html; charset=utf-8", "Server: x\r\nCONTENT-TYPE: \tText/HTML"}) {
    const Error error = error_of_answer("HTTP/1.1 400 Bad Request\r\n" + std::string(type) + "\r\n\r\n<html>", false);
    EXPECT_EQ(error.code, Errc::unauthorized) << type;
    EXPECT_TRUE(has(error.message(), "an error page (HTTP 400)")) << error.message();
  }
  for (const char* other :
       {"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nContent-Type: text/html",
        "HTTP/1.1 400 Bad Request\r\nX-Content-Type: text/html\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n<html>",
        "HTTP/1.1 400 Bad Request\r\nContent-Type:\r\n\r\n",
        "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n"})
    EXPECT_EQ(error_of_answer(other, false).code, Errc::protocol) << other;
}

TEST_F(Connecting, TheSubprotocol) {
  listen_at("127.0.0.1:0");
  ConnectOptions options;
  options.subprotocol = "sandbox-mux.v9";
  const Error error = error_of(endpoint_of(listener->url()), options);
  EXPECT_EQ(error.code, Errc::protocol);
  EXPECT_TRUE(has(error.message(), "HTTP/1.1 400")) << error.message();
}

TEST_F(Connecting, AnswersThatAreNoUpgrade) {
  const Error ssh = error_of_answer("SSH-2.0-OpenSSH_9.2p1\r\n", false);
  EXPECT_EQ(ssh.code, Errc::protocol);
  EXPECT_TRUE(has(ssh.message(), "it sent \"SSH-2.0-OpenSSH_9.2p1\"")) << ssh.message();
  EXPECT_EQ(error_of_answer("\x1B[31mred\n", false).message().find('\x1B'), std::string::npos);
  const Error http = error_of_answer("HTTP/1.1 502 Bad Gateway\r\n\r\n", false);
  EXPECT_EQ(http.code, Errc::protocol);
  EXPECT_TRUE(has(http.message(), "\"HTTP/1.1 502 Bad Gateway\"")) << http.message();
  const std::string upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
  EXPECT_EQ(error_of_answer(upgrade + "\r\n", false).code, Errc::protocol);
  EXPECT_EQ(error_of_answer(upgrade + "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n", false).code,
            Errc::protocol);
  EXPECT_EQ(error_of_answer("HTTP/1.1 x\r\n\r\n", false).code, Errc::protocol);
  EXPECT_EQ(error_of_answer("HTTP/1.1 1013 Hm\r\n\r\n", false).code, Errc::protocol);
  EXPECT_EQ(error_of_answer("HTTP/1.1 200 " + std::string(20000, 'x'), false).code, Errc::protocol);
  EXPECT_EQ(error_of_answer(std::string("HTTP/1.1 200 OK\r\n\0\1\2", 20), false).code, Errc::protocol);
}

TEST_F(Connecting, RedirectsAreToldWithoutSecrets) {
  const Error error = error_of_answer(
      "HTTP/1.1 302 Found\r\nServer: x\r\nLOCATION:  https://user:s3cr3t@login.example/sign "
      "in?token=s3cr3t#s3cr3t\r\n\r\n");
  EXPECT_EQ(error.code, Errc::unauthorized);
  EXPECT_TRUE(has(error.message(), "redirects to \"https://login.example/sign in\", which is not followed"))
      << error.message();
  EXPECT_FALSE(has(error.message(), "s3cr3t"));
  EXPECT_TRUE(
      has(error_of_answer("HTTP/1.1 307 X\r\nLocation: /v2?t=s3cr3t\r\n\r\n").message(), "redirects to \"/v2\""));
  EXPECT_TRUE(has(error_of_answer("HTTP/1.1 301 X\r\nLocation: //h\r\n\r\n").message(), "redirects to \"//h\""));
  EXPECT_TRUE(has(error_of_answer("HTTP/1.1 301 X\r\n\r\n").message(), "redirects, which is not followed"));
}

TEST_F(Connecting, AServerThatHangsUp) {
  const Error silent = error_of_answer("");
  EXPECT_EQ(silent.code, Errc::disconnected);
  EXPECT_TRUE(has(silent.message(), "closed before the WebSocket upgrade")) << silent.message();
  const Error half = error_of_answer("HTTP/1.1 10");
  EXPECT_EQ(half.code, Errc::disconnected);
  EXPECT_TRUE(has(half.message(), "it had sent \"HTTP/1.1 10\"")) << half.message();
}

TEST_F(Connecting, AServerThatSaysNothing) {
  RawListener server;
  ConnectOptions options;
  options.timeout = 30ms;
  const Error error = error_of(server.endpoint, options);
  EXPECT_EQ(error.code, Errc::timeout);
  EXPECT_TRUE(has(error.message(), "nothing answered the WebSocket upgrade within 0.03 s")) << error.message();
  const Error hangs = error_of(command("exec sleep 100"), options);
  EXPECT_EQ(hangs.code, Errc::timeout);
}

TEST_F(Connecting, DestroyedInItsOwnCompletion) {
  listen_at("127.0.0.1:0");
  for (const bool good : {true, false}) {
    std::unique_ptr<PendingConnect> pending;
    bool done = false;
    std::unique_ptr<Transport> got;
    pending = connect(loop, good ? endpoint_of(listener->url()) : refusing(), {},
                      [&](Result<std::unique_ptr<Transport>> result) {
                        EXPECT_EQ(result.ok(), good);
                        if (result) got = std::move(*result);
                        pending.reset();
                        done = true;
                        loop.stop();
                      });
    EXPECT_TRUE(run_until([&] { return done; }));
    EXPECT_EQ(got != nullptr, good);
  }
}

TEST_F(Connecting, AHungResolverDelaysNothing) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool entered = false, released = false;
  };
  // Shared: the thread that has it outlives whoever waits for the lookup.
  const auto gate = std::make_shared<Gate>();
  bool called = false;
  const Resources before = Resources::now();
  auto pending = resolve(
      loop, "slow.example", 80, [&](const Result<std::vector<SocketAddress>>&) { called = true; },
      [gate](const std::string&, std::uint16_t) -> Result<std::vector<SocketAddress>> {
        std::unique_lock lock(gate->mutex);
        gate->entered = true;
        gate->changed.notify_all();
        gate->changed.wait(lock, [&] { return gate->released; });
        return std::vector<SocketAddress>(1);
      });
  {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->entered; });
  }
  pending.reset();  // does not wait for the thread, which is in the lookup
  {
    std::lock_guard lock(gate->mutex);
    gate->released = true;
    gate->changed.notify_all();
  }
  EXPECT_TRUE(run_until([&] { return Resources::now() == before; }));
  settle();
  EXPECT_FALSE(called);
}

TEST_F(Connecting, LookupsAnswerOnTheLoop) {
  std::optional<Result<std::vector<SocketAddress>>> found;
  const auto done = [&](Result<std::vector<SocketAddress>> result) {
    EXPECT_TRUE(loop.is_current());
    found = std::move(result);
  };
  auto pending = resolve(loop, "name.example", 80, done, [](const std::string& host, std::uint16_t port) {
    EXPECT_EQ(host, "name.example");
    EXPECT_EQ(port, 80);
    return Result<std::vector<SocketAddress>>(std::vector<SocketAddress>(3));
  });
  ASSERT_TRUE(run_until([&] { return found.has_value(); }));
  EXPECT_EQ((*found)->size(), 3U);
  found.reset();
  pending = resolve(loop, "::1", 80, done, nullptr);
  EXPECT_FALSE(found.has_value());
  ASSERT_TRUE(run_until([&] { return found.has_value(); }));
}

// --- commands ---

TEST_F(Connecting, ACommandThatEndsFirst) {
  const Error code = error_of(command("exit 3"));
  EXPECT_EQ(code.code, Errc::disconnected);
  EXPECT_EQ(code.message(), "connect to exec:exit 3: the command ended with code 3");
  EXPECT_TRUE(has(error_of(command("/nonexistent/program 2>/dev/null")).message(),
                  "the command ended with code 127 (not found)"));
  EXPECT_TRUE(has(error_of(command("kill -9 $$")).message(), "the command was ended by SIGKILL"));
  EXPECT_TRUE(has(error_of(command("printf HTTP/1.1; exit 1")).message(), "code 1; it had sent \"HTTP/1.1\""));
  const Error greeting = error_of(command("echo Welcome to this machine; exec sleep 100"));
  EXPECT_EQ(greeting.code, Errc::protocol);
  EXPECT_TRUE(has(greeting.message(), "it sent \"Welcome to this machine\"")) << greeting.message();
  EXPECT_TRUE(has(error_of(command("exec >&-; exec sleep 100")).message(), "the command closed its output"));
}

TEST_F(Connecting, ACommandIsAnAgent) {
  // The agent: this test's own listener, through the shell's idea of a network, is not there; so a relay of two FIFOs.
  const std::string up = dir / "up", down = dir / "down";
  ASSERT_EQ(::mkfifo(up.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(down.c_str(), 0600), 0);
  base::UniqueFd in(::open(up.c_str(), O_RDWR | O_CLOEXEC)), out(::open(down.c_str(), O_RDWR | O_CLOEXEC));
  const auto server = serve_stdio(loop, std::move(in), std::move(out), listen_options(),
                                  [](const Error& error) { ADD_FAILURE() << error.message(); });
  auto connected = connect_to(command("cat <" + down + " & exec cat >" + up));
  ASSERT_TRUE(connected.ok()) << connected.error().message();
  EXPECT_EQ((*connected)->peer().rfind("pid ", 0), 0U);
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  Peer client(loop);
  client.transport = std::move(*connected);
  Peer& agent = *accepted.front();
  client.transport->start(client.seen);
  agent.transport->start(agent.seen);
  agent.seen.on_each = [&] { agent.transport->send(agent.seen.messages.back()); };
  const std::string message(300000, 'm');
  for (int i = 0; i < 20; ++i) client.transport->send(message);
  ASSERT_TRUE(run_until([&] { return client.seen.messages.size() == 20; }));
  for (const auto& echoed : client.seen.messages) EXPECT_TRUE(echoed == message);
}

TEST_F(Connecting, ACommandHasItsOwnSessionAndCleanSignals) {
  sigset_t blocked, old;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &old), 0);
  // The shell's own 10 (where it keeps its stdout), and the folder that ls reads; not what this test was started with.
  const std::set<std::string> allowed{"0", "1", "2", "3", "10"};
  const base::UniqueFd inherited(::dup(STDERR_FILENO));
  listen_at("127.0.0.1:0");
  const std::string file = dir / "out";
  error_of(command(
      "{ cut -d' ' -f1,5,6 /proc/$$/stat; ls /proc/self/fd; grep -E 'SigBlk|SigIgn' /proc/self/status; } >" + file));
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  std::ifstream in(file);
  int pid = 0, group = 0, session = 0;
  in >> pid >> group >> session;
  EXPECT_GT(pid, 0);
  EXPECT_EQ(pid, group);
  EXPECT_EQ(pid, session);
  std::string word;
  while (in >> word && word != "SigBlk:") EXPECT_EQ(allowed.count(word), 1U) << word;
  std::uint64_t mask = 1, ignored = 0;
  in >> std::hex >> mask >> word >> ignored;
  EXPECT_EQ(mask, 0U);
  EXPECT_EQ(word, "SigIgn:");
  EXPECT_EQ(ignored >> (SIGPIPE - 1) & 1, 0U);
}

/// The processes of a group that are there and are not zombies.
std::size_t alive(const std::string& marker) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    // read(2): the process may go meanwhile, which a stream reports by throwing.
    const base::UniqueFd file(::open((entry.path() / "cmdline").c_str(), O_RDONLY | O_CLOEXEC));
    std::string line(4096, '\0');
    const ssize_t size = file ? ::read(file.get(), line.data(), line.size()) : 0;
    line.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (has(line, marker) && !has(line, "unit_net")) ++count;
  }
  return count;
}

TEST_F(Connecting, TheCommandsGroupGoesWithTheConnection) {
  const std::string marker = dir / "marker";
  const Resources before = Resources::now();
  Outcome outcome;
  // A child that ends by TERM, one that ignores it, and a grandchild.
  auto pending = begin_connect(command("trap '' TERM; sh -c 'sleep 1000; : " + marker + "' & sleep 1000; : " + marker),
                               {}, outcome);
  ASSERT_TRUE(run_until([&] { return alive(marker) >= 2; }));
  EXPECT_FALSE(outcome.has_value());
  pending.reset();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->error().code, Errc::cancelled);
  EXPECT_TRUE(run_until([&] { return alive(marker) == 0 && Resources::now() == before; }));
}

TEST_F(Connecting, TheChildIsGoneEvenWhenTheLoopGoesFirst) {
  const Resources before = Resources::now();
  {
    AsioLoop other;
    Outcome outcome;
    auto pending = connect(other, command("trap '' TERM; while :; do sleep 1; done"), {},
                           [&](Result<std::unique_ptr<Transport>> result) { outcome = std::move(result); });
    other.post([&] { other.post([&] { other.stop(); }); });
    other.run();
    EXPECT_NE(Resources::now(), before);
    pending.reset();
  }
  EXPECT_EQ(Resources::now(), before);
}

// --- a thousand failures ---

class Failing : public Connecting {
 protected:
  static constexpr int kTimes = 200;  // of each of the kinds: more than 1,000 in all
  void expect_unchanged(const Resources& before) {
    EXPECT_TRUE(run_until([&] { return Resources::now() == before; }))
        << "were " << before << ", are " << Resources::now();
  }
};

TEST_F(Failing, RefusedMissingAndUnauthorizedLeaveNothing) {
  listen_at("127.0.0.1:0", "right");
  const Endpoint refused = refusing(), missing = endpoint_of("unix:" + dir / "none");
  const Endpoint unauthorized = endpoint_of(listener->url());
  const Resources before = Resources::now();
  for (int i = 0; i < kTimes; ++i) {
    EXPECT_EQ(error_of(refused).code, Errc::disconnected);
    EXPECT_EQ(error_of(missing).code, Errc::disconnected);
    EXPECT_EQ(error_of(unauthorized).code, Errc::unauthorized);
  }
  expect_unchanged(before);
}

TEST_F(Failing, CommandsThatExitLeaveNothing) {
  const Resources before = Resources::now();
  for (int i = 0; i < kTimes; ++i) EXPECT_EQ(error_of(command("exit 1")).code, Errc::disconnected);
  expect_unchanged(before);
}

TEST_F(Failing, CancelledAtEachStageLeavesNothing) {
  RawListener silent;
  const Resources before = Resources::now();
  for (int i = 0; i < kTimes; ++i) {
    for (int turns = 0; turns < 4; ++turns) {
      Outcome outcome;
      auto pending = begin_connect(i % 10 == 0 ? command("exec sleep 1000") : silent.endpoint, {}, outcome);
      for (int turn = 0; turn < turns; ++turn) settle();
      RawPeer peer;
      if (turns == 3 && silent.accept(peer)) peer.send("HTTP/1.1 1");
      if (turns == 3) settle();
      pending.reset();
      ASSERT_TRUE(outcome.has_value());
      EXPECT_EQ(outcome->error().code, Errc::cancelled);
      while (silent.accept(peer)) {
      }
    }
  }
  expect_unchanged(before);
}

TEST_F(Failing, CancelledLookupsLeaveNothing) {
  const Resources before = Resources::now();
  Endpoint endpoint;
  endpoint.host = "no..such.invalid";
  endpoint.port = 1;
  for (int i = 0; i < 50; ++i) {
    Outcome outcome;
    auto pending = begin_connect(endpoint, {}, outcome);
    settle();
    pending.reset();
    EXPECT_TRUE(outcome.has_value());
  }
  expect_unchanged(before);
}

}  // namespace
}  // namespace sandbar::net::testing
