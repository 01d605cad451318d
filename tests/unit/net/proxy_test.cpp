// SPDX-License-Identifier: Apache-2.0
#include "net/proxy.h"

#include "net_test.h"
#include "test_certificates.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Proxies, AreParsed) {
  const auto proxy = parse_proxy("http://us%40er:p%3Aw@Proxy.example:3128/");
  ASSERT_TRUE(proxy.ok()) << proxy.error().message();
  EXPECT_EQ(proxy->host, "Proxy.example");
  EXPECT_EQ(proxy->port, 3128);
  EXPECT_EQ(proxy->authorization, "Basic dXNAZXI6cDp3");  // us@er:p:w
  EXPECT_EQ(parse_proxy("proxy.example")->port, 80);
  EXPECT_EQ(parse_proxy("HTTP://[::1]")->host, "::1");
  EXPECT_EQ(parse_proxy("[::1]:8080")->port, 8080);
  EXPECT_EQ(parse_proxy("proxy.example")->authorization, "");
  for (const char* wrong : {"", "http://", "http://a:b:c", "http://a:0", "http://a:99999", "http://a b",
                            "http://a\r\nb", "http://user:secret@"})
    EXPECT_EQ(parse_proxy(wrong).error().code, Errc::invalid) << wrong;
  for (const char* other : {"socks5://user:secret@a:1", "https://user:secret@a:1"}) {
    const auto error = parse_proxy(other).error();
    EXPECT_EQ(error.code, Errc::unsupported);
    EXPECT_FALSE(has(error.message(), "secret")) << error.message();
    EXPECT_TRUE(has(error.message(), ":// proxies are not supported")) << error.message();
  }
  EXPECT_TRUE(parse_proxy("a" + std::string(4095, 'b')).ok());
  EXPECT_FALSE(parse_proxy("a" + std::string(4096, 'b')).ok());
}

TEST(Proxies, HostsThatNeedNone) {
  EXPECT_TRUE(is_excluded("*", "a.example", 443));
  EXPECT_TRUE(is_excluded("x, example.com ,y", "example.com", 443));
  EXPECT_TRUE(is_excluded("example.com", "Box.Example.COM", 443));
  EXPECT_TRUE(is_excluded(".example.com", "box.example.com.", 443));
  EXPECT_TRUE(is_excluded(".example.com", "example.com", 443));
  EXPECT_FALSE(is_excluded("example.com", "notexample.com", 443));
  EXPECT_FALSE(is_excluded("box.example.com", "example.com", 443));
  EXPECT_TRUE(is_excluded("example.com:8443", "a.example.com", 8443));
  EXPECT_FALSE(is_excluded("example.com:8443", "a.example.com", 443));
  EXPECT_FALSE(is_excluded("example.com:", "example.com", 443));
  EXPECT_TRUE(is_excluded("*:443", "example.com", 443));
  EXPECT_FALSE(is_excluded("*:443", "example.com", 444));
  EXPECT_TRUE(is_excluded("192.0.2.1", "192.0.2.1", 443));
  EXPECT_TRUE(is_excluded("2001:db8::1", "2001:db8::1", 443));
  EXPECT_TRUE(is_excluded("[2001:db8::1]:443", "2001:db8::1", 443));
  EXPECT_FALSE(is_excluded("[2001:db8::1]:444", "2001:db8::1", 443));
  for (const char* none : {"", ",", " ", ".", ":", ":443", ",,.,"}) EXPECT_FALSE(is_excluded(none, "a", 443)) << none;
}

/// The environment without proxies, and as it was afterwards.
class CleanEnvironment {
 public:
  CleanEnvironment() {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.push_back(value != nullptr ? std::optional<std::string>(value) : std::nullopt);
      ::unsetenv(name);
    }
  }
  ~CleanEnvironment() {
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (before_[i])
        ::setenv(kNames[i], before_[i]->c_str(), 1);
      else
        ::unsetenv(kNames[i]);
    }
  }

 private:
  static constexpr const char* kNames[] = {"HTTPS_PROXY", "https_proxy", "NO_PROXY",
                                           "no_proxy",    "HTTP_PROXY",  "http_proxy"};
  std::vector<std::optional<std::string>> before_;
};

