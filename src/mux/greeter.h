// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/function.h"
#include "base/loop.h"
#include "net/transport.h"
#include "wire/session_messages.h"

namespace sandbar::mux {

/// The agent's first look at a connection: waits for the client's hello, which tells whether a new session begins or an
/// old one goes on. Answers pings meanwhile; whoever sends anything else, or nothing for `timeout`, gets a goodbye. On
/// the loop's thread; may be destroyed inside its completion, which drops the connection unless it was taken.
class Greeter final : private net::Transport::Handler {
 public:
  struct Greeted {
    std::unique_ptr<net::Transport> transport;
    wire::Hello hello;
    base::Bytes message;  ///< the hello as it came: SessionOptions::first_message
  };

  /// `greeted` runs once the hello is there, inside a callback of the transport; `over` when there will be none and the
  /// connection is gone.
  Greeter(base::Loop& loop, std::unique_ptr<net::Transport> transport, base::Duration timeout,
          base::Function<void(Greeted)> greeted, base::Function<void()> over);
  ~Greeter() override;
  Greeter(const Greeter&) = delete;
  Greeter& operator=(const Greeter&) = delete;

  /// Says goodbye on the connection (the one given, or the own one) with the reason, and ends: `over` follows.
  void refuse(const Error& reason, std::unique_ptr<net::Transport> transport = nullptr);

 private:
  void on_message(base::Bytes message) override;
  void on_writable() override {}
  void on_closed(Error reason) override;

  base::Loop& loop_;
  std::unique_ptr<net::Transport> transport_;
  base::TimerId timer_;
  base::Function<void(Greeted)> greeted_;
  base::Function<void()> over_;
};

}  // namespace sandbar::mux
