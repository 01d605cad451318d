// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "net/listen.h"
#include "net/stream.h"
#include "net/tls_context.h"
#include "net/transport.h"
#include "sandbar/result.h"

namespace sandbar::net {

/// The server's side of one upgrade under way, with a TLS handshake before it if wanted; internal to net. Destroying it
/// closes the stream.
class ServerUpgrade {
 public:
  struct Options {
    std::string subprotocol;
    base::Duration timeout{};
    base::Function<bool(const UpgradeRequest&)> authorize;
    std::shared_ptr<const TlsContext> tls = nullptr;  ///< null: the stream is used as it is
  };
  virtual ~ServerUpgrade() = default;
};

/// `done` runs once on the loop's thread, never inside this call; the ServerUpgrade may be destroyed in it.
std::unique_ptr<ServerUpgrade> upgrade_server(base::Loop& loop, std::unique_ptr<Stream> stream,
                                              ServerUpgrade::Options options,
                                              base::Function<void(Result<std::unique_ptr<Transport>>)> done);

}  // namespace sandbar::net
