// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/thread_check.h"
#include "client/grant_keeper.h"
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

  /// Once it is settled: attaches the grants of further kinds, and renews all before they expire.
  void keep_grants(const ConnectionOptions& options, GrantToken first, base::OneShot<void> ready) {
    attached_ = std::move(ready);
    if (reason_) return attached_(*reason_);
    keeper_.emplace(loop_, *files_, options.grants, options.kinds, std::move(first));
    keeper_->start([this](Result<void> attached) { attached_(std::move(attached)); });
  }

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
    attached_(reason);
    keeper_.reset();
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
  base::OneShot<void> attached_;
  std::optional<GrantKeeper> keeper_;  // after what it uses: the files, the completion
};

/// One attempt: get a grant, connect (twice where the grant was refused), then hello, then hand the connection over.
class Opening final : public PendingConnection, public std::enable_shared_from_this<Opening> {
 public:
  Opening(base::Loop& loop, const Target& target, ConnectionOptions options,
          base::OneShot<std::unique_ptr<Connection>> done)
      : loop_(loop), address_(target.address()), options_(std::move(options)), done_(std::move(done)) {}

  void start(net::Endpoint endpoint) {
    endpoint_ = std::move(endpoint);
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
    const base::Duration left = std::max<base::Duration>(deadline_ - loop_.now(), std::chrono::milliseconds(1));
    connection_ = std::make_unique<ConnectionImpl>(loop_, std::move(transport).value(), options_, left,
                                                   [weak = weak_from_this()](Result<void> outcome) {
                                                     if (const auto self = weak.lock())
                                                       self->settled(std::move(outcome));
                                                   });
  }

  /// Inside a callback of the connection, like finish_later().
  void settled(Result<void> outcome) {
    if (!outcome || !options_.grants) return finish_later(std::move(outcome));
    loop_.post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self || !self->connection_) return;
      self->connection_->keep_grants(self->options_, self->token_, [weak](Result<void> attached) {
        if (const auto known = weak.lock()) known->finish_later(std::move(attached));
      });
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
    if (error.code == Errc::unauthorized && !options_.grants)
      why += options_.token.empty() ? "; no token was given: set SANDBOX_TOKEN or use --token-file"
                                    : "; give the agent's token by SANDBOX_TOKEN or --token-file";
    return Error{error.code == Errc::os ? Errc::disconnected : error.code, 0, "connect to " + address_, std::move(why)};
  }

  base::Loop& loop_;
  const std::string address_;
  const ConnectionOptions options_;
  net::Endpoint endpoint_;
  base::TimePoint deadline_;  ///< of the connect under way
  base::OneShot<std::unique_ptr<Connection>> done_;
  GrantToken token_;
  bool refused_ = false;  ///< one was; another was asked for
  std::unique_ptr<PendingGrant> grant_;
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
