// SPDX-License-Identifier: Apache-2.0
// wss:// from connect() to listen(), and what goes wrong between them.
#include <openssl/ssl.h>

#include "net_test.h"
#include "test_certificates.h"

namespace sandbar::net::testing {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Tls : public NetTest {
 protected:
  Tls() : authority((dir / "").substr(0, (dir / "").size() - 1), "ca") { trusting.ca_file = authority.ca_file(); }

  void listen_tls(const CertificateFiles& files, const std::string& address = "127.0.0.1:0",
                  base::Duration limit = 10s) {
    ListenOptions options = listen_options("right");
    options.tls_certificate = files.certificate;
    options.tls_key = files.key;
    options.upgrade_timeout = limit;
    auto made = listen(loop, address, std::move(options));
    ASSERT_TRUE(made.ok()) << made.error().message();
    listener = std::move(*made);
    trusting.token = "right";
  }
  Error error_of(const Endpoint& endpoint, const ConnectOptions& options) {
    auto result = connect_to(endpoint, options);
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  }
  Error error_of(const ConnectOptions& options) { return error_of(endpoint_of(listener->url()), options); }
  Error error_with(const CertificateFiles& files) {
    listen_tls(files);
    return error_of(trusting);
  }

  Authority authority;
  ConnectOptions trusting;
};

TEST_F(Tls, MessagesBothWays) {
  listen_tls(authority.issue("server"));
  EXPECT_EQ(listener->url().rfind("wss://127.0.0.1:", 0), 0U);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    Endpoint endpoint = endpoint_of(listener->url());
    endpoint.host = host;
    Peer client(loop);
    auto connected = connect_to(endpoint, trusting);
    ASSERT_TRUE(connected.ok()) << connected.error().message();
    client.transport = std::move(*connected);
    ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
    Peer& agent = *accepted.back();
    client.transport->start(client.seen);
    agent.transport->start(agent.seen);
    agent.seen.on_each = [&] { agent.transport->send(agent.seen.messages.back()); };
    const std::string message(500000, 'm');
    for (int i = 0; i < 20; ++i) client.transport->send(message);
    client.transport->send("small");
    ASSERT_TRUE(run_until([&] { return client.seen.messages.size() == 21; }));
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.seen.messages[static_cast<std::size_t>(i)] == message);
    client.transport->close("enough");
    ASSERT_TRUE(run_until([&] { return agent.seen.closed.has_value(); }));
    EXPECT_TRUE(has(agent.seen.closed->message(), "enough"));
    accepted.clear();
  }
}

TEST_F(Tls, TheTokenIsAskedForAsEver) {
  listen_tls(authority.issue("server"));
  trusting.token = "wrong";
  EXPECT_EQ(error_of(trusting).code, Errc::unauthorized);
}

TEST_F(Tls, OverIpv6) {
  listen_tls(authority.issue("server"), "[::1]:0");
  EXPECT_TRUE(connect_to(endpoint_of(listener->url()), trusting).ok());
}

TEST_F(Tls, TheSystemsRootsWhereNoFileIsGiven) {
  listen_tls(authority.issue("server"));
  ConnectOptions options = trusting;
  options.ca_file.clear();
  const Error unknown = error_of(options);
  EXPECT_EQ(unknown.code, Errc::protocol);
  EXPECT_TRUE(
      has(unknown.message(), "that this machine does not know (CN=ca); give the issuer's certificate by --ca-file"))
      << unknown.message();
  const char* variable = std::getenv("SSL_CERT_FILE");
  const auto before = variable != nullptr ? std::optional<std::string>(variable) : std::nullopt;
  ::setenv("SSL_CERT_FILE", trusting.ca_file.c_str(), 1);  // where OpenSSL looks for them
  EXPECT_TRUE(connect_to(endpoint_of(listener->url()), options).ok());
  if (before)
    ::setenv("SSL_CERT_FILE", before->c_str(), 1);
  else
    ::unsetenv("SSL_CERT_FILE");
}

TEST_F(Tls, AnotherIssuer) {
  listen_tls(authority.issue("server"));
  const Authority other((dir / "").substr(0, (dir / "").size() - 1), "other");
  trusting.ca_file = other.ca_file();
  const Error error = error_of(trusting);
  EXPECT_EQ(error.code, Errc::protocol);
  EXPECT_TRUE(has(error.message(), "not from an issuer in the CA file " + other.ca_file())) << error.message();
}