TEST(Proxies, TheEnvironment) {
  const CleanEnvironment clean;
  const auto chosen = [](const std::string& host, const std::optional<std::string>& given = std::nullopt) {
    const auto proxy = choose_proxy(given, host, 443);
    EXPECT_TRUE(proxy.ok()) << proxy.error().message();
    return proxy.ok() && *proxy ? (*proxy)->host : std::string();
  };
  EXPECT_EQ(chosen("a.example"), "");
  ::setenv("HTTP_PROXY", "http://no", 1);
  ::setenv("http_proxy", "http://no", 1);
  EXPECT_EQ(chosen("a.example"), "");
  ::setenv("HTTPS_PROXY", "http://big", 1);
  EXPECT_EQ(chosen("a.example"), "big");
  ::setenv("https_proxy", "http://small", 1);
  EXPECT_EQ(chosen("a.example"), "small");
  for (const char* here : {"localhost", "127.0.0.1", "127.9.9.9", "::1"}) EXPECT_EQ(chosen(here), "") << here;
  EXPECT_EQ(chosen("a.example", "http://given"), "given");
  EXPECT_EQ(chosen("a.example", ""), "");
  ::setenv("NO_PROXY", "example", 1);
  EXPECT_EQ(chosen("a.example"), "");
  EXPECT_EQ(chosen("a.example", "http://given"), "given");
  EXPECT_EQ(chosen("a.test"), "small");
  ::setenv("no_proxy", "test", 1);
  EXPECT_EQ(chosen("a.test"), "");
  ::setenv("https_proxy", "socks5://x", 1);
  EXPECT_FALSE(choose_proxy(std::nullopt, "a.example", 443).ok());
}

/// connect() through a proxy that is the test itself.
class ThroughAProxy : public NetTest {
 protected:
  ThroughAProxy() : authority((dir / "").substr(0, (dir / "").size() - 1), "ca") {
    options.ca_file = authority.ca_file();
    options.token = "s3cr3t-token";
    options.proxy = "http://127.0.0.1:" + std::to_string(server.endpoint.port);
    target.host = "box.example";
    target.port = 8443;
    target.tls = true;
  }
  /// Until the proxy has the whole request.
  void begin() {
    pending = begin_connect(target, options, outcome);
    ASSERT_TRUE(run_until([&] { return server.accept(proxy); }));
    ASSERT_TRUE(run_until([&] { return has(proxy.take().received, "\r\n\r\n"); }));
  }
  Error error_of_answer(const std::string& bytes, bool hang_up = false) {
    begin();
    EXPECT_TRUE(proxy.send(bytes));
    if (hang_up) proxy.shutdown();
    EXPECT_TRUE(run_until([&] { return outcome.has_value(); }));
    EXPECT_FALSE(outcome->ok());
    const Error error = outcome->error();
    EXPECT_FALSE(has(proxy.take().received, "s3cr3t-token"));
    EXPECT_FALSE(has(error.message(), "s3cr3t")) << error.message();
    outcome.reset();
    proxy = {};
    return error;
  }

  Authority authority;
  RawListener server;
  RawPeer proxy;
  ConnectOptions options;
  Endpoint target;
  Outcome outcome;
  std::unique_ptr<PendingConnect> pending;
};

TEST_F(ThroughAProxy, TheRequestAndTheTunnel) {
  const CertificateFiles files = authority.issue("server", {.names = "DNS:box.example"});
  ListenOptions listening = listen_options("s3cr3t-token");
  listening.tls_certificate = files.certificate;
  listening.tls_key = files.key;
  auto made = listen(loop, "127.0.0.1:0", std::move(listening));
  ASSERT_TRUE(made.ok());
  options.proxy = "http://user:s3cr3t@127.0.0.1:" + std::to_string(server.endpoint.port);
  begin();
  EXPECT_EQ(proxy.received.rfind("CONNECT box.example:8443 HTTP/1.1\r\nHost: box.example:8443\r\n", 0), 0U);
  EXPECT_TRUE(has(proxy.received, "\r\nProxy-Authorization: Basic dXNlcjpzM2NyM3Q=\r\n"));
  proxy.received.clear();
  ASSERT_TRUE(proxy.send("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n"));
  // The proxy's work: from one to the other.
  RawPeer behind(endpoint_of((*made)->url()));
  std::string all;
  ASSERT_TRUE(run_until([&] {
    all += proxy.take().received;
    behind.send(std::exchange(proxy.received, {}));
    proxy.send(std::exchange(behind.take().received, {}));
    return outcome.has_value();
  }));
  ASSERT_TRUE(outcome->ok()) << outcome->error().message();
  EXPECT_FALSE(has(all, "s3cr3t-token"));
  EXPECT_EQ((*outcome->value()).peer(), "127.0.0.1:" + std::to_string(server.endpoint.port));
}

