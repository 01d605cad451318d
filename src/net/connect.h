// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/one_shot.h"
#include "net/transport.h"

namespace sandbar::net {

/// How to reach an agent.
struct Endpoint {
  enum class Kind { tcp, unix_socket, command };
  Kind kind = Kind::tcp;
  std::string host;        ///< tcp: name, IPv4, or IPv6 without brackets
  std::uint16_t port = 0;  ///< tcp
  std::string http_path = "/";
  bool tls = false;         ///< tcp: wss://, not ws://
  std::string socket_path;  ///< unix_socket
  std::string command;      ///< command: run by /bin/sh -c; its stdin and stdout are the agent, its stderr is ours
};

struct ConnectOptions {
  std::string token;  ///< sent as "Authorization: Bearer"; empty: none
  std::string subprotocol = "sandbox-mux.v1";
  base::Duration timeout = std::chrono::seconds(15);  ///< for all of it
  /// tls: trust the certificates in this PEM file only; empty: those that the system trusts.
  std::string ca_file = {};
  /// Allows tcp without tls to addresses beyond this machine.
  bool insecure = false;
  /// tls: "http://[USER:PASSWORD@]HOST[:PORT]", empty for none; unset: as HTTPS_PROXY and NO_PROXY say.
  std::optional<std::string> proxy = std::nullopt;
};

/// A connect under way; destroying it gives up and releases all that it opened (descriptors, the child), at any stage.
class PendingConnect {
 public:
  virtual ~PendingConnect() = default;
};

/// Resolves (off the loop's thread), connects to one of the addresses (RFC 8305), asks an HTTP proxy for the way if
/// there is one, does TLS, upgrades to a WebSocket. `done` gets: Errc::disconnected (nobody answers, name unknown,
/// command ended: with what it said), Errc::unauthorized (HTTP 401 or 403, and what gateways answer instead: a
/// redirect, which is not followed since the token is for this target only, or 400 with a page in HTML), Errc::protocol
/// (not a WebSocket, not our subprotocol, a certificate that is not right), Errc::timeout, Errc::invalid (options that
/// cannot be right; plaintext to another machine, of which nothing has been sent then). `done` never runs inside this
/// call. The child of a `command` endpoint is its own process group; destroying the transport closes its pipes, and
/// kills (TERM, then KILL after 2 s) and reaps it.
std::unique_ptr<PendingConnect> connect(base::Loop& loop, const Endpoint& endpoint, const ConnectOptions& options,
                                        base::OneShot<std::unique_ptr<Transport>> done);

}  // namespace sandbar::net
