// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "base/bytes.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "wire/messages.h"
#include "wire/request_names.h"

namespace sandbar::client {

struct CallTag;
using CallId = base::StrongId<CallTag>;

struct CallOptions {
  base::Duration timeout{0};  ///< 0: none
};

/// A typed answer: the reply's struct, its body, and the change number that covers it.
template <class R>
struct Answer {
  R reply;
  base::Bytes body;
  wire::ChangeNumber change;
};

/// How it stands with the sandbox.
struct ConnectionState {
  enum class Phase {
    connected,
    connecting,  ///< the connection is broken; the session goes on when there is another
    lost,        ///< the session is lost; requests wait for a new one, or fail
  };
  Phase phase = Phase::connected;
  std::uint64_t resumes = 0;        ///< broken connections over which a session went on
  std::uint64_t sessions_lost = 0;  ///< see "LOST SESSIONS" in sandbox-mux.7
};

/// The files of a sandbox as the vfs sees them: requests out, answers in, in no order. The real one is RemoteFiles over
/// a mux session; fakes::FakeRemote keeps a tree in memory. On the loop's thread.
class RemoteFs {
 public:
  using AnyAnswer = Answer<wire::ReplyBody>;

  virtual ~RemoteFs() = default;

  /// Sends one request of the file service. `done` runs exactly once, never inside this call: with the answer, the
  /// agent's error, Errc::timeout, Errc::cancelled or Errc::disconnected; after a lost session also with Errc::unknown
  /// for what may have been done or not, ESTALE for what is not found again, EIO where a lock was lost. The mutation
  /// number in `context` is given by the implementation when `request` is a mutation (wire::is_mutation()).
  virtual CallId submit(wire::RequestContext context, wire::RequestBody request, base::Bytes body, CallOptions options,
                        base::OneShot<AnyAnswer> done) = 0;
  /// Gives up: `done` gets Errc::cancelled and the agent is told. Unknown ids are ignored.
  virtual void cancel(CallId call) = 0;
  /// The agent's hello: limits, identity, root. Of the last session while there is none; the reference stays good.
  [[nodiscard]] virtual const wire::Hello& agent() const = 0;
  [[nodiscard]] virtual ConnectionState state() const { return {}; }

  /// submit() with types: `done` gets an Answer<Req::Reply>; a reply of another kind is Errc::protocol.
  template <class Req>
  CallId call(wire::RequestContext context, Req request, base::Bytes body, CallOptions options,
              base::OneShot<Answer<typename Req::Reply>> done) {
    return submit(
        std::move(context), wire::RequestBody(std::move(request)), std::move(body), options,
        [done = std::move(done)](Result<AnyAnswer> any) mutable {
          if (!any) return done(std::move(any).error());
          auto* reply = std::get_if<typename Req::Reply>(&any->reply);
          if (reply == nullptr)
            return done(make_error(Errc::protocol, "read the reply", "it is of another kind than the request"));
          done(Answer<typename Req::Reply>{std::move(*reply), std::move(any->body), any->change});
        });
  }
};

}  // namespace sandbar::client