TEST_F(Tls, ACertificateThatIsTrustedForItself) {
  const CertificateFiles own = authority.self_signed("own");
  EXPECT_TRUE(has(error_with(own).message(), "not from an issuer in the CA file"));
  trusting.ca_file = own.certificate;
  EXPECT_TRUE(connect_to(endpoint_of(listener->url()), trusting).ok());
  // Signed by one that is not in the file.
  const CertificateFiles leaf = authority.issue("leaf", {.chain = false});
  listen_tls(leaf);
  trusting.ca_file = leaf.certificate;
  EXPECT_TRUE(connect_to(endpoint_of(listener->url()), trusting).ok());
}

TEST_F(Tls, AnotherName) {
  const Error name = error_with(authority.issue("a", {.names = "DNS:box.example,DNS:*.example,IP:192.0.2.1"}));
  EXPECT_EQ(name.code, Errc::protocol);
  EXPECT_TRUE(
      has(name.message(), "the server's certificate is not for 127.0.0.1 but for box.example, *.example, 192.0.2.1"))
      << name.message();
  listen_tls(authority.issue("b", {.names = "IP:127.0.0.1"}));
  Endpoint endpoint = endpoint_of(listener->url());
  endpoint.host = "localhost";
  EXPECT_TRUE(has(error_of(endpoint, trusting).message(), "is not for localhost but for 127.0.0.1"));
  listen_tls(authority.issue("c", {.names = "DNS:a.x,DNS:b.x,DNS:c.x,DNS:d.x,DNS:e.x,DNS:f.x"}));
  EXPECT_TRUE(has(error_of(trusting).message(), "d.x, e.x, ...;")) << error_of(trusting).message();
}

TEST_F(Tls, OutOfDate) {
  const Error expired = error_with(authority.issue("old", {.valid_from = -7200, .valid_to = -3600}));
  EXPECT_EQ(expired.code, Errc::protocol);
  EXPECT_TRUE(has(expired.message(), "the server's certificate expired on 2")) << expired.message();
  EXPECT_TRUE(has(expired.message(), "or this machine's clock is wrong"));
  const Error early = error_with(authority.issue("new", {.valid_from = 3600, .valid_to = 7200}));
  EXPECT_TRUE(has(early.message(), "is not valid before 2")) << early.message();
}

TEST_F(Tls, TrustThatCannotBeRead) {
  listen_tls(authority.issue("server"));
  trusting.ca_file = dir / "none";
  const Error error = error_of(trusting);
  EXPECT_EQ(error.code, Errc::invalid);
  EXPECT_TRUE(has(error.message(), "read the CA file " + trusting.ca_file)) << error.message();
}

TEST_F(Tls, PlainToTls) {
  listen_tls(authority.issue("server"));
  Endpoint endpoint = endpoint_of(listener->url());
  endpoint.tls = false;
  const Error error = error_of(endpoint, trusting);
  EXPECT_EQ(error.code, Errc::protocol);
  EXPECT_TRUE(has(error.message(), "the agent uses TLS: use wss://")) << error.message();
  // Others' TLS servers send an alert, or hang up.
  for (const auto& [bytes, text] : {std::pair(std::string("\x15\x03\x03\x00\x02\x02\x0a", 7), "speaks TLS: try wss://"),
                                    std::pair(std::string(), "the agent may use TLS: try wss://")}) {
    RawListener server;
    RawPeer peer;
    Outcome outcome;
    const auto pending = begin_connect(server.endpoint, {}, outcome);
    ASSERT_TRUE(run_until([&] { return server.accept(peer); }));
    ASSERT_TRUE(run_until([&] { return has(peer.take().received, "\r\n\r\n"); }));
    if (!bytes.empty()) {
      EXPECT_TRUE(peer.send(bytes));
    }
    peer.shutdown();
    ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
    EXPECT_TRUE(has(outcome->error().message(), text)) << outcome->error().message();
  }
}

TEST_F(Tls, TlsToPlain) {
  listen_at("127.0.0.1:0");
  Endpoint endpoint = endpoint_of(listener->url());
  endpoint.tls = true;
  const Error error = error_of(endpoint, trusting);
  EXPECT_EQ(error.code, Errc::protocol);
  EXPECT_TRUE(has(error.message(),
                  "does not speak TLS: it sent \"HTTP/1.1 400 Bad Request\"; the agent may not use TLS: "
                  "try ws://"))
      << error.message();
  RawListener server;
  server.endpoint.tls = true;
  RawPeer peer;
  Outcome outcome;
  const auto pending = begin_connect(server.endpoint, trusting, outcome);
  ASSERT_TRUE(run_until([&] { return server.accept(peer); }));
  ASSERT_TRUE(run_until([&] { return !peer.take().received.empty(); }));
  peer.shutdown();
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->error().code, Errc::disconnected);
  EXPECT_TRUE(has(outcome->error().message(), "closed in the TLS handshake; the agent may not use TLS"));
}

