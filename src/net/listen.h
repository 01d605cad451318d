// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "net/transport.h"
#include "sandbar/result.h"

namespace sandbar::net {

/// What an upgrading client showed; `token` is empty where it sent none.
struct UpgradeRequest {
  std::string token;  ///< of "Authorization: Bearer"
  std::string path;
  std::string peer;
};

struct ListenOptions {
  std::string subprotocol = "sandbox-mux.v1";
  /// False answers 401. Compares in constant time; on the loop's thread.
  base::Function<bool(const UpgradeRequest&)> authorize;
  /// An upgraded connection, and what it showed. On the loop's thread.
  base::Function<void(std::unique_ptr<Transport>, const UpgradeRequest&)> accepted;
  /// PEM files: the certificate with its chain, and its key. Both or neither; with them TLS is spoken, and only that.
  std::string tls_certificate = {};
  std::string tls_key = {};
  /// Allows TCP without TLS on an address that other machines can reach.
  bool insecure = false;
  /// From accept to the end of the upgrade, the TLS handshake included; slower clients are closed.
  base::Duration upgrade_timeout = std::chrono::seconds(10);
  /// Connections that have not upgraded yet; further ones wait in the kernel's backlog.
  std::size_t max_upgrading = 256;
};

/// Accepts WebSocket connections until destroyed. Out of descriptors, it pauses and goes on when some are free. Loop's
/// thread.
class Listener {
 public:
  virtual ~Listener() = default;
  /// "ws://127.0.0.1:40123", "wss://[::1]:443", "unix:/run/a.sock": what a client's TARGET would be.
  [[nodiscard]] virtual std::string url() const = 0;
  /// Reads the certificate and the key again, for new connections. On an error the old ones stay. Without TLS: nothing.
  virtual Result<void> reload() = 0;
};

/// `address`: "HOST:PORT" (port 0 picks one; IPv6 in brackets) or "unix:PATH" (mode 0600; a socket nobody listens on
/// any more is replaced, a live one or another kind of file is an error; removed when the listener goes). Errc::invalid
/// also for certificates that cannot be used, and for plaintext beyond this machine.
Result<std::unique_ptr<Listener>> listen(base::Loop& loop, const std::string& address, ListenOptions options);
/// On a socket that was opened, bound and is listening elsewhere.
Result<std::unique_ptr<Listener>> listen_inherited(base::Loop& loop, base::UniqueFd socket, ListenOptions options);

/// True where `address` ("HOST:PORT" or "unix:PATH") can be reached from this machine only.
bool is_local_address(const std::string& address);

/// The server side of one connection on a pair of descriptors (`sandboxd agent --stdio`); both become non-blocking.
/// `accepted` runs once upgraded; `failed` when it does not come to that (end of input before a request, a bad
/// upgrade). Token checks are the caller's, through options.authorize.
class StdioServer {
 public:
  virtual ~StdioServer() = default;
};
std::unique_ptr<StdioServer> serve_stdio(base::Loop& loop, base::UniqueFd in, base::UniqueFd out, ListenOptions options,
                                         base::Function<void(Error)> failed);

}  // namespace sandbar::net
