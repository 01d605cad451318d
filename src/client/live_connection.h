// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "client/backoff.h"
#include "client/connection.h"
#include "client/dialer.h"
#include "client/grant_keeper.h"
#include "client/remote_files.h"
#include "net/network_changes.h"

namespace sandbar::client {

/// A Connection from its first hello on: keeps the session through broken connections, and renews it when the agent has
/// lost it. On the loop's thread; may be destroyed inside its callbacks but not inside `settled`.
class LiveConnection final : public Connection, private mux::Session::Handler {
 public:
  /// `settled` runs once, when the first hello was exchanged and all grants are attached, or with why not; inside a
  /// callback of what this holds.
  LiveConnection(base::Loop& loop, Target target, ConnectionOptions options, Dialed first,
                 base::Function<void(Result<void>)> settled);
  ~LiveConnection() override;

  mux::Session& session() override { return *session_; }
  RemoteFs& files() override { return *files_; }
  [[nodiscard]] const wire::Hello& agent() const override { return session_->peer_hello(); }
  [[nodiscard]] bool attached() const override { return session_->attached(); }
  void on_lost(base::Function<void(Error)> lost) override;
  void on_event(base::Function<void(const ConnectionEvent&)> told) override { told_ = std::move(told); }

 private:
  void on_ready(const wire::Hello& peer_hello) override;
  void on_request(mux::Message message, mux::Responder responder) override;
  void on_detached(const Error& reason) override;
  void on_resumed(const wire::Hello& peer_hello) override;
  void on_closed(const Error& reason) override;

  void settle(Result<void> outcome);
  void tell(ConnectionEvent::Kind kind, Error reason = {});
  void mended(ConnectionEvent::Kind how);
  void tell_lost();
  void network_changed();
  void lease_over();
  void dial_later();
  void dial_now();
  void dialed(Result<Dialed> dialed);
  void begin_session(Dialed dialed);
  void keep_grants();
  base::Task guarded(void (LiveConnection::*step)());

  base::Loop& loop_;
  const Target target_;
  const ConnectionOptions options_;
  base::Function<void(Result<void>)> settled_;
  base::Function<void(Error)> lost_;
  base::Function<void(const ConnectionEvent&)> told_;
  std::optional<Error> reason_;  ///< of the end, when there is no way back
  bool broken_ = false;          ///< told as lost, not as mended
  bool begun_ = false;           ///< the session's hello came
  bool over_ = false;            ///< the session is; a new one is to take its place
  base::TimePoint up_since_;
  Backoff backoff_;
  base::TimerId timer_;        ///< of the next attempt
  base::TimerId lease_timer_;  ///< from the loss on: the agent keeps the session no longer
  std::unique_ptr<Dialing> dialing_;
  std::unique_ptr<net::NetworkChanges> network_;  ///< looked at while the connection is broken
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<mux::Session> session_;
  std::optional<RemoteFiles> files_;   // after the session, which it uses
  GrantToken token_;                   ///< that the session began with
  std::optional<GrantKeeper> keeper_;  // after the files, which it uses
};

}  // namespace sandbar::client
