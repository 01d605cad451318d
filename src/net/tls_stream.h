// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/loop.h"
#include "net/stream.h"
#include "net/tls_context.h"
#include "sandbar/error.h"

struct ssl_st;
struct bio_st;
struct bio_method_st;
struct x509_store_ctx_st;

namespace sandbar::net {

/// TLS over another stream; internal to net. First handshake() until it is done, then read() and write() as of any
/// stream. OpenSSL's output is collected here and goes out in large pieces; its input is read ahead, so has_input() may
/// be true while the descriptor is not readable. An end without close_notify is an end like any other, since the layers
/// above know what is missing; explain_end() tells it. Loop's thread.
class TlsStream final : public Stream {
 public:
  /// For a server that must have a certificate for `host`: a name, or an address in digits (without brackets). A name
  /// is also sent to it (SNI).
  static Result<std::unique_ptr<TlsStream>> client(base::Loop& loop, std::shared_ptr<const TlsContext> context,
                                                   std::unique_ptr<Stream> inner, const std::string& host);
  static Result<std::unique_ptr<TlsStream>> server(base::Loop& loop, std::shared_ptr<const TlsContext> context,
                                                   std::unique_ptr<Stream> inner);
  ~TlsStream() override;

  enum class Progress { done, blocked, failed };
  /// Blocked: again when the inner stream is readable, or writable if wants_write(). Failed: failure() says why, and a
  /// TLS alert has been sent if it went out at once.
  Progress handshake();
  [[nodiscard]] bool wants_write() const { return !out_.empty(); }
  /// Why the handshake failed: Errc::protocol or Errc::disconnected, without an operation; nullopt while it has not.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  /// The peer's first byte begins no TLS record: it does not speak TLS.
  [[nodiscard]] bool peer_speaks_no_tls() const { return !foreign_.empty(); }
  /// The server name that a client sent; "" where there is none.
  [[nodiscard]] std::string server_name() const;
  /// After a failed handshake: the stream below, of which some bytes have been read.
  std::unique_ptr<Stream> take_inner() { return std::move(inner_); }

  ssize_t read(char* into, std::size_t size) override;
  /// After -1 with EAGAIN the caller offers the same bytes again (see Stream): they are encrypted already.
  ssize_t write(const iovec* pieces, int count) override;
  void shutdown_write() override;
  [[nodiscard]] int read_fd() const override { return inner_->read_fd(); }
  [[nodiscard]] int write_fd() const override { return inner_->write_fd(); }
  [[nodiscard]] bool has_input() const override { return established_ && (!drained_ || ended_ || error_ != 0); }
  [[nodiscard]] std::string peer() const override { return inner_->peer(); }
  void explain_end(base::Function<void(std::string)> explained) override;

 private:
  TlsStream(base::Loop& loop, std::shared_ptr<const TlsContext> context, std::unique_ptr<Stream> inner);
  Result<void> prepare_client(const std::string& host);

  static bio_method_st* bio_method();
  static int bio_read(bio_st* bio, char* into, int size);
  static int bio_write(bio_st* bio, const char* from, int size);
  static long bio_control(bio_st* bio, int command, long number, void* pointer);
  static int on_verified(int ok, x509_store_ctx_st* chain);

  int pull(char* into, int size);
  [[nodiscard]] bool looks_like_tls(const char* bytes, std::size_t size);
  void explain_failure(int ssl_error);
  ssize_t end_of_input(int ssl_error);
  void seal(const iovec* pieces, int count);
  bool seal(const char* bytes, std::size_t size);
  /// True when all of out_ went to the inner stream; else errno says why not.
  bool flush();

  base::Loop& loop_;
  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<Stream> inner_;
  ssl_st* ssl_ = nullptr;
  std::string host_;  ///< client: whose certificate is wanted; for messages
  bool is_client_ = false;
  bool established_ = false;

  base::Bytes out_;  ///< records that the inner stream has not taken yet, from out_offset_ on
  std::size_t out_offset_ = 0;
  std::size_t sealed_ = 0;  ///< plaintext bytes in out_ that write() has not acknowledged
  bool write_shut_ = false;

  bool drained_ = false;  ///< OpenSSL has said that it needs more of the inner stream
  bool ended_ = false;    ///< read() says 0 from now on
  bool cut_ = false;      ///< the inner stream ended
  int error_ = 0;         ///< read() and write() fail with it from now on
  int inner_error_ = 0;   ///< of the inner stream's read()
  bool seen_first_ = false;
  std::string foreign_;  ///< what a peer sent that speaks no TLS
  std::string certificate_problem_;
  std::string why_;  ///< for explain_end()
  std::optional<Error> failure_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandbar::net
