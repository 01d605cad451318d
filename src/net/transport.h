// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "base/bytes.h"
#include "sandbar/error.h"

namespace sandbar::net {

/// The largest message either side takes, bytes: a frame header, a head and a fragment of the mux above, which checks
/// that its own bound (wire::kMaxMessage) equals this one. A larger one closes the connection.
constexpr std::size_t kMaxTransportMessage = 24 + 256 * 1024 + 256 * 1024;

/// One established connection that carries whole binary messages in order: a WebSocket over whatever stream. Made by
/// connect() and Listener; fakes::FakeTransport in tests. All on the loop's thread; callbacks never come inside a
/// call of ours, and the transport may be destroyed inside any of them. A program that uses pipes (`command` endpoints,
/// serve_stdio) ignores SIGPIPE; sockets raise none.
class Transport {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    /// Never larger than kMaxTransportMessage: a larger one closes the connection.
    virtual void on_message(base::Bytes message) = 0;
    /// writable() became true again.
    virtual void on_writable() = 0;
    /// The connection is over, whoever ended it; once, the last call. Errc::disconnected or Errc::protocol.
    virtual void on_closed(Error reason) = 0;
  };

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  /// Closes at once, dropping what is queued; the handler hears nothing any more.
  virtual ~Transport() = default;

  /// Messages that arrived before are delivered after this. Again, also inside a callback, for another handler: what
  /// comes from then on is for that one.
  virtual void start(Handler& handler) = 0;
  /// Queues one message. Never blocks; the caller stops while writable() is false, so that the scheduler above decides
  /// late what goes next. Ignored after the connection ended.
  virtual void send(base::Bytes message) = 0;
  /// True while little (at most one or two fragments) waits for the kernel to take it.
  [[nodiscard]] virtual bool writable() const = 0;
  /// Bytes queued here that the kernel has not taken yet.
  [[nodiscard]] virtual std::size_t queued() const = 0;
  /// Sends what is queued, then a close frame with the reason (cut to 123 bytes), then ends; the peer gets 2 s for it.
  virtual void close(std::string_view reason) = 0;
  /// For an end without a wait: gives the kernel what it takes now of what is queued and of this last message. The
  /// handler hears nothing any more; the transport is to be destroyed next.
  virtual void send_last(base::Bytes message) = 0;
  /// "127.0.0.1:40122", "unix", "pid 17": for messages.
  [[nodiscard]] virtual std::string peer() const = 0;
};

}  // namespace sandbar::net
