// SPDX-License-Identifier: Apache-2.0
#include "net/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/assert.h"
#include "base/text.h"
#include "net/tls_errors.h"

namespace sandbar::net {
namespace {

/// A TLS record's plaintext (RFC 8446, 5.1): smaller ones cost the receiver more.
constexpr std::size_t kRecord = 16 * 1024;
/// Encrypted before it is handed on: one system call for eight records, and about what the kernel takes at once.
constexpr std::size_t kBatch = 8 * kRecord;
/// What OpenSSL may say by itself (alerts in answer to a peer's oddities) while the inner stream takes nothing.
constexpr std::size_t kMaxOut = 2 * kBatch;
constexpr std::size_t kShown = 100;
/// The first byte of a record (RFC 8446, 5.1): alert and handshake are what a handshake begins with.
constexpr char kAlertRecord = 21;
constexpr char kHandshakeRecord = 22;

const char* error_words(int error) {
  const char* text = strerrordesc_np(error);
  return text != nullptr ? text : "unknown error";
}

bool is_again(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

/// The host without an IPv6 zone and without the root's dot: what a certificate may be for.
std::string certificate_name(const std::string& host) {
  std::string name = host.substr(0, host.find('%'));
  if (name.size() > 1 && name.back() == '.') name.pop_back();
  return name;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, 16> ignored{};
  return ::inet_pton(AF_INET, name.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), ignored.data()) == 1;
}

}  // namespace

// --- OpenSSL's side: what it reads and writes its records with ---

bio_method_st* TlsStream::bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sandbar stream");
    BIO_meth_set_read(made, &TlsStream::bio_read);
    BIO_meth_set_write(made, &TlsStream::bio_write);
    BIO_meth_set_ctrl(made, &TlsStream::bio_control);
    return made;
  }();
  return method;
}

int TlsStream::bio_read(bio_st* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const int got = static_cast<TlsStream*>(BIO_get_data(bio))->pull(into, size);
  if (got < 0 && is_again(errno)) BIO_set_retry_read(bio);
  return got;
}

int TlsStream::bio_write(bio_st* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  auto& self = *static_cast<TlsStream*>(BIO_get_data(bio));
  if (self.out_.size() - self.out_offset_ + static_cast<std::size_t>(size) > kMaxOut) return -1;
  self.out_.append(from, static_cast<std::size_t>(size));
  return size;
}

long TlsStream::bio_control(bio_st* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;  // we flush when OpenSSL has returned
  if (command == BIO_CTRL_EOF) return static_cast<TlsStream*>(BIO_get_data(bio))->cut_ ? 1 : 0;
  return 0;
}

int TlsStream::pull(char* into, int size) {
  if (!inner_ || !foreign_.empty()) return -1;
  const ssize_t got = inner_->read(into, static_cast<std::size_t>(size));
  if (got == 0) cut_ = true;
  if (got < 0 && !is_again(errno)) inner_error_ = errno;
  if (got > 0 && !looks_like_tls(into, static_cast<std::size_t>(got))) {
    errno = EPROTO;
    return -1;
  }
  return static_cast<int>(got);
}

bool TlsStream::looks_like_tls(const char* bytes, std::size_t size) {
  if (std::exchange(seen_first_, true)) return true;
  if (bytes[0] == kHandshakeRecord || (is_client_ && bytes[0] == kAlertRecord)) return true;
  const std::string_view all(bytes, size);
  foreign_ = base::printable(all.substr(0, std::min(all.find_first_of("\r\n"), kShown)));
  if (foreign_.empty()) foreign_ = "an empty line";
  return false;
}

int TlsStream::on_verified(int ok, x509_store_ctx_st* chain) {
  auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& self = *static_cast<TlsStream*>(SSL_get_app_data(ssl));
  if (ok == 0 && self.certificate_problem_.empty())
    self.certificate_problem_ = certificate_problem(
        X509_STORE_CTX_get_error(chain), X509_STORE_CTX_get_current_cert(chain), self.host_, self.context_->ca_file());
  return ok;
}

// --- the handshake ---

TlsStream::TlsStream(base::Loop& loop, std::shared_ptr<const TlsContext> context, std::unique_ptr<Stream> inner)
    : loop_(loop), context_(std::move(context)), inner_(std::move(inner)), ssl_(SSL_new(context_->get())) {
  BIO* bio = BIO_new(bio_method());
  SANDBAR_ASSERT(ssl_ != nullptr && bio != nullptr);  // they fail only without memory
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, this);
}

