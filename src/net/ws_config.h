// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only place that names websocketpp's policies. C++17 translation units only.

#include <cstdint>
#include <cstring>
#include <websocketpp/extensions/permessage_deflate/disabled.hpp>
#include <websocketpp/http/request.hpp>
#include <websocketpp/http/response.hpp>
#include <websocketpp/message_buffer/alloc.hpp>
#include <websocketpp/message_buffer/message.hpp>
#include <websocketpp/processors/hybi13.hpp>

#include "base/text.h"

namespace sandbar::net {

/// Masking keys and handshake keys must not be guessable (RFC 6455 section 10.3): the kernel's, taken a page at a time.
class WsRandom {
 public:
  std::uint32_t operator()() const {
    if (used_ + sizeof(std::uint32_t) > pool_.size()) {
      pool_ = base::random_bytes(1024);
      used_ = 0;
    }
    std::uint32_t number = 0;
    std::memcpy(&number, pool_.data() + used_, sizeof number);
    used_ += sizeof number;
    return number;
  }

 private:
  mutable std::string pool_;
  mutable std::size_t used_ = 0;
};

/// Only what the processor and the HTTP parsers need: no endpoint, no connection, no transport, no extensions.
struct WsConfig {
  using request_type = websocketpp::http::parser::request;
  using response_type = websocketpp::http::parser::response;
  using message_type = websocketpp::message_buffer::message<websocketpp::message_buffer::alloc::con_msg_manager>;
  using con_msg_manager_type = websocketpp::message_buffer::alloc::con_msg_manager<message_type>;
  using rng_type = WsRandom;
  struct permessage_deflate_config {
    using request_type = websocketpp::http::parser::request;
  };
  using permessage_deflate_type = websocketpp::extensions::permessage_deflate::disabled<permessage_deflate_config>;
  static const bool enable_extensions = false;
  static const std::size_t max_message_size = 0;  ///< set on each processor
};

using WsProcessor = websocketpp::processor::hybi13<WsConfig>;

}  // namespace sandbar::net
