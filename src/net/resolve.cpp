// SPDX-License-Identifier: Apache-2.0
#include "net/resolve.h"

#include <netdb.h>

#include <cstring>
#include <utility>

#include "net/off_loop.h"

namespace sandbar::net {
namespace {

using Addresses = std::vector<SocketAddress>;

struct Pending final : PendingResolve {
  template <class... Arguments>
  explicit Pending(Arguments&&... arguments) : work(std::forward<Arguments>(arguments)...) {}
  OffLoop<Addresses> work;
};

}  // namespace

Result<std::vector<SocketAddress>> system_lookup(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  // Not AI_ADDRCONFIG: it does not count loopback addresses, and trying one that is unreachable costs nothing.
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); failed != 0)
    return make_error(Errc::disconnected, "look up " + host,
                      "the name \"" + host + "\" cannot be resolved: " + ::gai_strerror(failed));
  std::vector<SocketAddress> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    if (entry->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    found.push_back(address);
  }
  ::freeaddrinfo(list);
  if (found.empty()) return make_error(Errc::disconnected, "look up " + host, "the name has no address");
  return found;
}

std::unique_ptr<PendingResolve> resolve(base::Loop& loop, const std::string& host, std::uint16_t port,
                                        base::Function<void(Result<std::vector<SocketAddress>>)> done, Lookup lookup) {
  if (auto known = literal_addresses(host, port); !known.empty())
    return std::make_unique<Pending>(loop, Result<Addresses>(std::move(known)), std::move(done));
  return std::make_unique<Pending>(
      loop, "look up " + host, [host, port, lookup = std::move(lookup)] { return lookup(host, port); },
      std::move(done));
}

}  // namespace sandbar::net
