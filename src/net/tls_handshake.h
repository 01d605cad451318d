// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/loop.h"
#include "net/tls_stream.h"

namespace sandbar::net {

/// A TLS handshake under way; internal to net. Destroying it closes the connection. It has no time limit of its own.
class PendingTls {
 public:
  virtual ~PendingTls() = default;
};

/// `done` gets the stream back, established or with a failure(); once, on the loop's thread, never inside this call.
/// The PendingTls may be destroyed in it.
std::unique_ptr<PendingTls> tls_handshake(base::Loop& loop, std::unique_ptr<TlsStream> stream,
                                          base::Function<void(std::unique_ptr<TlsStream>)> done);

}  // namespace sandbar::net
