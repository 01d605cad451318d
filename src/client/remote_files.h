// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "client/bindings.h"
#include "client/held_locks.h"
#include "client/remote_fs.h"
#include "client/resend.h"
#include "mux/session.h"

namespace sandbar::client {

/// What happens to requests when the session is lost.
enum class OnLoss {
  fail,  ///< Errc::disconnected
  wait,  ///< they wait for restart() or give_up()
};

/// RemoteFs over mux sessions, one after the other: encodes requests, numbers mutations, decodes replies. With
/// OnLoss::wait it remembers what a new session needs: unanswered requests, and how ids were bound.
///
/// A lost session, told by its owner: pause() when it has ended, then restart() with another, or give_up(). In between
/// requests wait in order; their deadlines count and cancel() works. In the new session
/// - what was unanswered goes out again, or fails, by the rules of resend.h;
/// - ids are bound again when the first request that names them goes out, ahead of it and without waiting for it;
/// - handles whose owner has lost a lock fail with EIO until they are closed.
///
/// On the loop's thread. Each session must last until pause(), restart() or the end of this.
class RemoteFiles final : public RemoteFs {
 public:
  /// `numbers_mutations`: the session's hello named a journal. Mutations then count on, in the order in which they are
  /// submitted, from the last one that the agent knows (1 for a new journal).
  RemoteFiles(base::Loop& loop, mux::Session& session, bool numbers_mutations, OnLoss on_loss = OnLoss::fail);
  /// What is unanswered fails with Errc::disconnected.
  ~RemoteFiles() override;

  CallId submit(wire::RequestContext context, wire::RequestBody request, base::Bytes body, CallOptions options,
                base::OneShot<AnyAnswer> done) override;
  void cancel(CallId call) override;
  [[nodiscard]] const wire::Hello& agent() const override { return hello_; }
  [[nodiscard]] ConnectionState state() const override { return state_; }

  // --- What becomes of the session; with OnLoss::wait, but for give_up() ---

  /// The connection is broken, and the session waits for another; it has one.
  void connection_broken() { state_.phase = ConnectionState::Phase::connecting; }
  void connection_resumed();
  /// The session has ended and is not used any more. Locks are lost with it, and so are commands: their requests fail
  /// with Errc::unknown at once.
  void pause();
  /// Goes on in a session that is ready.
  void restart(mux::Session& session);
  /// The session was resumed, but the agent has given its locks back meanwhile.
  void locks_lost() { locks_.lose_all(); }
  /// There will be no session: what waits, and what comes, fails with `reason`.
  void give_up(const Error& reason);

  /// The number that the last submitted mutation got; none before the first.
  [[nodiscard]] wire::MutationNumber last_mutation() const { return last_mutation_; }
  /// For the hello of a session that is to follow (Hello::last_answered): no mutation up to this one is sent again.
  [[nodiscard]] wire::MutationNumber last_settled() const;
  [[nodiscard]] Bindings::Counts known() const { return bindings_.counts(); }

 private:
  struct Call {
    wire::Request request;
    base::Bytes body;
    base::OneShot<AnyAnswer> done;
    base::TimerId timer;
    wire::RequestId sent_as;  ///< in the session of now; 0: waits
    bool was_sent = false;    ///< in any session
  };
  using Calls = std::map<CallId, Call>;

  [[nodiscard]] bool waits() const { return on_loss_ == OnLoss::wait; }
  [[nodiscard]] bool is_going() const { return session_ != nullptr && settling_.empty(); }

  // remote_files.cpp
  CallId refuse(base::OneShot<AnyAnswer> done, Error error);
  void expire(CallId id);
  void send(CallId id, Call& call);
  wire::RequestId transmit(mux::Message message, base::OneShot<mux::Message> done);
  void on_answer(CallId id, Result<mux::Message> message);
  void finish(Calls::iterator at, Result<AnyAnswer> answer);
  [[nodiscard]] std::optional<Call> take(CallId id);

  // remote_files_notes.cpp: what is remembered of answers
  void note(const wire::Request& request, const Result<AnyAnswer>& answer);
  void note_success(const wire::RequestBody& request, const AnyAnswer& answer);
  void note_entries(const wire::List& request, base::BytesView body);

  // remote_files_restart.cpp
  /// Makes a request fit for this session: true if it is to be sent. Else it has been finished.
  bool prepare(CallId id, Call& call);
  bool goes_by_spoilt(wire::RequestBody& request) const;
  [[nodiscard]] bool needs_nothing(const wire::RequestBody& request) const;
  Result<void> bind_ids(const wire::RequestBody& request);
  void send_binding(const wire::RequestBody& request);
  void on_binding_failed(const wire::RequestBody& request);
  void finish_later(CallId id, Result<AnyAnswer> answer);
  [[nodiscard]] bool remembers(const wire::Hello& now) const;
  [[nodiscard]] std::vector<CallId> all_calls() const;
  void fail_unknown(bool known);
  void number_anew();
  void settled(CallId id);
  void send_rest();
  void fill_numbers(std::uint64_t before);
  void use_up(wire::MutationNumber number);

  base::Loop& loop_;
  mux::Session* session_;  ///< none between two
  const bool numbers_mutations_;
  const OnLoss on_loss_;
  wire::Hello hello_;
  ConnectionState state_;
  std::optional<Error> given_up_;

  std::uint64_t last_call_ = 0;
  Calls calls_;  ///< in the order of their submission
  wire::MutationNumber last_mutation_;
  wire::MutationNumber answered_;  ///< the highest that is certainly finished
  std::uint64_t next_number_ = 0;  ///< in send_rest(): the agent waits for this one

  Bindings bindings_;
  HeldLocks locks_;
  std::uint32_t session_number_ = 1;
  /// Mutations that are on record as begun and change names: until they are answered it is not known where things are,
  /// and all else waits.
  std::set<CallId> settling_;
  std::shared_ptr<const int> alive_ = std::make_shared<const int>(0);  // answers and timers hold it weakly
};

/// The typed form of a reply; Errc::protocol where its head does not decode.
Result<RemoteFs::AnyAnswer> decode_answer(mux::Message message);

}  // namespace sandbar::client
