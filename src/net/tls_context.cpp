// SPDX-License-Identifier: Apache-2.0
#include "net/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <vector>

#include "base/log.h"
#include "base/read_file.h"
#include "base/text.h"
#include "net/tls_errors.h"

namespace sandbar::net {
namespace {

/// The only application protocol here (RFC 7301): a WebSocket begins as HTTP/1.1.
constexpr unsigned char kAlpn[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
/// AES-128 first: about a fifth faster than OpenSSL's choice (measured with AES-NI), and no weaker where it matters.
constexpr const char* kTls13Suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kTls12Suites = "ECDHE+AESGCM:ECDHE+CHACHA20";
/// What one read takes from the socket: some records at once, so that not each of them costs two system calls.
constexpr std::size_t kReadAhead = 128 * 1024;
/// Certificates in one file: the system's bundle has about 150.
constexpr int kMaxCertificates = 1000;

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;

Result<std::string> read_file(const std::string& path, const std::string& operation) {
  const auto fd = base::open_regular(path, "it is not a file", operation);
  if (!fd) return fd.error();
  auto text = base::read_up_to(fd->get(), kMaxPemFile, operation);
  if (text && text->size() > kMaxPemFile) return make_error(Errc::limit, operation, "it is larger than 1 MiB");
  return text;
}

Bio memory(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

/// No passphrase: OpenSSL would otherwise ask for one on the terminal.
int no_passphrase(char*, int, int, void* asked) {
  if (asked != nullptr) *static_cast<bool*>(asked) = true;
  return 0;
}

/// The certificates of a file, in order; never none.
Result<std::vector<Certificate>> read_certificates(const std::string& path, const std::string& operation) {
  auto text = read_file(path, operation);
  if (!text) return text.error();
  ERR_clear_error();
  std::vector<Certificate> found;
  const Bio bio = memory(*text);
  while (X509* next = PEM_read_bio_X509_AUX(bio.get(), nullptr, no_passphrase, nullptr)) {
    found.emplace_back(next);
    if (found.size() > kMaxCertificates)
      return make_error(Errc::limit, operation,
                        "it holds more than " + std::to_string(kMaxCertificates) + " certificates");
  }
  // Its last error is the end of the file, or what is wrong with a certificate in it.
  if (const auto error = ERR_peek_last_error(); ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
    return make_error(Errc::invalid, operation, "a certificate in it is damaged: " + tls_queue_text());
  ERR_clear_error();
  if (found.empty())
    return make_error(Errc::invalid, operation, "there is no certificate in it (-----BEGIN CERTIFICATE-----)");
  return found;
}

Result<Key> read_key(const std::string& path, const std::string& operation) {
  auto text = read_file(path, operation);
  if (!text) return text.error();
  ERR_clear_error();
  bool encrypted = false;
  const Bio bio = memory(*text);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, &encrypted));
  OPENSSL_cleanse(text->data(), text->size());
  if (key) return key;
  ERR_clear_error();
  return make_error(Errc::invalid, operation,
                    encrypted ? "the key is encrypted; write it without a passphrase (openssl pkey -in KEY -out FILE)"
                              : "there is no private key in it (-----BEGIN PRIVATE KEY-----)");
}

Result<Context> new_context(const SSL_METHOD* method) {
  ERR_clear_error();
  Context context(SSL_CTX_new(method));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), kTls13Suites) != 1 ||
      SSL_CTX_set_cipher_list(context.get(), kTls12Suites) != 1)
    return make_error(Errc::internal, "set TLS up", tls_queue_text());
  // No renegotiation: it would let reads write and writes read. No tickets: connections are long, and a ticket's key
  // would be one more secret. No compression: it leaks.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_default_read_buffer_len(context.get(), kReadAhead);
  return context;
}

/// Picks http/1.1; a client that offers only others is told so (RFC 7301: no_application_protocol).
int choose_protocol(SSL*, const unsigned char** out, unsigned char* size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, size, kAlpn, sizeof kAlpn, offered, offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

void warn_of_dates(const X509* certificate, const std::string& path) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    base::log_warning("the certificate in " + base::printable(path) + " expired on " +
                      tls_time_text(X509_get0_notAfter(certificate)) + ": clients will refuse it");
}

}  // namespace

TlsContext::TlsContext(ssl_ctx_st* context, std::string ca_file) : context_(context), ca_file_(std::move(ca_file)) {}
TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Result<std::shared_ptr<const TlsContext>> TlsContext::client(const std::string& ca_file) {
  auto context = new_context(TLS_client_method());
  if (!context) return context.error();
  SSL_CTX_set_alpn_protos(context->get(), kAlpn, sizeof kAlpn);
  SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER, nullptr);
  if (ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context->get());
  } else {
    auto trusted = read_certificates(ca_file, "read the CA file " + base::printable(ca_file));
    if (!trusted) return trusted.error();
    X509_STORE* store = SSL_CTX_get_cert_store(context->get());
    for (const Certificate& each : *trusted) X509_STORE_add_cert(store, each.get());
    // What the user names is trusted itself, also where its issuer is not in the file.
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context->get()), X509_V_FLAG_PARTIAL_CHAIN);
  }
  return std::shared_ptr<const TlsContext>(new TlsContext(context->release(), ca_file));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::server(const std::string& certificate_file,
                                                             const std::string& key_file) {
  const std::string reading_key = "read the TLS key " + base::printable(key_file);
  auto chain = read_certificates(certificate_file, "read the TLS certificate " + base::printable(certificate_file));
  if (!chain) return chain.error();
  auto key = read_key(key_file, reading_key);
  if (!key) return key.error();
  auto context = new_context(TLS_server_method());
  if (!context) return context.error();
  SSL_CTX_set_num_tickets(context->get(), 0);
  SSL_CTX_set_alpn_select_cb(context->get(), choose_protocol, nullptr);
  if (SSL_CTX_use_certificate(context->get(), chain->front().get()) != 1)
    return make_error(Errc::invalid, "use the TLS certificate " + base::printable(certificate_file), tls_queue_text());
  for (std::size_t i = 1; i < chain->size(); ++i)
    if (SSL_CTX_add1_chain_cert(context->get(), (*chain)[i].get()) != 1)
      return make_error(Errc::invalid, "use the TLS certificate " + base::printable(certificate_file),
                        tls_queue_text());
  if (X509_check_private_key(chain->front().get(), key->get()) != 1) {
    ERR_clear_error();
    return make_error(Errc::invalid, reading_key,
                      "it is not the key of the first certificate in " + base::printable(certificate_file));
  }
  if (SSL_CTX_use_PrivateKey(context->get(), key->get()) != 1)
    return make_error(Errc::invalid, reading_key, tls_queue_text());
  warn_of_dates(chain->front().get(), certificate_file);
  return std::shared_ptr<const TlsContext>(new TlsContext(context->release(), {}));
}

}  // namespace sandbar::net
