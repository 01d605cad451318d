// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "net/socket.h"

namespace sandbar::net {

/// A lookup under way; destroying it forgets it at once: a resolver that hangs keeps only its own thread.
class PendingResolve {
 public:
  virtual ~PendingResolve() = default;
};

/// Asks the system's resolver and blocks: runs on a thread of its own. Errc::disconnected when the name is unknown.
using Lookup = std::function<Result<std::vector<SocketAddress>>(const std::string& host, std::uint16_t port)>;
Result<std::vector<SocketAddress>> system_lookup(const std::string& host, std::uint16_t port);

/// The addresses of a host, never empty, in the order to try them. `done` runs on the loop's thread, never inside this
/// call, and not after the PendingResolve is gone.
std::unique_ptr<PendingResolve> resolve(base::Loop& loop, const std::string& host, std::uint16_t port,
                                        base::Function<void(Result<std::vector<SocketAddress>>)> done,
                                        Lookup lookup = system_lookup);

}  // namespace sandbar::net
