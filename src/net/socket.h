// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "sandbar/result.h"

/// Socket addresses and options; internal to net.
namespace sandbar::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
};

/// "127.0.0.1:80", "[::1]:80", "unix".
std::string to_text(const SocketAddress& address);
/// Errc::invalid when the path does not fit (107 bytes).
Result<SocketAddress> unix_address(const std::string& path);
/// Without asking anybody: an address in digits, or "localhost" (RFC 6761: always this machine). Empty for a name.
std::vector<SocketAddress> literal_addresses(const std::string& host, std::uint16_t port);
bool is_loopback(const SocketAddress& address);

/// A "HOST:PORT" taken apart; brackets around IPv6 are required and removed.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(const std::string& text);

/// A non-blocking, close-on-exec stream socket.
Result<base::UniqueFd> open_socket(int family);
/// What every connection of ours wants: on TCP no delay, and little unsent data in the kernel, so that the scheduler
/// above decides late what goes next.
void tune_socket(int fd, int family);
Result<void> set_non_blocking(int fd);

}  // namespace sandbar::net
