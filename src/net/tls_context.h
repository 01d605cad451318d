// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "sandbar/result.h"

struct ssl_ctx_st;

/// Whom to trust and what to show in TLS; internal to net. Made on any thread (reading files blocks), used by one.
namespace sandbar::net {

/// The largest PEM file that is read, bytes: Debian's bundle of all public roots has a quarter of it.
constexpr std::size_t kMaxPemFile = 1024 * 1024;

/// OpenSSL's SSL_CTX with what our side of a connection always wants. Shared by the connections made with it.
class TlsContext {
 public:
  /// Trusts the certificates in `ca_file` (PEM) and nobody else; where it is empty, those that the system trusts.
  /// A certificate in the file that is no authority's is trusted for itself. Errors name the file: Errc::invalid where
  /// it holds no certificate, Errc::os where it cannot be read.
  static Result<std::shared_ptr<const TlsContext>> client(const std::string& ca_file);
  /// Shows the first certificate in `certificate_file` (PEM; those behind it are its chain), whose unencrypted key is
  /// in `key_file` (PEM). Both must fit each other.
  static Result<std::shared_ptr<const TlsContext>> server(const std::string& certificate_file,
                                                          const std::string& key_file);

  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  [[nodiscard]] ssl_ctx_st* get() const { return context_; }
  /// client: where the trust comes from; empty: the system.
  [[nodiscard]] const std::string& ca_file() const { return ca_file_; }

 private:
  TlsContext(ssl_ctx_st* context, std::string ca_file);
  ssl_ctx_st* context_;
  std::string ca_file_;
};

}  // namespace sandbar::net
