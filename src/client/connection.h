// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/function.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "client/grant_source.h"
#include "client/remote_fs.h"
#include "mux/session.h"
#include "sandbar/target.h"

namespace sandbar::client {

struct ConnectionOptions {
  std::string token;  ///< empty: none; not used where there are `grants`
  /// Where tokens come from, if not null. Each connect asks it (its time is not counted into `timeout`), and once more
  /// where the agent refuses what it gave.
  std::shared_ptr<GrantSource> grants;
  /// With `grants`: what the session is for, the first at the connect, further ones attached before `done`.
  std::vector<GrantKind> kinds{GrantKind::files};
  std::string ca_file;  ///< as net::ConnectOptions'
  bool insecure = false;
  std::string journal;  ///< persistent id of the client's journal; empty for a client that changes no files
  base::Duration timeout = std::chrono::seconds(15);  ///< for connect, upgrade and hello together
  /// Come back when the connection is lost, until the Connection is destroyed: to the session where the agent still has
  /// it, else with a new one. Else the first loss is the end.
  bool reconnect = false;
};

/// What happens to a connection that comes back, for notices. All but `lost` and `session_lost` end a break.
struct ConnectionEvent {
  enum class Kind {
    lost,          ///< `reason` says why; attempts to come back begin
    failed,        ///< an attempt failed, others follow
    resumed,       ///< nothing was lost
    session_lost,  ///< the agent does not know the session any more
    renewed,       ///< a new session took its place
  };
  Kind kind = Kind::lost;
  Error reason;
};

/// For people, in one line; empty for an event that they need not hear of (one more failed attempt).
std::string notice_text(const ConnectionEvent& event);

/// A session with one agent and the services over it. Everything on the loop's thread.
class Connection {
 public:
  virtual ~Connection() = default;
  /// The present one: another after ConnectionEvent::renewed. While there is none, the one that is over.
  virtual mux::Session& session() = 0;
  virtual RemoteFs& files() = 0;
  [[nodiscard]] virtual const wire::Hello& agent() const = 0;
  [[nodiscard]] virtual bool attached() const = 0;
  /// `lost` runs once when the connection ends by itself and does not come back; later than every failed request's
  /// completion.
  virtual void on_lost(base::Function<void(Error)> lost) = 0;
  /// `told` runs at each event, in a turn of its own.
  virtual void on_event(base::Function<void(const ConnectionEvent&)> told) = 0;
};

/// Destroying it gives up and releases everything, at any stage.
class PendingConnection {
 public:
  virtual ~PendingConnection() = default;
};

/// Connects and exchanges hellos. Errors as net::connect's, and Errc::unsupported where the agent lacks a capability
/// that every client needs. The error names the target, never the token. `done` never runs inside this call.
std::unique_ptr<PendingConnection> open_connection(base::Loop& loop, const Target& target, ConnectionOptions options,
                                                   base::OneShot<std::unique_ptr<Connection>> done);

}  // namespace sandbar::client
