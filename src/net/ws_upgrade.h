// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "sandbar/error.h"

/// The HTTP exchange that begins a WebSocket, without input and output; internal to net. C++17-clean.
namespace sandbar::net {

/// Bytes of an HTTP head, either way (websocketpp's parser stops at 16,000).
constexpr std::size_t kMaxHttpHead = 15 * 1024;

struct WsClientOptions {
  std::string host;  ///< of the Host header: "localhost", "[::1]:8080"
  std::string path;
  std::string subprotocol;
  std::string token;  ///< empty: none
};

class WsClientUpgrade {
 public:
  enum class State { more, upgraded, failed };

  explicit WsClientUpgrade(const WsClientOptions& options);
  ~WsClientUpgrade();
  WsClientUpgrade(const WsClientUpgrade&) = delete;
  WsClientUpgrade& operator=(const WsClientUpgrade&) = delete;

  /// What to send.
  [[nodiscard]] const base::Bytes& request() const;
  State receive(std::string_view bytes);
  /// Once upgraded: what came behind the head.
  base::Bytes take_rest();
  /// Once failed. Errc::unauthorized or Errc::protocol, without an operation.
  [[nodiscard]] const Error& failure() const;
  /// What came so far, for a person; "" if nothing did.
  [[nodiscard]] std::string received() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

class WsServerUpgrade {
 public:
  enum class State {
    more,
    decide,   ///< a proper request: look at token() and path(), then accept() or refuse()
    refused,  ///< not one: response() says why to the client, failure() to us
  };

  explicit WsServerUpgrade(std::string subprotocol);
  ~WsServerUpgrade();
  WsServerUpgrade(const WsServerUpgrade&) = delete;
  WsServerUpgrade& operator=(const WsServerUpgrade&) = delete;

  State receive(std::string_view bytes);
  [[nodiscard]] const std::string& token() const;
  [[nodiscard]] const std::string& path() const;
  /// The authorization is right. False where the rest of the request is not (no such subprotocol): then refused.
  bool accept();
  /// The authorization is wrong: 401.
  void refuse();
  /// Plain HTTP, or what may be, came where TLS is spoken: 426 as RFC 2817 has it.
  void refuse_plaintext();

  [[nodiscard]] const base::Bytes& response() const;
  base::Bytes take_rest();
  [[nodiscard]] const Error& failure() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace sandbar::net
