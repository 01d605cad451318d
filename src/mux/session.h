// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "mux/channel.h"
#include "net/transport.h"
#include "wire/messages.h"

/// Requests, replies and byte streams over a transport, or over several, one after the other: a session that both
/// sides want to keep outlives its connection, and on the next one nothing is lost, repeated or reordered. Heads of
/// requests and replies are opaque here: what they mean is the services' affair. Everything on the loop's thread.
namespace sandbar::mux {

/// A request or a reply: a JSON head (wire/codec.h) and raw bytes.
struct Message {
  base::Bytes head;
  base::Bytes body;
};

struct RequestOptions {
  base::Duration timeout{0};  ///< 0: none. At its end the request fails with Errc::timeout and the peer gets a cancel
};

/// Bytes of waiting replies; see Session::backlog.
constexpr std::size_t kReplyBacklog = 8 * 1024 * 1024;

class SessionCore;

/// Answers one incoming request, exactly once; destroyed unanswered, it answers Errc::internal. Movable; outlives its
/// session harmlessly.
class Responder {
 public:
  Responder() = default;
  Responder(std::weak_ptr<SessionCore> core, wire::RequestId id);
  Responder(Responder&&) noexcept;
  Responder& operator=(Responder&&) noexcept;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;
  ~Responder();

  explicit operator bool() const noexcept { return static_cast<bool>(id_); }
  void reply(Message message);
  void fail(const Error& error);
  /// `cancelled` runs once if the requester gives up before the answer (its deadline passed, or it cancelled); not
  /// after an answer. The request must still be answered, as a rule with Errc::cancelled.
  void on_cancel(base::Task cancelled);
  /// True once the requester gave up or the session ended.
  [[nodiscard]] bool cancelled() const;
  /// Bytes of replies that wait in the session: above kReplyBacklog a service starts nothing that adds to them, and
  /// goes on at Handler::on_drained, so that a client which asks and does not read cannot fill our memory.
  [[nodiscard]] std::size_t backlog() const;

 private:
  std::weak_ptr<SessionCore> core_;
  wire::RequestId id_;
};

enum class Role { client, agent };

struct SessionOptions {
  Role role = Role::client;
  wire::Hello hello;  ///< ours; limits are filled in by the session
  /// The agent's: runs when the client's hello is there, before ours goes out; may complete ours, or refuse. It gives
  /// the session a name (Hello::session) where the session is to outlive its connection.
  base::Function<Result<void>(const wire::Hello& theirs, wire::Hello& ours)> on_hello;
  /// The agent's: what a Greeter has read of the client, its hello.
  base::Bytes first_message;
  /// The client's: keep the session when its connection is lost, if the agent does so, too.
  bool resumable = false;
  base::Duration hello_timeout = std::chrono::seconds(10);
  base::Duration ping_interval = std::chrono::seconds(4);
  /// Nothing heard for so long: the peer is dead. Design: noticed within 15 s, a stall of 6 s disturbs nothing.
  base::Duration dead_after = std::chrono::seconds(13);
};

struct SessionStats {
  std::uint64_t frames_sent = 0, frames_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< of frames, headers included
  std::uint64_t requests_sent = 0;
  std::uint64_t resumes = 0;
  base::Duration round_trip{0};  ///< smoothed, from pings; 0 before the first
};

class Session {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    /// Hellos are exchanged. `peer_hello` lives as long as the session.
    virtual void on_ready(const wire::Hello& peer_hello) = 0;
    virtual void on_request(Message request, Responder responder) = 0;
    /// The replies that wait are below kReplyBacklog again, having been above.
    virtual void on_drained() {}
    /// The connection is lost, and the session lives: what is asked of it waits. The owner gives it another one with
    /// resume(), now or later. Also when a resume came to nothing.
    virtual void on_detached(const Error& /*reason*/) {}
    /// The session goes on, on a new connection; this is the peer's hello on it.
    virtual void on_resumed(const wire::Hello& /*peer_hello*/) {}
    /// Over, once; requests under way have failed with Errc::disconnected, channels were reset. The session may be
    /// destroyed inside this call's loop turn by posting, not in the call.
    virtual void on_closed(const Error& reason) = 0;
  };

  Session(base::Loop& loop, std::unique_ptr<net::Transport> transport, SessionOptions options, Handler& handler);
  /// Ends without a word to the handler, and with a goodbye to the peer where the kernel takes it at once; requests
  /// under way fail with Errc::disconnected.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sends a request; `done` runs exactly once, never inside this call. Before on_ready, and beyond the peer's limits,
  /// requests wait here in order. After the end: Errc::disconnected.
  wire::RequestId request(Message message, RequestOptions options, base::OneShot<Message> done);
  /// `done` of that request fails with Errc::cancelled; the peer is told. Unknown ids are ignored.
  void cancel(wire::RequestId request);

  /// A new stream; its OPEN goes out before anything else that is sent on it. After the end of the session the channel
  /// is born reset.
  std::shared_ptr<Channel> open_channel();
  /// The stream that the peer opened under this id, for the service that was told of it; null for an unknown id, or one
  /// that was taken already.
  std::shared_ptr<Channel> take_channel(wire::ChannelId id);

  /// The client's: goes on with another connection, in place of the one there is, where it says hello again.
  /// Errc::unknown ends the session when the agent does not know it any more; after all other failures on_detached
  /// comes again. Ignored, and the transport dropped, by a session that does not outlive its connections.
  void resume(std::unique_ptr<net::Transport> transport);
  /// The agent's: the client came back on another connection, with this hello. An error, with the transport left where
  /// it is and nothing changed, for a connection that is older than the present one, or when what it says cannot be.
  Result<void> take_over(std::unique_ptr<net::Transport>& transport, const wire::Hello& peer_hello);
  /// False while there is no connection.
  [[nodiscard]] bool attached() const;
  /// Bytes that are kept for the peer: not acknowledged, or not sent.
  [[nodiscard]] std::size_t retained() const;

  /// Sends a goodbye with the reason and ends; on_closed follows.
  void close(const Error& reason);
  [[nodiscard]] bool ready() const;
  [[nodiscard]] const wire::Hello& peer_hello() const;
  [[nodiscard]] SessionStats stats() const;
  /// Bytes of replies that wait here: a service that would add much to them waits for Handler::on_drained, so that a
  /// client which asks and does not read cannot fill our memory.
  [[nodiscard]] std::size_t backlog() const;
  [[nodiscard]] std::string peer() const;

 private:
  std::shared_ptr<SessionCore> core_;
};

}  // namespace sandbar::mux