TEST_F(Tls, AServerThatSaysNothing) {
  RawListener server;
  server.endpoint.tls = true;
  trusting.timeout = 50ms;
  const Error error = error_of(server.endpoint, trusting);
  EXPECT_EQ(error.code, Errc::timeout);
  EXPECT_TRUE(has(error.message(), "nothing answered the TLS handshake")) << error.message();
}

TEST_F(Tls, ReloadIsForNewConnections) {
  const CertificateFiles files = authority.issue("server");
  listen_tls(files);
  Peer old(loop);
  auto connected = connect_to(endpoint_of(listener->url()), trusting);
  ASSERT_TRUE(connected.ok());
  old.transport = std::move(*connected);
  ASSERT_TRUE(run_until([&] { return !accepted.empty(); }));
  Peer& agent = *accepted.front();
  old.transport->start(old.seen);
  agent.transport->start(agent.seen);

  // What cannot be used changes nothing.
  std::filesystem::rename(files.certificate, files.certificate + ".old");
  const auto missing = listener->reload();
  ASSERT_FALSE(missing.ok());
  EXPECT_TRUE(has(missing.error().message(), files.certificate)) << missing.error().message();
  EXPECT_TRUE(connect_to(endpoint_of(listener->url()), trusting).ok());

  Authority other((dir / "").substr(0, (dir / "").size() - 1), "other");
  other.issue("server");  // in the same files
  EXPECT_TRUE(connect_to(endpoint_of(listener->url()), trusting).ok()) << "it was not told to look yet";
  ASSERT_TRUE(listener->reload().ok());
  EXPECT_EQ(error_of(trusting).code, Errc::protocol);
  trusting.ca_file = other.ca_file();
  EXPECT_TRUE(connect_to(endpoint_of(listener->url()), trusting).ok());
  old.transport->send("still here");
  EXPECT_TRUE(run_until([&] { return agent.seen.messages.size() == 1; }));
}

TEST_F(Tls, ListenersThatAreNotMade) {
  const CertificateFiles files = authority.issue("server");
  const auto error_of_listen = [&](const std::string& address, const std::string& certificate, const std::string& key) {
    ListenOptions options = listen_options();
    options.tls_certificate = certificate;
    options.tls_key = key;
    auto made = listen(loop, address, std::move(options));
    EXPECT_FALSE(made.ok());
    return made.ok() ? std::string() : made.error().message();
  };
  EXPECT_TRUE(has(error_of_listen("127.0.0.1:0", files.certificate, ""), "both a certificate and its key"));
  EXPECT_TRUE(has(error_of_listen("127.0.0.1:0", dir / "none", files.key), "none: No such file"));
  EXPECT_TRUE(has(error_of_listen("unix:" + dir / "s", files.certificate, files.key), "TLS is for TCP"));
  EXPECT_FALSE(std::filesystem::exists(dir / "s"));
}

TEST_F(Tls, SlowClientsAreDropped) {
  listen_tls(authority.issue("server"), "127.0.0.1:0", 60ms);
  RawPeer silent(endpoint_of(listener->url())), slow(endpoint_of(listener->url()));
  ASSERT_TRUE(slow.send(std::string("\x16\x03\x01\x02\x00\x01", 6)));  // the beginning of a ClientHello
  EXPECT_TRUE(run_until([&] { return silent.take().ended && slow.take().ended; }));
}

TEST_F(Tls, HandshakesCountAsUpgrades) {
  const CertificateFiles files = authority.issue("server");
  ListenOptions options = listen_options();
  options.tls_certificate = files.certificate;
  options.tls_key = files.key;
  options.max_upgrading = 2;
  auto made = listen(loop, "127.0.0.1:0", std::move(options));
  ASSERT_TRUE(made.ok());
  const Endpoint there = endpoint_of((*made)->url());
  std::vector<RawPeer> silent;
  silent.emplace_back(there);
  silent.emplace_back(there);
  settle();
  trusting.timeout = 100ms;
  EXPECT_EQ(error_of(there, trusting).code, Errc::timeout);  // waits in the backlog
  silent.pop_back();
  trusting.timeout = 15s;
  EXPECT_TRUE(connect_to(there, trusting).ok());
}

