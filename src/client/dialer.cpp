// SPDX-License-Identifier: Apache-2.0
#include "client/dialer.h"

#include <optional>
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

class Dialer final : public std::enable_shared_from_this<Dialer> {
 public:
  Dialer(base::Loop& loop, const Target& target, const ConnectionOptions& options, base::OneShot<Dialed> done)
      : loop_(loop), endpoint_(endpoint_of(target)), options_(options), done_(std::move(done)) {}

  void start() {
    token_.token = options_.token;
    if (!options_.grants) return connect();
    get_grant(GrantWant::Reason::first, {});
  }

 private:
  void get_grant(GrantWant::Reason reason, std::optional<Error> refusal) {
    GrantWant want;
    want.kind = options_.kinds.front();
    want.reason = reason;
    if (refusal) want.stale = token_.token;
    grant_ =
        options_.grants->get(loop_, std::move(want),
                             [weak = weak_from_this(), refusal = std::move(refusal)](Result<GrantToken> token) mutable {
                               const auto self = weak.lock();
                               if (!self) return;
                               if (token) {
                                 self->token_ = std::move(*token);
                                 return self->connect();
                               }
                               // That there is no other token says less than why this one was refused.
                               const bool no_other = refusal && token.error().code == Errc::unauthorized;
                               self->finish_later(no_other ? std::move(*refusal) : std::move(token).error());
                             });
  }

  void connect() {
    deadline_ = loop_.now() + options_.timeout;
    net::ConnectOptions connect;
    connect.token = token_.token;
    connect.ca_file = options_.ca_file;
    connect.insecure = options_.insecure;
    connect.timeout = options_.timeout;
    connect_ = net::connect(loop_, endpoint_, connect,
                            [weak = weak_from_this()](Result<std::unique_ptr<net::Transport>> transport) {
                              if (const auto self = weak.lock()) self->connected(std::move(transport));
                            });
  }

  void connected(Result<std::unique_ptr<net::Transport>> transport) {
    if (!transport && transport.error().code == Errc::unauthorized && options_.grants && !std::exchange(refused_, true))
      return get_grant(GrantWant::Reason::refused, std::move(transport).error());
    if (!transport) return finish_later(std::move(transport).error());
    finish_later(Dialed{std::move(*transport), token_, deadline_});
  }

  /// We are inside a callback of what the completion may destroy.
  void finish_later(Result<Dialed> outcome) {
    loop_.post([weak = weak_from_this(), outcome = std::move(outcome)]() mutable {
      if (const auto self = weak.lock()) self->done_(std::move(outcome));
    });
  }

  base::Loop& loop_;
  const net::Endpoint endpoint_;
  const ConnectionOptions options_;
  base::OneShot<Dialed> done_;
  base::TimePoint deadline_;
  GrantToken token_;
  bool refused_ = false;  ///< one was; another was asked for
  std::unique_ptr<PendingGrant> grant_;
  std::unique_ptr<net::PendingConnect> connect_;
};

/// What the caller holds: destroying it ends the attempt, whoever else is on the stack.
class DialingHandle final : public Dialing {
 public:
  explicit DialingHandle(std::shared_ptr<Dialer> dialer) : dialer_(std::move(dialer)) {}

 private:
  std::shared_ptr<Dialer> dialer_;
};

}  // namespace

std::unique_ptr<Dialing> dial(base::Loop& loop, const Target& target, const ConnectionOptions& options,
                              base::OneShot<Dialed> done) {
  auto dialer = std::make_shared<Dialer>(loop, target, options, std::move(done));
  dialer->start();
  return std::make_unique<DialingHandle>(std::move(dialer));
}

Error explain_dialing(const Target& target, const ConnectionOptions& options, Error error) {
  std::string why = error.detail.empty() ? Error{error.code, error.os_errno, "", ""}.message() : error.detail;
  if (error.code == Errc::os) why = Error{error.code, error.os_errno, "", error.detail}.message();
  if (error.code == Errc::unauthorized && !options.grants)
    why += options.token.empty() ? "; no token was given: set SANDBOX_TOKEN or use --token-file"
                                 : "; give the agent's token by SANDBOX_TOKEN or --token-file";
  return Error{error.code == Errc::os ? Errc::disconnected : error.code, 0, "connect to " + target.address(),
               std::move(why)};
}

}  // namespace sandbar::client
