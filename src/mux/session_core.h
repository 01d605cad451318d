// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "mux/channel_core.h"
#include "mux/liveness.h"
#include "mux/retransmission.h"
#include "mux/scheduler.h"
#include "mux/session.h"

namespace sandbar::mux {

/// The state of a session; Session, responders and channels refer to it. Its life ends with its Session, but code that
/// runs in it holds it until it returns.
class SessionCore final : public net::Transport::Handler,
                          public ChannelHost,
                          public std::enable_shared_from_this<SessionCore> {
 public:
  SessionCore(base::Loop& loop, std::unique_ptr<net::Transport> transport, SessionOptions options,
              Session::Handler& handler);

  void start();
  /// The Session goes away: silence towards the handler.
  void detach();

  wire::RequestId request(Message message, RequestOptions options, base::OneShot<Message> done);
  void cancel(wire::RequestId request, Errc why);
  std::shared_ptr<Channel> open_channel();
  std::shared_ptr<Channel> take_channel(wire::ChannelId id);
  void close(const Error& reason);
  void resume(std::unique_ptr<net::Transport> transport);
  Result<void> take_over(std::unique_ptr<net::Transport>& transport, const wire::Hello& theirs);
  [[nodiscard]] bool attached() const { return linked_; }
  [[nodiscard]] std::size_t retained() const { return sent_.bytes() + scheduler_.bytes(); }

  // Responder.
  void answer(wire::RequestId id, Message message);
  void answer_error(wire::RequestId id, const Error& error);
  void on_cancel(wire::RequestId id, base::Task cancelled);
  [[nodiscard]] bool is_cancelled(wire::RequestId id) const;
  [[nodiscard]] std::size_t backlog() const { return scheduler_.response_bytes(); }

  [[nodiscard]] bool ready() const { return phase_ == Phase::ready; }
  [[nodiscard]] const wire::Hello& peer_hello() const { return peer_hello_; }
  [[nodiscard]] SessionStats stats() const;
  [[nodiscard]] std::string peer() const { return peer_; }

  // Transport::Handler.
  void on_message(base::Bytes message) override;
  void on_writable() override;
  void on_closed(Error reason) override;

  // ChannelHost.
  void channel_data(wire::ChannelId id, base::Bytes data) override;
  void channel_end(wire::ChannelId id) override;
  void channel_reset(wire::ChannelId id, const Error& reason) override;
  void channel_credit(wire::ChannelId id, std::size_t bytes) override;
  void channel_done(wire::ChannelId id) override;
  [[nodiscard]] std::size_t channel_waiting(wire::ChannelId id) const override;

 private:
  /// Of the session; the connection's is linked_.
  enum class Phase { hello, ready, closed };

  /// A request of ours.
  struct Outgoing {
    base::OneShot<Message> done;  ///< empty once the caller gave up; the answer is still awaited
    base::TimerId timer;
    std::size_t body_size = 0;
    Message answer;          ///< fragments so far
    bool answering = false;  ///< its first fragment is there
  };
  /// A request of the peer's.
  struct Incoming {
    Message message;  ///< fragments so far; given away when whole
    bool whole = false;
    bool cancelled = false;
    std::size_t body_size = 0;
    base::Task on_cancel;
  };
  struct Queued {
    wire::RequestId id;
    Message message;
  };

  Result<void> receive(const wire::Frame& frame);
  Result<void> receive_unnumbered(const wire::Frame& frame);
  Result<void> receive_hello(const wire::Frame& frame);
  Result<void> receive_first_hello();
  Result<void> receive_resumed();
  Result<void> receive_ack(const wire::Frame& frame);
  Result<void> receive_request(const wire::Frame& frame);
  Result<void> receive_response(const wire::Frame& frame);
  Result<void> receive_cancel(const wire::Frame& frame);
  Result<void> receive_open(const wire::Frame& frame);
  Result<void> receive_channel(const wire::Frame& frame);
  Result<void> receive_goodbye(const wire::Frame& frame);
  Result<void> check_sequence(const wire::Frame& frame);
  void finish_response(wire::RequestId id, bool failed);

  void send_waiting_requests();
  void pump();
  bool pump_one();
  void send_frame(OutFrame frame);
  void send_unnumbered(wire::FrameType type, std::uint64_t channel, base::BytesView head);
  bool send_link_frame();
  void send_message(base::Bytes message);

  // The connection (session_link.cpp).
  void stop_timers();
  void arm_hello_timer();
  void arm_liveness();
  void link_up();
  void drop_link();
  void lose_link(const Error& reason);
  [[nodiscard]] bool outlives_connections() const;
  void count_received(std::size_t bytes);
  void fail_request(wire::RequestId id, const Error& error);
  void end(const Error& reason);
  void end_requests(const Error& reason);
  void deliver(wire::RequestId id);
  void forget_incoming(wire::RequestId id);

  base::Loop& loop_;
  std::unique_ptr<net::Transport> transport_;  ///< null while there is no connection
  bool linked_ = false;                        ///< hellos are exchanged on this connection
  SessionOptions options_;
  Session::Handler* handler_;
  Phase phase_ = Phase::hello;
  wire::Hello peer_hello_;
  std::string peer_;

  Scheduler scheduler_;
  FragmentSizer sizer_;
  Liveness liveness_;
  base::TimerId liveness_timer_;
  base::TimerId hello_timer_;
  Retransmission sent_;
  std::uint64_t received_sequence_ = 0;
  std::uint64_t fence_ = 0;  ///< of the present connection

  // Of the connection: frames that are not numbered, each of which makes an earlier one of its kind needless.
  std::optional<std::uint64_t> ping_;
  std::optional<std::uint64_t> pong_;
  bool ack_due_ = false;
  std::size_t unacknowledged_ = 0;  ///< bytes that came since our last ack
  base::TimerId ack_timer_;
  bool pumping_ = false;

  std::uint64_t last_request_ = 0;
  std::unordered_map<wire::RequestId, Outgoing> outgoing_;
  std::deque<Queued> waiting_;  ///< not sent: before the hello, or beyond the peer's limits
  std::size_t sent_requests_ = 0;
  std::size_t sent_bodies_ = 0;
  std::unordered_map<wire::RequestId, Incoming> incoming_;
  std::size_t incoming_bodies_ = 0;
  bool backlogged_ = false;

  std::uint64_t next_channel_;
  std::uint64_t last_peer_channel_ = 0;
  std::unordered_map<wire::ChannelId, std::shared_ptr<ChannelCore>> channels_;
  SessionStats stats_;
};

}  // namespace sandbar::mux
