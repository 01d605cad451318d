// SPDX-License-Identifier: Apache-2.0
#include "net/tls_stream.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <deque>

#include "net/fd_stream.h"
#include "net/stream_watch.h"
#include "net/tls_handshake.h"
#include "net_test.h"
#include "test_certificates.h"

namespace sandbar::net::testing {
namespace {

/// A stream that does as little as it may: one byte a call, and every other call says "not now".
class Miser final : public Stream {
 public:
  explicit Miser(std::unique_ptr<Stream> inner) : inner_(std::move(inner)) {}
  ssize_t read(char* into, std::size_t size) override {
    if ((read_now_ = !read_now_)) return inner_->read(into, std::min<std::size_t>(size, 1));
    errno = EAGAIN;
    return -1;
  }
  ssize_t write(const iovec* pieces, int count) override {
    if ((write_now_ = !write_now_) && count > 0) {
      const iovec one{pieces[0].iov_base, std::min<std::size_t>(pieces[0].iov_len, 1)};
      return inner_->write(&one, 1);
    }
    errno = EAGAIN;
    return -1;
  }
  void shutdown_write() override { inner_->shutdown_write(); }
  [[nodiscard]] int read_fd() const override { return inner_->read_fd(); }
  [[nodiscard]] int write_fd() const override { return inner_->write_fd(); }
  [[nodiscard]] std::string peer() const override { return inner_->peer(); }
  void explain_end(base::Function<void(std::string)> explained) override { inner_->explain_end(std::move(explained)); }

 private:
  std::unique_ptr<Stream> inner_;
  bool read_now_ = false, write_now_ = false;
};

/// One end: reads all that comes, writes what it is given.
class End {
 public:
  End(AsioLoop& loop, std::unique_ptr<Stream> stream, std::size_t read_size = 256 * 1024)
      : read_size_(read_size), stream(std::move(stream)) {
    watch_ = std::make_unique<StreamWatch>(
        loop, *this->stream, [this] { readable(); }, [this] { write(); });
    watch_->want_read(true);
  }
  void send(std::vector<std::string> pieces) {
    for (auto& piece : pieces) out_.push_back(std::move(piece));
    write();
  }
  /// The watch goes before its stream.
  void close() {
    watch_.reset();
    stream.reset();
  }
  [[nodiscard]] bool idle() const { return out_.empty(); }

  std::string received;
  int ended = 0, error = 0;
  std::optional<std::string> why;

 private:
  void readable() {
    std::string buffer(read_size_, '\0');
    const ssize_t got = stream->read(buffer.data(), buffer.size());
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) {
      received.append(buffer, 0, static_cast<std::size_t>(got));
      return;
    }
    if (got < 0) error = errno;
    if (got == 0) ++ended;
    watch_->want_read(false);
    stream->explain_end([this](std::string text) { why = std::move(text); });
  }
  void write() {
    while (!out_.empty()) {
      std::vector<iovec> pieces;
      for (std::size_t i = 0; i < out_.size() && i < 64; ++i)
        pieces.push_back({out_[i].data() + (i == 0 ? offset_ : 0), out_[i].size() - (i == 0 ? offset_ : 0)});
      ssize_t put = stream->write(pieces.data(), static_cast<int>(pieces.size()));
      if (put < 0) {
        if (errno != EAGAIN) error = errno;
        return watch_->want_write(errno == EAGAIN);
      }
      for (; put > 0 || (!out_.empty() && offset_ == out_.front().size());) {
        const auto taken = std::min<std::size_t>(static_cast<std::size_t>(put), out_.front().size() - offset_);
        offset_ += taken;
        put -= static_cast<ssize_t>(taken);
        if (offset_ == out_.front().size()) {
          out_.pop_front();
          offset_ = 0;
        }
      }
    }
    watch_->want_write(false);
  }

  std::size_t read_size_;
  std::deque<std::string> out_;
  std::size_t offset_ = 0;

 public:
  std::unique_ptr<Stream> stream;

 private:
  std::unique_ptr<StreamWatch> watch_;
};

class TlsStreams : public NetTest {
 protected:
  TlsStreams() : authority(folder(), "ca"), files(authority.issue("server")) {
    server_context = *TlsContext::server(files.certificate, files.key);
    client_context = *TlsContext::client(authority.ca_file());
  }
  std::string folder() { return (dir / "").substr(0, (dir / "").size() - 1); }

