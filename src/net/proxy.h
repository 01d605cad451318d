// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "net/stream.h"
#include "sandbar/result.h"

/// HTTP proxies, for wss:// only: a plaintext connection goes beyond this machine only where the user insists, and then
/// not by way of another one. Internal to net.
namespace sandbar::net {

/// Bytes of a proxy's answer to CONNECT.
constexpr std::size_t kMaxProxyHead = 16 * 1024;

struct Proxy {
  std::string host;
  std::uint16_t port = 0;
  std::string authorization;  ///< of the header Proxy-Authorization; empty: none
};

/// "http://[USER:PASSWORD@]HOST[:PORT][/]", also without "http://" (port 80 where none is given; USER and PASSWORD may
/// have %XX). Errc::invalid without the password in it; Errc::unsupported for another kind of proxy.
Result<Proxy> parse_proxy(std::string_view text);

/// Whether NO_PROXY's list (commas or spaces between) names the host: "*" is all; "example.com" and ".example.com" are
/// it and all below it; each may have a :PORT.
bool is_excluded(std::string_view list, std::string_view host, std::uint16_t port);

/// The proxy for a wss:// connection: `given` if set (empty: none), else what HTTPS_PROXY or https_proxy say (the small
/// one wins, as with curl), unless NO_PROXY or no_proxy exclude the host. Never for this machine itself.
Result<std::optional<Proxy>> choose_proxy(const std::optional<std::string>& given, const std::string& host,
                                          std::uint16_t port);

/// A CONNECT under way. Destroying it closes the stream. It has no time limit of its own.
class PendingProxy {
 public:
  virtual ~PendingProxy() = default;
};

/// Asks the proxy behind `stream` for a way to `host` (IPv6 without brackets) and hands the stream back, which leads
/// there now. Errc::protocol or Errc::disconnected (407 too: Errc::unauthorized is
/// about the agent's token), without an operation. `done` runs once, on
/// the loop's thread, never inside this call; the PendingProxy may be destroyed in it.
std::unique_ptr<PendingProxy> connect_through(base::Loop& loop, std::unique_ptr<Stream> stream, const Proxy& proxy,
                                              const std::string& host, std::uint16_t port,
                                              base::Function<void(Result<std::unique_ptr<Stream>>)> done);

}  // namespace sandbar::net
