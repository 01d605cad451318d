// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "sandbar/error.h"

/// WebSocket (RFC 6455) without input and output; internal to net. C++17-clean: see CMakeLists.txt.
namespace sandbar::net {

enum class WsRole { client, server };

/// The frames of one upgraded connection: bytes from the peer become messages, messages become frames. Answers pings.
/// Text messages are refused: nothing here speaks text.
class WsCodec {
 public:
  enum class State {
    open,
    closed,  ///< the peer sent a close frame: close_reason()
    broken,  ///< the peer broke the protocol: failure(), and close_code() for the close frame
  };

  WsCodec(WsRole role, std::size_t max_message);
  ~WsCodec();
  WsCodec(const WsCodec&) = delete;
  WsCodec& operator=(const WsCodec&) = delete;

  /// Takes all of `data` (overwriting it: it is unmasked in place) and appends the messages that it completes. Once
  /// closed or broken, takes nothing more.
  State receive(char* data, std::size_t size, std::vector<base::Bytes>& messages);
  [[nodiscard]] State state() const;
  /// Bytes that answer what was received (a pong); at most one frame a receive().
  base::Bytes take_answer();

  /// The frame header to send before `payload`, which a client's mask is applied to in place.
  base::Bytes frame(base::Bytes& payload);
  /// A whole close frame; the reason is cut to 123 bytes, at the start of a UTF-8 character.
  base::Bytes close_frame(std::uint16_t code, std::string_view reason);

  [[nodiscard]] const Error& failure() const;
  /// What our close frame should say: the peer's own code back, or what it did wrong.
  [[nodiscard]] std::uint16_t close_code() const;
  /// The peer's words.
  [[nodiscard]] const std::string& close_reason() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace sandbar::net
