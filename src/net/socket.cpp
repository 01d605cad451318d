// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace sandbar::net {
namespace {

/// More would only wait in the kernel, out of the scheduler's reach; less costs throughput on loopback.
constexpr int kUnsentLowMark = 128 * 1024;

bool literal(const std::string& host, std::uint16_t port, SocketAddress& into) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  std::memcpy(&into.storage, found->ai_addr, found->ai_addrlen);
  into.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return true;
}

}  // namespace

std::string to_text(const SocketAddress& address) {
  if (address.family() == AF_UNIX) return "unix";
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address.get(), address.size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  const std::string name = host.data();
  return (address.family() == AF_INET6 ? "[" + name + "]" : name) + ":" + port.data();
}

Result<SocketAddress> unix_address(const std::string& path) {
  SocketAddress address;
  sockaddr_un unix_name{};
  if (path.empty() || path.size() >= sizeof unix_name.sun_path || path.find('\0') != std::string::npos)
    return make_error(Errc::invalid, "unix:" + path,
                      "the path of a Unix socket has 1 to " + std::to_string(sizeof unix_name.sun_path - 1) +
                          " bytes, and this one has " + std::to_string(path.size()));
  unix_name.sun_family = AF_UNIX;
  std::memcpy(unix_name.sun_path, path.data(), path.size());
  std::memcpy(&address.storage, &unix_name, sizeof unix_name);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

std::vector<SocketAddress> literal_addresses(const std::string& host, std::uint16_t port) {
  std::vector<SocketAddress> addresses;
  const auto add = [&](const std::string& digits) {
    SocketAddress address;
    if (literal(digits, port, address)) addresses.push_back(address);
  };
  if (host == "localhost") {
    add("127.0.0.1");
    add("::1");
  } else {
    add(host);
  }
  return addresses;
}

bool is_loopback(const SocketAddress& address) {
  if (address.family() == AF_UNIX) return true;
  if (address.family() == AF_INET) {
    sockaddr_in ip4{};
    std::memcpy(&ip4, &address.storage, sizeof ip4);
    return (ntohl(ip4.sin_addr.s_addr) >> 24) == 127;
  }
  if (address.family() != AF_INET6) return false;
  sockaddr_in6 ip6{};
  std::memcpy(&ip6, &address.storage, sizeof ip6);
  if (IN6_IS_ADDR_LOOPBACK(&ip6.sin6_addr)) return true;
  return IN6_IS_ADDR_V4MAPPED(&ip6.sin6_addr) && ip6.sin6_addr.s6_addr[12] == 127;
}

Result<HostPort> parse_host_port(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return make_error(Errc::invalid, "\"" + text + "\"", why + "; say HOST:PORT, as 127.0.0.1:8080 or [::1]:8080");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong("the port is missing");
  HostPort parsed;
  parsed.host = text.substr(0, colon);
  const std::string digits = text.substr(colon + 1);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
  if (failed != std::errc{} || end != digits.data() + digits.size()) return wrong("the port is not 0 to 65535");
  if (parsed.host.size() >= 2 && parsed.host.front() == '[' && parsed.host.back() == ']')
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  else if (parsed.host.find(':') != std::string::npos)
    return wrong("an IPv6 address needs brackets");
  if (parsed.host.empty()) return wrong("the host is missing");
  return parsed;
}

Result<base::UniqueFd> open_socket(int family) {
  base::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return os_error(errno, "socket");
  return fd;
}

void tune_socket(int fd, int family) {
  if (family != AF_INET && family != AF_INET6) return;
  const int on = 1;
  // Both may fail on a connection that is over already; then it shows elsewhere.
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentLowMark, sizeof kUnsentLowMark);
}

Result<void> set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return os_error(errno, "fcntl");
  return {};
}

}  // namespace sandbar::net
