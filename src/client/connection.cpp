// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <algorithm>
#include <utility>

#include "base/thread_check.h"
#include "client/dialer.h"
#include "client/live_connection.h"

namespace sandbar::client {
namespace {

/// One attempt: connect, then hello, then further grants, then hand the connection over.
class Opening final : public PendingConnection, public std::enable_shared_from_this<Opening> {
 public:
  Opening(base::Loop& loop, const Target& target, ConnectionOptions options,
          base::OneShot<std::unique_ptr<Connection>> done)
      : loop_(loop), target_(target), options_(std::move(options)), done_(std::move(done)) {}

  void start() {
    dialing_ = dial(loop_, target_, options_, [weak = weak_from_this()](Result<Dialed> dialed) {
      if (const auto self = weak.lock()) self->connected(std::move(dialed));
    });
  }

 private:
  void connected(Result<Dialed> dialed) {
    if (!dialed) return finish_later(std::move(dialed).error());
    connection_ = std::make_unique<LiveConnection>(loop_, target_, options_, std::move(*dialed),
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
    dialing_.reset();
    if (outcome.ok()) return done_(std::unique_ptr<Connection>(std::move(connection_)));
    connection_.reset();
    done_(explain_dialing(target_, options_, std::move(outcome).error()));
  }

  base::Loop& loop_;
  const Target target_;
  const ConnectionOptions options_;
  base::OneShot<std::unique_ptr<Connection>> done_;
  std::unique_ptr<Dialing> dialing_;
  std::unique_ptr<LiveConnection> connection_;
};

/// What the caller holds: destroying it ends the attempt, whoever else is on the stack.
class OpeningHandle final : public PendingConnection {
 public:
  explicit OpeningHandle(std::shared_ptr<Opening> opening) : opening_(std::move(opening)) {}

 private:
  std::shared_ptr<Opening> opening_;
};

}  // namespace

std::string notice_text(const ConnectionEvent& event) {
  switch (event.kind) {
    case ConnectionEvent::Kind::lost:
      return "the connection to the sandbox is lost, reconnecting: " + event.reason.message();
    case ConnectionEvent::Kind::failed:
      return {};
    case ConnectionEvent::Kind::resumed:
      return "connected again; nothing was lost";
    case ConnectionEvent::Kind::session_lost:
      return "the sandbox has lost the session (running commands and locks): " + event.reason.message();
    case ConnectionEvent::Kind::renewed:
      return "connected again, with a new session";
  }
  return {};
}

std::unique_ptr<PendingConnection> open_connection(base::Loop& loop, const Target& target, ConnectionOptions options,
                                                   base::OneShot<std::unique_ptr<Connection>> done) {
  SANDBAR_ON_LOOP(loop);
  auto opening = std::make_shared<Opening>(loop, target, std::move(options), std::move(done));
  opening->start();
  return std::make_unique<OpeningHandle>(std::move(opening));
}

}  // namespace sandbar::client
