// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/thread_check.h"
#include "client/remote_files.h"
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

bool offers(const wire::Hello& hello, const char* capability) {
  return std::find(hello.capabilities.begin(), hello.capabilities.end(), capability) != hello.capabilities.end();
}

mux::SessionOptions session_options(const ConnectionOptions& options, base::Duration left) {
  mux::SessionOptions session;
  session.role = mux::Role::client;
  session.hello.software = "sandbar " SANDBAR_VERSION;
  session.hello.capabilities = {wire::kCapabilityFilesPosix, wire::kCapabilityProcess};
  session.hello.journal = options.journal;
  session.hello_timeout = left;
  return session;
}

class ConnectionImpl final : public Connection, private mux::Session::Handler {
 public:
  /// `settled` runs once, with the hello's outcome, inside a callback of the session.
  ConnectionImpl(base::Loop& loop, std::unique_ptr<net::Transport> transport, const ConnectionOptions& options,
                 base::Duration left, base::Function<void(Result<void>)> settled)
      : loop_(loop),
        numbers_mutations_(!options.journal.empty()),
        settled_(std::move(settled)),
        session_(loop, std::move(transport), session_options(options, left), *this) {}

  mux::Session& session() override { return session_; }
  RemoteFs& files() override { return *files_; }
  [[nodiscard]] const wire::Hello& agent() const override { return session_.peer_hello(); }

  void on_lost(base::Function<void(Error)> lost) override {
    SANDBAR_ON_LOOP(loop_);
    lost_ = std::move(lost);
    if (lost_ && reason_) tell_lost();
  }

 private:
  void on_ready(const wire::Hello& peer_hello) override {
    if (!offers(peer_hello, wire::kCapabilityFilesPosix))
      return settle(make_error(
          Errc::unsupported, "",
          std::string("the agent does not offer ") + wire::kCapabilityFilesPosix + "; it may be of another version"));
    files_.emplace(loop_, session_, numbers_mutations_);
    settle({});
  }

  void on_request(mux::Message, mux::Responder responder) override {
    responder.fail(make_error(Errc::unsupported, "request", "a client offers no service"));
  }

  void on_closed(const Error& reason) override {
    reason_ = reason;
    if (settled_) return settle(reason);
    if (lost_) tell_lost();
  }

  void settle(Result<void> outcome) {
    if (auto settled = std::exchange(settled_, nullptr)) settled(std::move(outcome));
  }

  /// Posted, so that it comes after the completions of failed requests, and so that the callback may destroy us.
  void tell_lost() {
    loop_.post(
        [alive = std::weak_ptr<bool>(alive_), lost = std::exchange(lost_, nullptr), reason = *reason_]() mutable {
          if (!alive.expired()) lost(std::move(reason));
        });
  }

  base::Loop& loop_;
  const bool numbers_mutations_;
  base::Function<void(Result<void>)> settled_;
  base::Function<void(Error)> lost_;
  std::optional<Error> reason_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  mux::Session session_;
  std::optional<RemoteFiles> files_;  // after the session, which it uses
};

/// One attempt: connect, then hello, then hand the connection over.
class Opening final : public PendingConnection, public std::enable_shared_from_this<Opening> {
 public:
  Opening(base::Loop& loop, const Target& target, ConnectionOptions options,
          base::OneShot<std::unique_ptr<Connection>> done)
      : loop_(loop),
        address_(target.address()),
        options_(std::move(options)),
        deadline_(loop.now() + options_.timeout),
        done_(std::move(done)) {}

  void start(const net::Endpoint& endpoint) {
    net::ConnectOptions connect;
    connect.token = options_.token;
    connect.ca_file = options_.ca_file;
    connect.insecure = options_.insecure;
    connect.timeout = options_.timeout;
    connect_ = net::connect(loop_, endpoint, connect,
                            [weak = weak_from_this()](Result<std::unique_ptr<net::Transport>> transport) {
                              if (const auto self = weak.lock()) self->connected(std::move(transport));
                            });
  }

 private:
  void connected(Result<std::unique_ptr<net::Transport>> transport) {
    if (!transport) return finish_later(std::move(transport).error());
    const base::Duration left = std::max<base::Duration>(deadline_ - loop_.now(), std::chrono::milliseconds(1));
    connection_ = std::make_unique<ConnectionImpl>(loop_, std::move(transport).value(), options_, left,
                                                   [weak = weak_from_this()](Result<void> outcome) {
                                                     if (const auto self = weak.lock())
                                                       self->finish_later(std::move(outcome));
                                                   });
  }

  /// We are inside a callback of what the completion may destroy.
  void finish_later(Result<void> outcome) {
    loop_.post([weak = weak_from_this(), outcome = std::move(outcome)]() mutable {
      if (const auto self = weak.lock()) self->finish(std::move(outcome));
    });
  }

  void finish(Result<void> outcome) {
    connect_.reset();
    if (outcome.ok()) return done_(std::unique_ptr<Connection>(std::move(connection_)));
    connection_.reset();
    done_(explain(std::move(outcome).error()));
  }

  /// The target, and what to do where that is known. The token is in none of these texts.
  [[nodiscard]] Error explain(Error error) const {
    std::string why = error.detail.empty() ? Error{error.code, error.os_errno, "", ""}.message() : error.detail;
    if (error.code == Errc::os) why = Error{error.code, error.os_errno, "", error.detail}.message();
    if (error.code == Errc::unauthorized)
      why += options_.token.empty() ? "; no token was given: set SANDBOX_TOKEN or use --token-file"
                                    : "; give the agent's token by SANDBOX_TOKEN or --token-file";
    return Error{error.code == Errc::os ? Errc::disconnected : error.code, 0, "connect to " + address_, std::move(why)};
  }

  base::Loop& loop_;
  const std::string address_;
  const ConnectionOptions options_;
  const base::TimePoint deadline_;
  base::OneShot<std::unique_ptr<Connection>> done_;
  std::unique_ptr<net::PendingConnect> connect_;
  std::unique_ptr<ConnectionImpl> connection_;
};

/// What the caller holds: destroying it ends the attempt, whoever else is on the stack.
class OpeningHandle final : public PendingConnection {
 public:
  explicit OpeningHandle(std::shared_ptr<Opening> opening) : opening_(std::move(opening)) {}

 private:
  std::shared_ptr<Opening> opening_;
};

}  // namespace

std::unique_ptr<PendingConnection> open_connection(base::Loop& loop, const Target& target, ConnectionOptions options,
                                                   base::OneShot<std::unique_ptr<Connection>> done) {
  SANDBAR_ON_LOOP(loop);
  auto opening = std::make_shared<Opening>(loop, target, std::move(options), std::move(done));
  opening->start(endpoint_of(target));
  return std::make_unique<OpeningHandle>(std::move(opening));
}

}  // namespace sandbar::client
