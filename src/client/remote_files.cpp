// SPDX-License-Identifier: Apache-2.0
#include "client/remote_files.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/thread_check.h"
#include "wire/codec.h"
#include "wire/limits.h"

namespace sandbar::client {
namespace {

/// Why the request cannot go out: its agent would close the whole connection over it.
std::string too_large(const base::Bytes& head, const base::Bytes& body) {
  if (head.size() > wire::kMaxHead) return "its fields take " + std::to_string(head.size()) + " bytes";
  if (body.size() > wire::kMaxBody) return "its data takes " + std::to_string(body.size()) + " bytes";
  return {};
}

Error disconnected() { return make_error(Errc::disconnected, "", "the connection to the sandbox is lost"); }

}  // namespace

Result<RemoteFs::AnyAnswer> decode_answer(mux::Message message) {
  auto reply = wire::decode_reply(message.head);
  if (!reply) return std::move(reply).error();
  return RemoteFs::AnyAnswer{std::move(reply->body), std::move(message.body), reply->change};
}

RemoteFiles::RemoteFiles(base::Loop& loop, mux::Session& session, bool numbers_mutations, OnLoss on_loss)
    : loop_(loop),
      session_(&session),
      numbers_mutations_(numbers_mutations),
      on_loss_(on_loss),
      hello_(session.peer_hello()),
      last_mutation_(numbers_mutations ? hello_.last_mutation : wire::MutationNumber()),
      answered_(last_mutation_) {}

RemoteFiles::~RemoteFiles() {
  alive_.reset();
  Calls calls = std::exchange(calls_, {});
  for (auto& [id, call] : calls) {
    loop_.cancel(call.timer);
    call.done(disconnected());
  }
}

CallId RemoteFiles::refuse(base::OneShot<AnyAnswer> done, Error error) {
  loop_.post([done = std::move(done), error = std::move(error)]() mutable { done(std::move(error)); });
  return CallId();
}

CallId RemoteFiles::submit(wire::RequestContext context, wire::RequestBody request, base::Bytes body,
                           CallOptions options, base::OneShot<AnyAnswer> done) {
  SANDBAR_ON_LOOP(loop_);
  if (given_up_) return refuse(std::move(done), *given_up_);
  // Its channels belong to a session.
  if (session_ == nullptr && std::holds_alternative<wire::Spawn>(request))
    return refuse(std::move(done), disconnected());
  const bool numbered = numbers_mutations_ && wire::is_mutation(request);
  context.mutation = numbered ? wire::MutationNumber(last_mutation_.value + 1) : wire::MutationNumber();
  if (numbered && !context.mutation)
    return refuse(std::move(done), make_error(Errc::protocol, "number a mutation", "the agent's numbers are used up"));
  // One of an earlier numbering would never be done.
  if (state_.sessions_lost != 0) context.after = std::min(context.after, last_mutation_);
  wire::Request envelope{std::move(context), std::move(request)};
  if (const std::string why = too_large(wire::encode_request(envelope), body); !why.empty())
    return refuse(std::move(done), make_error(Errc::limit, wire::request_name(envelope.body), why));
  // Only now: a number that never goes out would leave a gap, and the agent executes without one.
  if (numbered) last_mutation_ = envelope.context.mutation;
  const CallId id(++last_call_);
  const bool is_spawn = std::holds_alternative<wire::Spawn>(envelope.body);
  Call& call =
      calls_.emplace(id, Call{std::move(envelope), std::move(body), std::move(done), {}, {}, false}).first->second;
  if (options.timeout > base::Duration::zero())
    call.timer = loop_.schedule(options.timeout, [this, alive = std::weak_ptr(alive_), id] {
      if (!alive.expired()) expire(id);
    });
  if (is_going() || is_spawn) send(id, call);
  return id;
}

wire::RequestId RemoteFiles::transmit(mux::Message message, base::OneShot<mux::Message> done) {
  return session_->request(std::move(message), {}, std::move(done));
}

void RemoteFiles::send(CallId id, Call& call) {
  if (!prepare(id, call)) return;
  call.was_sent = true;
  mux::Message message{wire::encode_request(call.request), waits() ? call.body : std::move(call.body)};
  call.sent_as = transmit(std::move(message), [this, alive = std::weak_ptr(alive_), id,
                                               session = session_number_](Result<mux::Message> reply) {
    // One that comes late, from a session that is over, was dealt with at its end.
    if (!alive.expired() && session == session_number_) on_answer(id, std::move(reply));
  });
}

void RemoteFiles::on_answer(CallId id, Result<mux::Message> message) {
  const auto at = calls_.find(id);
  if (at == calls_.end()) return;
  Call& call = at->second;
  if (!message && message.error().code == Errc::disconnected && waits()) {
    call.sent_as = {};  // the session is over, or about to be
    return;
  }
  Result<AnyAnswer> answer = message ? decode_answer(std::move(message).value()) : Result<AnyAnswer>(message.error());
  // What was refused by the system, too, has had its turn.
  if (answer || answer.error().code == Errc::os) answered_ = std::max(answered_, call.request.context.mutation);
  finish(at, std::move(answer));
}

void RemoteFiles::finish(Calls::iterator at, Result<AnyAnswer> answer) {
  const CallId id = at->first;
  Call call = std::move(at->second);
  calls_.erase(at);
  loop_.cancel(call.timer);
  if (waits()) note(call.request, answer);
  settled(id);
  call.done(std::move(answer));  // may be our end
}

/// Out of the table, for its caller; the agent is told.
std::optional<RemoteFiles::Call> RemoteFiles::take(CallId id) {
  const auto at = calls_.find(id);
  if (at == calls_.end()) return std::nullopt;
  Call call = std::move(at->second);
  calls_.erase(at);
  loop_.cancel(call.timer);
  if (waits()) note(call.request, make_error(Errc::cancelled, ""));
  if (session_ != nullptr && call.sent_as) session_->cancel(call.sent_as);
  return call;
}

void RemoteFiles::expire(CallId id) {
  std::optional<Call> call = take(id);
  if (!call) return;
  settled(id);
  call->done(make_error(Errc::timeout, ""));
}

void RemoteFiles::cancel(CallId id) {
  SANDBAR_ON_LOOP(loop_);
  std::optional<Call> call = take(id);
  if (!call) return;
  refuse(std::move(call->done), make_error(Errc::cancelled, ""));
  settled(id);
}

void RemoteFiles::connection_resumed() {
  state_.phase = ConnectionState::Phase::connected;
  ++state_.resumes;
}

}  // namespace sandbar::client
