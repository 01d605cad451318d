// SPDX-License-Identifier: Apache-2.0
// A session after one that was lost: what goes out again, what fails, and how ids are bound again.
#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/thread_check.h"
#include "client/remote_files.h"
#include "wire/codec.h"

namespace sandbar::client {
namespace {

Error unknown(const char* why) { return make_error(Errc::unknown, "", why); }

/// Succeeds without having done anything, in the words of the agent: for what is over with its session.
RemoteFs::AnyAnswer nothing_done() { return {wire::EmptyReply{}, {}, {}}; }

bool is_command(const wire::RequestBody& request) {
  const ResendRule rule = resend_rule(request);
  return rule.known == Resend::unknown && rule.forgotten == Resend::unknown;
}

}  // namespace

// --- The end of a session --------------------------------------------------------------------------------------

std::vector<CallId> RemoteFiles::all_calls() const {
  std::vector<CallId> all;
  all.reserve(calls_.size());
  for (const auto& [id, call] : calls_) all.push_back(id);
  return all;
}

void RemoteFiles::finish_later(CallId id, Result<AnyAnswer> answer) {
  const auto at = calls_.find(id);
  Call call = std::move(at->second);
  calls_.erase(at);
  loop_.cancel(call.timer);
  note(call.request, answer);
  loop_.post([done = std::move(call.done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
}

void RemoteFiles::pause() {
  SANDBAR_ON_LOOP(loop_);
  SANDBAR_ASSERT(waits());  // else nothing was kept
  if (session_ == nullptr) return;
  session_ = nullptr;
  ++session_number_;
  ++state_.sessions_lost;
  state_.phase = ConnectionState::Phase::lost;
  bindings_.session_lost();
  locks_.lose_all();
  settling_.clear();
  for (const CallId id : all_calls()) {
    Call& call = calls_.at(id);
    call.sent_as = {};
    if (is_command(call.request.body))
      finish_later(id, unknown("the session with the sandbox was lost; it is not known whether this was done"));
  }
}

void RemoteFiles::give_up(const Error& reason) {
  SANDBAR_ON_LOOP(loop_);
  if (waits()) pause();
  session_ = nullptr;
  given_up_ = reason;
  for (const CallId id : all_calls()) finish_later(id, reason);
}

// --- A new one -------------------------------------------------------------------------------------------------

/// Whether the agent knows what became of this client's mutations. That it has begun fewer than it has answered means
/// that the sandbox went back in time, and more than were sent, that it speaks of somebody else's.
bool RemoteFiles::remembers(const wire::Hello& now) const {
  if (!numbers_mutations_ || !now.journal_known || now.agent != hello_.agent) return false;
  return now.last_mutation >= answered_ && now.last_mutation <= last_mutation_;
}

wire::MutationNumber RemoteFiles::last_settled() const {
  for (const auto& [id, call] : calls_)
    if (const auto number = call.request.context.mutation) return wire::MutationNumber(number.value - 1);
  return last_mutation_;
}

void RemoteFiles::restart(mux::Session& session) {
  SANDBAR_ON_LOOP(loop_);
  pause();
  given_up_.reset();
  const bool known = remembers(session.peer_hello());
  session_ = &session;
  hello_ = session.peer_hello();
  state_.phase = ConnectionState::Phase::connected;
  fail_unknown(known);
  if (!known) number_anew();
  next_number_ = hello_.last_mutation.value + 1;
  if (known) {
    std::vector<CallId> begun;
    for (const auto& [id, call] : calls_)
      if (call.request.context.mutation && call.request.context.mutation <= hello_.last_mutation &&
          changes_names(call.request.body))
        begun.push_back(id);
    settling_.insert(begun.begin(), begun.end());
    for (const CallId id : begun) send(id, calls_.at(id));
  }
  if (settling_.empty()) send_rest();
}

void RemoteFiles::fail_unknown(bool known) {
  for (const CallId id : all_calls()) {
    const Call& call = calls_.at(id);
    if (!call.was_sent) continue;
    const ResendRule rule = resend_rule(call.request.body);
    const wire::MutationNumber number = call.request.context.mutation;
    // They are executed in order: one below an answered one has been, and what came behind it must not be undone.
    const bool is_over = !known && number && number < answered_;
    if (is_over || (known ? rule.known : rule.forgotten) == Resend::unknown)
      finish_later(id, unknown("the session with the sandbox was lost, and with it what became of this"));
  }
}

/// The agent's memory is gone: what is left of the mutations counts on from what it has.
void RemoteFiles::number_anew() {
  if (!numbers_mutations_) return;
  std::map<wire::MutationNumber, wire::MutationNumber> renumbered;
  last_mutation_ = hello_.last_mutation;
  for (auto& [id, call] : calls_) {
    wire::RequestContext& context = call.request.context;
    if (context.after) {
      // What it waits for: the last one that is still to come, or nothing.
      const auto behind = renumbered.upper_bound(context.after);
      context.after = behind == renumbered.begin() ? wire::MutationNumber() : std::prev(behind)->second;
    }
    if (!context.mutation) continue;
    last_mutation_ = wire::MutationNumber(last_mutation_.value + 1);
    renumbered[context.mutation] = last_mutation_;
    context.mutation = last_mutation_;
  }
  answered_ = hello_.last_mutation;
}

void RemoteFiles::settled(CallId id) {
  if (settling_.erase(id) == 0 || !settling_.empty() || session_ == nullptr) return;
  send_rest();
}

void RemoteFiles::send_rest() {
  for (const CallId id : all_calls()) {
    const auto at = calls_.find(id);
    if (at == calls_.end() || at->second.sent_as) continue;
    const std::uint64_t number = at->second.request.context.mutation.value;
    fill_numbers(number);
    next_number_ = std::max(next_number_, number + 1);
    send(id, at->second);
  }
  if (numbers_mutations_) fill_numbers(last_mutation_.value + 1);
}

/// Numbers whose requests were given up: the agent waits for each.
void RemoteFiles::fill_numbers(std::uint64_t before) {
  for (; next_number_ < before; ++next_number_) use_up(wire::MutationNumber(next_number_));
}

/// Takes the number and changes nothing: object 0 is none.
void RemoteFiles::use_up(wire::MutationNumber number) {
  wire::Request filler{{}, wire::Unlink{}};
  filler.context.mutation = number;
  transmit({wire::encode_request(filler), {}}, [](const Result<mux::Message>&) {});
}

// --- Requests in a new session ---------------------------------------------------------------------------------

bool RemoteFiles::prepare(CallId id, Call& call) {
  if (!waits()) return true;
  std::optional<Result<AnyAnswer>> at_once;
  const bool on_record =
      call.was_sent && call.request.context.mutation && call.request.context.mutation <= hello_.last_mutation;
  if (goes_by_spoilt(call.request.body))
    at_once = os_error(EIO, wire::request_name(call.request.body), "a lock was lost with the session; close the file");
  else if (needs_nothing(call.request.body))
    at_once = nothing_done();
  else if (Result<void> bound = bind_ids(call.request.body); !bound && !on_record)
    at_once = std::move(bound).error();
  if (!at_once) return true;
  if (call.request.context.mutation) use_up(call.request.context.mutation);
  settling_.erase(id);
  finish_later(id, std::move(*at_once));
  return false;
}

/// Whether the request goes through a handle whose lock is lost. One that names the object, too, and does not depend on
/// the lock, goes on by that.
bool RemoteFiles::goes_by_spoilt(wire::RequestBody& request) const {
  const UsedIds used = used_ids(request);
  if (std::none_of(used.handles.begin(), used.handles.end(), [this](auto id) { return locks_.is_spoilt(id); }))
    return false;
  if (std::holds_alternative<wire::Close>(request)) return false;
  if (const auto* lock = std::get_if<wire::Lock>(&request)) return lock->type != wire::LockType::unlock;
  if (auto* get = std::get_if<wire::GetAttributes>(&request); get != nullptr && get->object) {
    get->handle = {};
    return false;
  }
  if (auto* set = std::get_if<wire::SetAttributes>(&request); set != nullptr && set->object && !set->size) {
    set->handle = {};
    return false;
  }
  return true;
}

/// What ends an id, or gives back a lock, that this session does not know. Of a release the ids that it knows stay.
bool RemoteFiles::needs_nothing(const wire::RequestBody& request) const {
  if (const auto* close = std::get_if<wire::Close>(&request)) return !bindings_.is_bound(close->handle);
  if (const auto* lock = std::get_if<wire::Lock>(&request))
    return lock->type == wire::LockType::unlock && !bindings_.is_bound(lock->handle);
  const auto* release = std::get_if<wire::Release>(&request);
  if (release == nullptr) return false;
  return std::none_of(release->objects.begin(), release->objects.end(),
                      [this](wire::ObjectId id) { return bindings_.is_bound(id); });
}

Result<void> RemoteFiles::bind_ids(const wire::RequestBody& request) {
  std::vector<wire::RequestBody> first;
  Result<void> bound;
  const UsedIds used = used_ids(request);
  for (const wire::ObjectId object : used.objects)
    if (bound && object) bound = bindings_.restore(object, first);
  for (const wire::HandleId handle : used.handles)
    if (bound && handle) bound = bindings_.restore(handle, first);
  for (const wire::RequestBody& each : first) send_binding(each);
  return bound;
}

void RemoteFiles::send_binding(const wire::RequestBody& request) {
  transmit({wire::encode_request({{}, request}), {}}, [this, alive = std::weak_ptr(alive_), request,
                                                       session = session_number_](const Result<mux::Message>& reply) {
    if (alive.expired() || session != session_number_ || session_ == nullptr || reply) return;
    if (reply.error().code != Errc::disconnected) on_binding_failed(request);
  });
}

/// The agent keeps an id that could not be bound, to fail what names it. It is given back, so that the next request
/// tries anew: what was moved away may come back, and descriptors may be free then.
void RemoteFiles::on_binding_failed(const wire::RequestBody& request) {
  wire::RequestBody undo;
  if (const auto* restore = std::get_if<wire::Restore>(&request)) {
    bindings_.unbound(restore->object);
    undo = wire::Release{{restore->object}};
  } else if (const auto* open = std::get_if<wire::Open>(&request)) {
    bindings_.unbound(open->handle);
    undo = wire::Close{open->handle};
  } else {
    return;
  }
  transmit({wire::encode_request({{}, undo}), {}}, [](const Result<mux::Message>&) {});
}

}  // namespace sandbar::client