TlsStream::~TlsStream() {
  if (inner_ && established_ && error_ == 0 && !write_shut_ && out_.empty()) {
    ERR_clear_error();
    SSL_shutdown(ssl_);  // close_notify, if the inner stream takes it now
    flush();
  }
  ERR_clear_error();
  SSL_free(ssl_);
}

Result<std::unique_ptr<TlsStream>> TlsStream::client(base::Loop& loop, std::shared_ptr<const TlsContext> context,
                                                     std::unique_ptr<Stream> inner, const std::string& host) {
  std::unique_ptr<TlsStream> stream(new TlsStream(loop, std::move(context), std::move(inner)));
  if (auto prepared = stream->prepare_client(certificate_name(host)); !prepared) return prepared.error();
  return stream;
}

Result<void> TlsStream::prepare_client(const std::string& host) {
  is_client_ = true;
  host_ = host;
  ERR_clear_error();
  SSL_set_connect_state(ssl_);
  SSL_set_verify(ssl_, SSL_VERIFY_PEER, &TlsStream::on_verified);
  SSL_set_hostflags(ssl_, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool wanted = is_address(host)
                          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str()) == 1
                          : SSL_set1_host(ssl_, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl_, host.c_str()) == 1;
  if (!wanted) return make_error(Errc::invalid, {}, "no certificate can be for \"" + base::printable(host) + "\"");
  return {};
}

Result<std::unique_ptr<TlsStream>> TlsStream::server(base::Loop& loop, std::shared_ptr<const TlsContext> context,
                                                     std::unique_ptr<Stream> inner) {
  std::unique_ptr<TlsStream> stream(new TlsStream(loop, std::move(context), std::move(inner)));
  SSL_set_accept_state(stream->ssl_);
  return stream;
}

std::string TlsStream::server_name() const {
  const char* name = SSL_get_servername(ssl_, TLSEXT_NAMETYPE_host_name);
  return name != nullptr ? name : std::string{};
}

TlsStream::Progress TlsStream::handshake() {
  if (failure_) return Progress::failed;
  if (!established_) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_NONE)
      established_ = true;
    else if (error != SSL_ERROR_WANT_READ)
      explain_failure(error);
  }
  const bool flushed = flush();
  if (failure_) return Progress::failed;
  if (!flushed && !is_again(errno)) {
    failure_ = make_error(Errc::disconnected, {}, std::string("in the TLS handshake: ") + error_words(errno));
    return Progress::failed;
  }
  return established_ && flushed ? Progress::done : Progress::blocked;
}

void TlsStream::explain_failure(int ssl_error) {
  const std::string words = ssl_error == SSL_ERROR_SSL ? tls_queue_text() : std::string("it ended");
  ERR_clear_error();
  error_ = EPROTO;
  const std::string plain = is_client_ ? "; the agent may not use TLS: try ws://" : std::string{};
  if (!foreign_.empty())
    failure_ = make_error(Errc::protocol, {}, "what answered does not speak TLS: it sent \"" + foreign_ + "\"" + plain);
  else if (!certificate_problem_.empty())
    failure_ = make_error(Errc::protocol, {}, certificate_problem_);
  else if (inner_error_ != 0)
    failure_ =
        make_error(Errc::disconnected, {},
                   std::string("in the TLS handshake: ") + error_words(inner_error_) + (seen_first_ ? "" : plain));
  else if (cut_)
    failure_ = make_error(Errc::disconnected, {},
                          "the connection was closed in the TLS handshake" + (seen_first_ ? std::string{} : plain));
  else
    failure_ = make_error(Errc::protocol, {}, "the TLS handshake failed: " + words);
}

// --- the established connection ---

ssize_t TlsStream::read(char* into, std::size_t size) {
  std::size_t got = 0;
  int ssl_error = SSL_ERROR_NONE;
  ERR_clear_error();
  while (got < size && !ended_ && error_ == 0) {
    std::size_t now = 0;
    if (SSL_read_ex(ssl_, into + got, size - got, &now) != 1) {
      ssl_error = SSL_get_error(ssl_, 0);
      break;
    }
    got += now;
  }
  drained_ = ssl_error != SSL_ERROR_NONE;
  const ssize_t end = ssl_error == SSL_ERROR_NONE && error_ == 0 && !ended_ ? 0 : end_of_input(ssl_error);
  if (got > 0 || size == 0) return static_cast<ssize_t>(got);  // an end is told by the next call
  return end;
}