/// A client that is OpenSSL's own, on a thread: what it got, "" for no connection.
struct OwnClient {
  int min = 0, max = 0;
  std::string protocols;

  [[nodiscard]] std::string run(std::uint16_t port) const {
    RawPeer peer([&] {
      Endpoint endpoint;
      endpoint.port = port;
      return endpoint;
    }());
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(context, 0);
    SSL_CTX_set_min_proto_version(context, min);
    SSL_CTX_set_max_proto_version(context, max);
    SSL* ssl = SSL_new(context);
    if (!protocols.empty())
      SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(protocols.data()),
                          static_cast<unsigned>(protocols.size()));
    SSL_set_fd(ssl, peer.fd());
    std::string got;
    if (SSL_connect(ssl) == 1) {
      const unsigned char* chosen = nullptr;
      unsigned size = 0;
      SSL_get0_alpn_selected(ssl, &chosen, &size);
      got = std::string(SSL_get_version(ssl)) + "/" + std::string(reinterpret_cast<const char*>(chosen), size);
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    return got;
  }
};

TEST_F(Tls, VersionsAndProtocols) {
  listen_tls(authority.issue("server"));
  const std::uint16_t port = endpoint_of(listener->url()).port;
  const auto run = [&](const OwnClient& client) {
    std::optional<std::string> got;
    std::thread thread([&] {
      std::string text = client.run(port);
      loop.post([&got, text = std::move(text)] { got = text; });
    });
    EXPECT_TRUE(run_until([&] { return got.has_value(); }));
    thread.join();
    return got.value_or("?");
  };
  const std::string http("\x08http/1.1", 9), h2("\x02h2", 3);
  EXPECT_EQ(run({0, 0, {}}), "TLSv1.3/");
  EXPECT_EQ(run({0, 0, http}), "TLSv1.3/http/1.1");
  EXPECT_EQ(run({0, 0, h2 + http}), "TLSv1.3/http/1.1");
  EXPECT_EQ(run({0, 0, h2}), "");
  EXPECT_EQ(run({TLS1_2_VERSION, TLS1_2_VERSION, http}), "TLSv1.2/http/1.1");
  EXPECT_EQ(run({TLS1_1_VERSION, TLS1_1_VERSION, {}}), "");
}

TEST_F(Tls, CancelledAtEachStageLeavesNothing) {
  RawListener silent;
  silent.endpoint.tls = true;
  listen_tls(authority.issue("server"));
  const Endpoint good = endpoint_of(listener->url());
  EXPECT_TRUE(connect_to(good, trusting).ok());  // what OpenSSL opens once
  accepted.clear();
  settle();
  const Resources before = Resources::now();
  for (int i = 0; i < 60; ++i) {
    for (int turns = 0; turns < 8; ++turns) {
      Outcome outcome;
      auto pending = begin_connect(turns % 2 == 0 ? silent.endpoint : good, trusting, outcome);
      for (int turn = 0; turn < turns && !outcome; ++turn) settle();
      pending.reset();
      ASSERT_TRUE(outcome.has_value());
      EXPECT_TRUE(outcome->ok() || outcome->error().code == Errc::cancelled) << outcome->error().message();
      RawPeer peer;
      while (silent.accept(peer)) {
      }
    }
    accepted.clear();
  }
  EXPECT_TRUE(run_until([&] {
    accepted.clear();
    return Resources::now() == before;
  })) << "were "
      << before << ", are " << Resources::now();
}

TEST_F(Tls, FailuresLeaveNothing) {
  listen_tls(authority.issue("server"));
  const Endpoint good = endpoint_of(listener->url());
  Endpoint plain = good, closed = good;
  plain.tls = false;
  closed.port = [] {
    RawListener server;
    server.close();
    return server.endpoint.port;
  }();
  const Authority other((dir / "").substr(0, (dir / "").size() - 1), "other");
  ConnectOptions untrusting = trusting;
  untrusting.ca_file = other.ca_file();
  const Resources before = Resources::now();
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(error_of(good, untrusting).code, Errc::protocol);
    EXPECT_EQ(error_of(plain, trusting).code, Errc::protocol);
    EXPECT_EQ(error_of(closed, trusting).code, Errc::disconnected);
  }
  EXPECT_TRUE(run_until([&] { return Resources::now() == before; }))
      << "were " << before << ", are " << Resources::now();
}

}  // namespace
}  // namespace sandbar::net::testing