TEST_F(ThroughAProxy, RefusedAndWrongAnswers) {
  const Error asks = error_of_answer("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(asks.code, Errc::disconnected);
  EXPECT_TRUE(has(asks.message(), "asks for a user and a password (HTTP 407)")) << asks.message();
  options.proxy = "http://user:s3cr3t@127.0.0.1:" + std::to_string(server.endpoint.port);
  EXPECT_TRUE(has(error_of_answer("HTTP/1.1 407 No\r\n\r\n").message(), "refused its user or password"));
  const Error forbidden = error_of_answer("HTTP/1.0 403 Not \x1B[31mhere\r\n\r\n");
  EXPECT_EQ(forbidden.code, Errc::disconnected);
  EXPECT_TRUE(has(forbidden.message(), "does not connect to box.example:8443: it answered \"HTTP/1.0 403 Not"));
  EXPECT_FALSE(has(forbidden.message(), "\x1B"));
  EXPECT_TRUE(has(error_of_answer("SSH-2.0-x\r\n").message(), "no HTTP proxy: it sent \"SSH-2.0-x\""));
  EXPECT_EQ(error_of_answer("HTTP/1.1 2x0 Hm\r\n\r\n").code, Errc::disconnected);
  EXPECT_EQ(error_of_answer("HTTP/1.1 \r\n\r\n").code, Errc::disconnected);
  EXPECT_TRUE(has(error_of_answer("HTTP/1.1 200 OK\r\n\r\nX").message(), "more than its answer"));
  const Error cut = error_of_answer("HTTP/1.1 20", true);
  EXPECT_EQ(cut.code, Errc::disconnected);
  EXPECT_TRUE(has(cut.message(), "the proxy closed the connection; it had sent \"HTTP/1.1 20\"")) << cut.message();
  EXPECT_TRUE(has(error_of_answer("HTTP/1.1 200 OK\r\nX: " + std::string(kMaxProxyHead, 'x')).message(), "endless"));
}

TEST_F(ThroughAProxy, TheLongestAnswer) {
  const std::string start = "HTTP/1.1 500 No\r\nX: ";
  const std::string longest = start + std::string(kMaxProxyHead - start.size(), 'x');
  EXPECT_TRUE(has(error_of_answer(longest + "\r\n\r\n").message(), "HTTP/1.1 500 No"));
  EXPECT_TRUE(has(error_of_answer(longest + "x\r\n\r\n").message(), "endless"));
}

TEST_F(ThroughAProxy, ASilentOne) {
  options.timeout = 50ms;
  begin();
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->error().code, Errc::timeout);
  EXPECT_TRUE(has(outcome->error().message(), "the proxy 127.0.0.1:")) << outcome->error().message();
}

TEST_F(ThroughAProxy, NobodyThere) {
  server.close();
  const auto result = connect_to(target, options);
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(has(result.error().message(), "the proxy 127.0.0.1:")) << result.error().message();
  EXPECT_TRUE(has(result.error().message(), "Connection refused"));
}

TEST_F(ThroughAProxy, ALoopbackTargetNeedsNone) {
  const CertificateFiles files = authority.issue("server");
  ListenOptions listening = listen_options("s3cr3t-token");
  listening.tls_certificate = files.certificate;
  listening.tls_key = files.key;
  auto made = listen(loop, "127.0.0.1:0", std::move(listening));
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(connect_to(endpoint_of((*made)->url()), options).ok());
  EXPECT_FALSE(server.accept(proxy));
}

TEST_F(ThroughAProxy, CancelledLeavesNothing) {
  begin();  // what OpenSSL opens once
  pending.reset();
  outcome.reset();
  proxy = {};
  const Resources before = Resources::now();
  for (int i = 0; i < 100; ++i) {
    begin();
    if (i % 2 == 0) {
      EXPECT_TRUE(proxy.send(i % 4 == 0 ? "HTTP/1.1 200 OK\r\n\r\n" : "HTTP/1.1 2"));
    }
    settle();
    pending.reset();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->error().code, Errc::cancelled);
    outcome.reset();
    proxy = {};
  }
  EXPECT_TRUE(run_until([&] { return Resources::now() == before; }))
      << "were " << before << ", are " << Resources::now();
}

}  // namespace
}  // namespace sandbar::net::testing
