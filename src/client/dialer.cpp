// SPDX-License-Identifier: Apache-2.0
#include "client/dialer.h"

#include <utility>

#include "client/connection.h"
#include "net/connect.h"

namespace sandbar::client {
namespace {

net::Endpoint endpoint_of(const Target& target) {
  net::Endpoint endpoint;
  switch (target.kind) {
    case Target::Kind::websocket:
      endpoint.kind = net::Endpoint::Kind::tcp;
      endpoint.host = target.host;
      endpoint.port = target.port;
      endpoint.http_path = target.http_path;
      endpoint.tls = target.tls;
      break;
    case Target::Kind::unix_socket:
      endpoint.kind = net::Endpoint::Kind::unix_socket;
      endpoint.socket_path = target.socket_path;
      break;
    case Target::Kind::command:
      endpoint.kind = net::Endpoint::Kind::command;
      endpoint.command = target.command;
      break;
  }
  return endpoint;
}

class DialingImpl final : public Dialing {
 public:
  explicit DialingImpl(std::unique_ptr<net::PendingConnect> connect) : connect_(std::move(connect)) {}

 private:
  std::unique_ptr<net::PendingConnect> connect_;
};

}  // namespace

std::unique_ptr<Dialing> dial(base::Loop& loop, const Target& target, const ConnectionOptions& options,
                              base::Duration timeout, base::OneShot<std::unique_ptr<net::Transport>> done) {
  net::ConnectOptions connect;
  connect.token = options.token;
  connect.ca_file = options.ca_file;
  connect.insecure = options.insecure;
  connect.timeout = timeout;
  return std::make_unique<DialingImpl>(net::connect(loop, endpoint_of(target), connect, std::move(done)));
}

Error explain_dialing(const Target& target, bool has_token, Error error) {
  std::string why = error.detail.empty() ? Error{error.code, error.os_errno, "", ""}.message() : error.detail;
  if (error.code == Errc::os) why = Error{error.code, error.os_errno, "", error.detail}.message();
  if (error.code == Errc::unauthorized)
    why += has_token ? "; give the agent's token by SANDBOX_TOKEN or --token-file"
                     : "; no token was given: set SANDBOX_TOKEN or use --token-file";
  return Error{error.code == Errc::os ? Errc::disconnected : error.code, 0, "connect to " + target.address(),
               std::move(why)};
}

}  // namespace sandbar::client
