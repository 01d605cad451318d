// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sandbar/result.h"

namespace sandbar {

/// Which sandbox, and which directory of it. Texts that parse:
///
///   wss://HOST[:PORT][/HTTP-PATH][:/DIR]  an agent's address, by TLS
///   ws://HOST[:PORT][/HTTP-PATH][:/DIR]   the same unencrypted: for this machine's own agents
///   (ClientOptions::insecure) unix:/PATH/TO/SOCKET[:/DIR]           an agent on this machine exec:COMMAND[:/DIR] a
///   command whose stdin and stdout are an agent. The DIR suffix is what
///                                         follows the last ":", when that is '/' and a text that neither begins with
///                                         '/' nor holds white space; a last ":/" keeps a command that ends like one
///
/// In the first three the directory begins at the first ":/" behind HOST or PATH. Doubled and last slashes of a
/// directory are dropped. A sandbox's name or id needs a control plane, which this version does not have:
/// Errc::unsupported.
struct Target {
  enum class Kind { websocket, unix_socket, command };

  Kind kind = Kind::websocket;
  std::string host;             ///< websocket: without brackets
  std::uint16_t port = 0;       ///< websocket; where none is given 80, with tls 443
  std::string http_path = "/";  ///< websocket
  bool tls = false;             ///< websocket: wss://
  std::string socket_path;      ///< unix_socket
  std::string command;          ///< command
  std::string directory = "/";  ///< inside the agent's root; absolute

  /// Errc::invalid with what is wrong and an example of what is right.
  static Result<Target> parse(std::string_view text);
  /// The text that parses to this, with the directory suffix unless that is "/".
  [[nodiscard]] std::string text() const;
  /// The same without the directory.
  [[nodiscard]] std::string address() const;
};

}  // namespace sandbar