/// What read() says when it has nothing: -1 and EAGAIN, 0, or -1 and another errno, both of which stay.
ssize_t TlsStream::end_of_input(int ssl_error) {
  if (ssl_error != SSL_ERROR_NONE && ssl_error != SSL_ERROR_WANT_READ && !ended_ && error_ == 0) {
    if (ssl_error == SSL_ERROR_ZERO_RETURN) {
      ended_ = true;
    } else if (cut_) {
      ended_ = true;
      why_ = "the connection was cut: it ended without the end of its TLS";
    } else if (inner_error_ != 0) {
      error_ = inner_error_;
    } else {
      error_ = EPROTO;
      why_ = "TLS: " + tls_queue_text();
    }
    ERR_clear_error();
  }
  // An alert that OpenSSL has to say about what it read; what does not fit goes with the next write().
  if (!out_.empty() && sealed_ == 0) flush();
  errno = error_ != 0 ? error_ : EAGAIN;
  return ended_ ? 0 : -1;
}

ssize_t TlsStream::write(const iovec* pieces, int count) {
  if (write_shut_) {
    errno = EPIPE;
    return -1;
  }
  if (error_ == 0 && sealed_ == 0) seal(pieces, count);
  if (error_ != 0) {
    errno = error_;
    return -1;
  }
  if (!flush()) return -1;
  return static_cast<ssize_t>(std::exchange(sealed_, 0));
}

/// Encrypts the beginning of the pieces. Small ones are gathered, so that all records but the last one are full.
void TlsStream::seal(const iovec* pieces, int count) {
  std::array<char, kRecord> gathered;  // NOLINT: filled below
  std::size_t held = 0;
  for (int i = 0; i < count && sealed_ + held < kBatch; ++i) {
    const char* from = static_cast<const char*>(pieces[i].iov_base);
    std::size_t left = std::min(pieces[i].iov_len, kBatch - sealed_ - held);
    while (left > 0) {
      const std::size_t whole = held == 0 ? left / kRecord * kRecord : 0;
      const std::size_t taken = whole > 0 ? whole : std::min(left, kRecord - held);
      if (whole > 0) {
        if (!seal(from, whole)) return;
      } else {
        std::memcpy(gathered.data() + held, from, taken);
        held += taken;
        if (held == kRecord && !seal(gathered.data(), std::exchange(held, 0))) return;
      }
      from += taken;
      left -= taken;
    }
  }
  if (held > 0) seal(gathered.data(), held);
}

bool TlsStream::seal(const char* bytes, std::size_t size) {
  std::size_t taken = 0;
  ERR_clear_error();
  if (SSL_write_ex(ssl_, bytes, size, &taken) != 1) {
    // It waits for nothing: our BIO takes all, and there is no renegotiation.
    error_ = EPROTO;
    why_ = "TLS: " + tls_queue_text();
    return false;
  }
  sealed_ += taken;
  return true;
}

bool TlsStream::flush() {
  while (out_offset_ < out_.size()) {
    const iovec piece{out_.data() + out_offset_, out_.size() - out_offset_};
    const ssize_t put = inner_ ? inner_->write(&piece, 1) : -1;
    if (put < 0) return false;
    out_offset_ += static_cast<std::size_t>(put);
  }
  out_.clear();
  out_offset_ = 0;
  return true;
}

void TlsStream::shutdown_write() {
  if (std::exchange(write_shut_, true)) return;
  ERR_clear_error();
  if (error_ == 0) SSL_shutdown(ssl_);
  // Where it does not fit now the peer sees an end all the same, only a less polite one.
  flush();
  inner_->shutdown_write();
}

void TlsStream::explain_end(base::Function<void(std::string)> explained) {
  if (why_.empty()) return inner_->explain_end(std::move(explained));
  loop_.post([alive = std::weak_ptr(alive_), why = why_, explained = std::move(explained)]() mutable {
    if (!alive.expired()) explained(std::move(why));
  });
}

}  // namespace sandbar::net