  void wire(bool miserly = false) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    for (int i = 0; i < 2; ++i) {
      raw[i] = ends[i];
      below[i] = std::make_unique<FdStream>(loop, base::UniqueFd(ends[i]), "end");
      if (miserly) below[i] = std::make_unique<Miser>(std::move(below[i]));
    }
  }
  /// Both sides' handshakes, over what wire() made.
  void shake(const std::string& host = "localhost") {
    auto client_made = TlsStream::client(loop, client_context, std::move(below[0]), host);
    auto server_made = TlsStream::server(loop, server_context, std::move(below[1]));
    ASSERT_TRUE(client_made.ok() && server_made.ok());
    const auto one = tls_handshake(loop, std::move(*client_made), [&](auto stream) { client = std::move(stream); });
    const auto two = tls_handshake(loop, std::move(*server_made), [&](auto stream) { server = std::move(stream); });
    ASSERT_TRUE(run_until([&] { return client && server; }));
  }
  void connect(bool miserly = false) {
    wire(miserly);
    shake();
    ASSERT_FALSE(client->failure()) << client->failure()->detail;
    ASSERT_FALSE(server->failure()) << server->failure()->detail;
  }

  Authority authority;
  CertificateFiles files;
  std::shared_ptr<const TlsContext> server_context, client_context;
  int raw[2] = {-1, -1};
  std::unique_ptr<Stream> below[2];
  std::unique_ptr<TlsStream> client, server;
};

std::string pattern(std::size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    seed = seed * 1664525U + 1013904223U;
    bytes[i] = static_cast<char>(seed >> 24);
  }
  return bytes;
}

TEST_F(TlsStreams, ManyMegabytesBothWays) {
  connect();
  const std::string up = pattern(12 << 20, 1), down = pattern(9 << 20, 2);
  End here(loop, std::move(client)), there(loop, std::move(server));
  // Small pieces and large ones, as headers and messages of the transport.
  std::vector<std::string> pieces;
  for (std::size_t at = 0, size = 1; at < up.size(); at += size, size = size * 7 % 300007 + 1)
    pieces.push_back(up.substr(at, size));
  here.send(pieces);
  there.send({down});
  ASSERT_TRUE(run_until([&] { return here.received.size() >= down.size() && there.received.size() >= up.size(); }));
  EXPECT_TRUE(here.received == down);
  EXPECT_TRUE(there.received == up);
  EXPECT_TRUE(here.idle() && there.idle());
}

TEST_F(TlsStreams, OneByteAtATime) {
  connect(true);
  const std::string up = pattern(20000, 3), down = pattern(1, 4);
  End here(loop, std::move(client)), there(loop, std::move(server), 1);
  here.send({up.substr(0, 1), "", up.substr(1)});
  there.send({down});
  ASSERT_TRUE(run_until([&] { return here.received.size() >= down.size() && there.received.size() >= up.size(); }));
  EXPECT_TRUE(there.received == up);
  EXPECT_EQ(here.received, down);
}

// The descriptor is not readable, but OpenSSL holds plaintext: the watch must tell nevertheless.
TEST_F(TlsStreams, WhatWasReadAheadIsTold) {
  connect();
  End here(loop, std::move(client));
  here.send({std::string(3, 'a')});
  here.send({std::string(5, 'b')});
  End there(loop, std::move(server), 2);
  ASSERT_TRUE(run_until([&] { return there.received.size() == 8; }));
  EXPECT_EQ(there.received, "aaabbbbb");
}

TEST_F(TlsStreams, TheNameIsSentAnAddressIsNot) {
  connect();
  EXPECT_EQ(server->server_name(), "localhost");
  client.reset();
  server.reset();
  for (const char* address : {"127.0.0.1", "::1"}) {
    wire();
    shake(address);
    ASSERT_FALSE(client->failure()) << client->failure()->detail;
    EXPECT_EQ(server->server_name(), "");
    client.reset();
    server.reset();
  }
  wire();
  shake("localhost.");  // the root's dot belongs to no certificate
  EXPECT_FALSE(client->failure()) << client->failure()->detail;
  EXPECT_EQ(server->server_name(), "localhost");
}

TEST_F(TlsStreams, AnEndWithCloseNotify) {
  connect();
  End here(loop, std::move(client)), there(loop, std::move(server));
  here.send({"last words"});
  here.stream->shutdown_write();
  ASSERT_TRUE(run_until([&] { return there.why.has_value(); }));
  EXPECT_EQ(there.received, "last words");
  EXPECT_EQ(there.ended, 1);
  EXPECT_EQ(*there.why, "");
  there.send({"still heard"});  // the other way goes on
  ASSERT_TRUE(run_until([&] { return !here.received.empty(); }));
  EXPECT_EQ(here.received, "still heard");
  there.close();  // says close_notify
  ASSERT_TRUE(run_until([&] { return here.why.has_value(); }));
  EXPECT_EQ(here.ended, 1);
  EXPECT_EQ(*here.why, "");
  const iovec piece{here.received.data(), 1};
  EXPECT_EQ(here.stream->write(&piece, 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(TlsStreams, ACutIsAnEnd) {
  connect();
  End here(loop, std::move(client)), there(loop, std::move(server));
  here.send({"half a "});
  ASSERT_TRUE(run_until([&] { return !there.received.empty(); }));
  ::shutdown(raw[0], SHUT_RDWR);
  ASSERT_TRUE(run_until([&] { return there.why.has_value(); }));
  EXPECT_EQ(there.ended, 1);
  EXPECT_EQ(there.error, 0);
  EXPECT_NE(there.why->find("was cut"), std::string::npos) << *there.why;
}

TEST_F(TlsStreams, ForgedBytesEndIt) {
  connect();
  End there(loop, std::move(server));
  const std::string forged("\x17\x03\x03\x00\x20", 5);
  ASSERT_EQ(::send(raw[0], (forged + std::string(32, 'x')).data(), 37, 0), 37);
  ASSERT_TRUE(run_until([&] { return there.why.has_value(); }));
  EXPECT_EQ(there.error, EPROTO);
  EXPECT_EQ(there.received, "");
  EXPECT_NE(there.why->find("TLS: "), std::string::npos) << *there.why;
  there.error = 0;
  there.send({"x"});
  EXPECT_EQ(there.error, EPROTO);
}

TEST_F(TlsStreams, ABlockedWriterGoesOnWithTheSameBytes) {
  connect();
  const std::string bytes = pattern(5 << 20, 5);
  End here(loop, std::move(client));
  here.send({bytes});
  settle();
  EXPECT_FALSE(here.idle());  // nobody has read
  End there(loop, std::move(server));
  ASSERT_TRUE(run_until([&] { return there.received.size() >= bytes.size(); }));
  EXPECT_TRUE(there.received == bytes);
}

TEST_F(TlsStreams, CertificateAndKeyFiles) {
  const auto error_of = [](const std::string& certificate, const std::string& key) {
    const auto context = TlsContext::server(certificate, key);
    return context.ok() ? std::string() : context.error().message();
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(error_of(dir / "none", files.key), "none: No such file"));
  EXPECT_TRUE(has(error_of(files.certificate, dir / "none"), "none: No such file"));
  EXPECT_TRUE(has(error_of(files.key, files.key), "no certificate in it"));
  EXPECT_TRUE(has(error_of(files.certificate, files.certificate), "no private key in it"));
  const CertificateFiles other = authority.issue("other");
  EXPECT_TRUE(has(error_of(files.certificate, other.key), "it is not the key of the first certificate"));
  EXPECT_TRUE(has(error_of(folder(), files.key), "it is not a file"));
  const std::string fifo = dir / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(has(error_of(fifo, files.key), "it is not a file"));
  Authority::write_key(dir / "locked", authority.key(), "secret");
  EXPECT_TRUE(has(error_of(authority.ca_file(), dir / "locked"), "the key is encrypted"));
  std::ofstream(dir / "damaged") << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_TRUE(has(error_of(dir / "damaged", files.key), "damaged"));
  const auto pad_to = [&](std::size_t size) {
    std::ofstream file(dir / "padded");
    file << std::ifstream(files.certificate).rdbuf();
    file << std::string(size - static_cast<std::size_t>(file.tellp()), '\n');
  };
  pad_to(kMaxPemFile);
  EXPECT_EQ(error_of(dir / "padded", files.key), "");
  pad_to(kMaxPemFile + 1);
  EXPECT_TRUE(has(error_of(dir / "padded", files.key), "larger than 1 MiB"));
  EXPECT_FALSE(TlsContext::client(dir / "none").ok());
  EXPECT_FALSE(TlsContext::client(files.key).ok());
}

}  // namespace
}  // namespace sandbar::net::testing
