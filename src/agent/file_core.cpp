// SPDX-License-Identifier: Apache-2.0
#include "agent/file_core.h"

#include <cerrno>
#include <utility>

#include "base/thread_check.h"
#include "wire/codec.h"

namespace sandbar::agent {
namespace {

/// What is recorded of an answer. A mutation's has no body.
MutationResult recorded_form(const FileResult& result, wire::ChangeNumber change) {
  if (!result) return {ResultKind::error, wire::encode_error(result.error())};
  SANDBAR_ASSERT(result->body.empty());
  return {ResultKind::reply, wire::encode_reply({change, result->reply})};
}

/// The answer again; `change` counts in this start of the agent, which the recorded one need not.
Result<FileAnswer> answer_from(const MutationResult& recorded, wire::ChangeNumber change) {
  if (recorded.kind == ResultKind::reply) {
    auto reply = wire::decode_reply(recorded.head);
    if (!reply) return std::move(reply).error();
    reply->change = change;
    return FileAnswer{std::move(reply).value(), {}};
  }
  Error error;
  if (auto read = wire::decode_error(recorded.head, error); !read) return std::move(read).error();
  return error;
}

/// On a worker: the beginning is recorded before, and the result before anybody hears of it.
PerformedFile perform_mutation(const FileJob& job, JournalStore& store, const std::string& journal) {
  const wire::MutationNumber number = job.request.context.mutation;
  const Result<void> begun = store.begin(journal, number);
  PerformedFile performed =
      begun ? perform_file_request(job) : PerformedFile{FileResult(begun.error()), job.root.change()};
  store.finish(journal, number, recorded_form(performed.result, performed.change));
  return performed;
}

}  // namespace

FileCore::FileCore(base::Loop& loop, Root& root, WorkerPool& pool, Journals& journals, std::string journal_id)
    : loop_(loop),
      root_(root),
      pool_(pool),
      journals_(journals),
      journal_id_(std::move(journal_id)),
      locks_(std::make_shared<SessionLocks>(loop, root, pool)) {
  if (!journal_id_.empty()) journals_.hold(journal_id_);
}

FileCore::~FileCore() {
  SANDBAR_ON_LOOP(loop_);
  for (auto& [id, call] : calls_) {
    const wire::MutationNumber number = call.job->request.context.mutation;
    if (call.turn == Turn::waiting) journals_.abandon(call.place);
    // A running one's number is settled when its worker is done; one that still waited for an id can be sent again.
    if (call.turn == Turn::begun && !call.running) journals_.give_back(journal_id_, number);
    journals_.stop_waiting(call.after);
  }
  if (!journal_id_.empty()) journals_.let_go(journal_id_);
  // As in bury_dropped().
  pool_.submit([objects = std::move(objects_), handles = std::move(handles_)] {});
}

FileCallId FileCore::submit(wire::Request request, base::Bytes body, base::OneShot<FileAnswer> done) {
  SANDBAR_ON_LOOP(loop_);
  const FileCallId id(++last_call_);
  Call& call = calls_[id];
  call.names = wire::names_of(request.body);
  call.job = std::make_shared<FileJob>(FileJob{root_, std::move(request), std::move(body), {}});
  call.done = std::move(done);
  reserve(call);
  pass_gate(id, call);
  return id;
}

/// Marks the ids that the request names and binds, at the time of its arrival.
void FileCore::reserve(Call& call) {
  wire::RequestNames& names = call.names;
  const auto refuse = [&call](Error error) {
    if (!call.failure) call.failure = std::move(error);
  };
  if (calls_.size() > kMaxCalls) refuse(make_error(Errc::limit, "take a request", "too many are under way"));
  if (objects_.size() >= kMaxObjects)
    refuse(make_error(Errc::limit, "take a request", "too many objects are bound: release some"));
  const bool has_object = static_cast<bool>(names.objects[0]);
  const bool has_handle = static_cast<bool>(names.handles[0]);
  for (std::size_t i = 0; i < names.object_count; ++i) {
    if (names.either && has_handle && !has_object) continue;
    call.uses_object[i] = objects_.use(names.objects[i]);
    if (!call.uses_object[i]) refuse(os_error(ESTALE, "find an object", "its id was released"));
  }
  for (std::size_t i = 0; i < names.handle_count; ++i) {
    if (names.either && !has_handle) continue;
    call.uses_handle[i] = handles_.use(names.handles[i]);
    if (!call.uses_handle[i]) refuse(os_error(EBADF, "find an open file", "it was closed"));
  }
  if (call.failure) return;
  if (names.binds_one_object) {
    call.binds_object = names.binds_object && objects_.begin_bind(names.binds_object);
    if (!call.binds_object) return refuse(make_error(Errc::protocol, "bind an object", "its id is 0 or in use"));
  }
  if (names.binds_one_handle) {
    call.binds_handle = names.binds_handle && handles_.begin_bind(names.binds_handle);
    if (!call.binds_handle) return refuse(make_error(Errc::protocol, "bind an open file", "its id is 0 or in use"));
  }
  if (names.closes) handles_.release(names.handles[0]);
}

void FileCore::pass_gate(FileCallId id, Call& call) {
  const wire::RequestContext& context = call.job->request.context;
  auto passed = [weak = weak_from_this(), id](Result<void> result) {
    if (const auto self = weak.lock()) self->on_gate(id, std::move(result));
  };
  const bool ordered = context.mutation || context.after;
  const bool impossible =
      (ordered && journal_id_.empty()) ||
      (context.mutation && (context.after >= context.mutation || !wire::is_mutation(call.job->request.body)));
  if (impossible && !call.failure)
    call.failure = make_error(Errc::protocol, "order a request", "its kind, journal, number and `after` do not fit");
  if (context.mutation && !journal_id_.empty()) {
    enter_journal(id, call);
  } else if (context.after && !impossible) {
    call.after = journals_.when_finished(journal_id_, context.after, std::move(passed));
  } else if (call.failure) {
    loop_.post([passed = std::move(passed)]() mutable { passed({}); });
  } else {
    look_at(id);
  }
}

void FileCore::enter_journal(FileCallId id, Call& call) {
  const wire::RequestBody& body = call.job->request.body;
  const wire::MutationNumber number = call.job->request.context.mutation;
  auto turn = [weak = weak_from_this(), journals = journals_.weak(), journal_id = journal_id_, number,
               id](Result<MutationTurn> result) {
    if (const auto self = weak.lock()) return self->on_turn(id, std::move(result));
    const auto known = journals.lock();
    if (known && result && !result->repeated) known->give_back(journal_id, number);
  };
  call.turn = Turn::waiting;
  call.place = journals_.enter(journal_id_, number, !call.failure && may_execute_twice(body), std::move(turn));
}

void FileCore::on_gate(FileCallId id, Result<void> passed) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  it->second.after = {};
  if (!passed) return fail(id, std::move(passed).error());
  look_at(id);
}

void FileCore::on_turn(FileCallId id, Result<MutationTurn> turn) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call& call = it->second;
  call.turn = turn && !turn->repeated ? Turn::begun : Turn::none;
  if (!turn && turn.error().code == Errc::cancelled)
    return fail(id, make_error(Errc::cancelled, "handle a request", "given up before it began"));
  if (!turn) return fail(id, std::move(turn).error());
  call.repeated = std::move(turn->repeated);
  look_at(id);
}

void FileCore::look_at(FileCallId id) {
  ready_.push_back(id);
  drain_ready();
}

/// One at a time, however they wake each other: a chain of thousands of requests must not become as many frames.
void FileCore::drain_ready() {
  if (draining_) return;
  draining_ = true;
  while (!ready_.empty()) {
    const FileCallId id = ready_.front();
    ready_.pop_front();
    const auto it = calls_.find(id);
    if (it == calls_.end() || it->second.running) continue;
    if (it->second.repeated && !answer_again(id, it->second)) continue;
    if (it->second.failure)
      fail(id, std::move(*it->second.failure));
    else if (names_ready(id, it->second) && close_ready(id, it->second))
      start(id, it->second);
  }
  draining_ = false;
}

/// One that was done before. True when ids are to be bound as it did then, for which its names are needed; what goes
/// wrong from there on is the ids' error, and not the answer's.
bool FileCore::answer_again(FileCallId id, Call& call) {
  if (call.failure && call.failure->code != Errc::os) {
    call.repeated.reset();  // the sender's fault, or ours, now
    return true;
  }
  const bool binds = call.names.binds_one_object || call.names.binds_one_handle;
  Result<FileAnswer> before = answer_from(*call.repeated, root_.change());
  if (!before || !binds) {
    finish(id, before ? FileResult(FileOutcome{}) : FileResult(std::move(before).error()), root_.change());
    return false;
  }
  if (const auto* reply = std::get_if<wire::AttributesReply>(&before->reply.body)) {
    call.job->known = reply->attributes;
    return true;
  }
  call.repeated.reset();
  fail(id, make_error(Errc::protocol, "repeat a mutation", "its number is another request's"));
  return false;
}

/// False when the request waits for an id, or has failed for one; else its targets are filled in.
bool FileCore::names_ready(FileCallId id, Call& call) {
  const auto ready = [&](auto& table, auto key, auto& target, int missing) {
    auto* entry = table.find(key);
    using State = typename std::decay_t<decltype(table)>::State;
    if (entry != nullptr && entry->state == State::bound) {
      target = entry->value;
      return true;
    }
    if (entry != nullptr && entry->state == State::pending) {
      entry->waiters.push_back(id);
      return false;
    }
    fail(id, entry != nullptr && entry->state == State::failed ? entry->error
                                                               : os_error(missing, "find what the request names"));
    return false;
  };
  FileTargets& targets = call.job->targets;
  const std::array objects{&targets.object, &targets.second, &targets.third};
  const std::array files{&targets.file, &targets.second_file};
  // A failed one is gone from the table: nothing of `call` may be touched after a false.
  for (std::size_t i = 0; i < objects.size(); ++i)
    if (call.uses_object[i] && !ready(objects_, call.names.objects[i], *objects[i], ESTALE)) return false;
  for (std::size_t i = 0; i < 2; ++i)
    if (call.uses_handle[i] && !ready(handles_, call.names.handles[i], *files[i], EBADF)) return false;
  return true;
}

bool FileCore::close_ready(FileCallId id, Call& call) {
  if (!call.names.closes) return true;
  const wire::HandleId handle = call.names.handles[0];
  HandleTable::Entry& entry = *handles_.find(handle);
  if (entry.uses == 1) {
    entry.value = nullptr;  // the request's target is the only reference from here on
    return true;
  }
  closers_[handle] = id;
  return false;
}

void FileCore::start(FileCallId id, Call& call) {
  call.running = true;
  const wire::RequestBody& body = call.job->request.body;
  if (const auto* release = std::get_if<wire::Release>(&body)) {
    for (const wire::ObjectId object : release->objects) objects_.release(object);
    return finish(id, FileOutcome{}, root_.change());
  }
  if (const auto* lock = std::get_if<wire::Lock>(&body)) return run_lock(id, call, *lock);
  if (const auto* test = std::get_if<wire::TestLock>(&body)) return run_test_lock(id, call, *test);
  run_on_worker(id, call);
}

void FileCore::run_on_worker(FileCallId id, Call& call) {
  const wire::MutationNumber number =
      call.turn == Turn::begun ? call.job->request.context.mutation : wire::MutationNumber();
  call.turn = Turn::none;  // the completion settles it, also when we are gone
  pool_.submit([weak = weak_from_this(), &loop = loop_, journals = journals_.weak(), store = journals_.store(),
                journal_id = journal_id_, number, id, job = call.job]() mutable {
    auto performed = std::make_shared<PerformedFile>(number ? perform_mutation(*job, *store, journal_id)
                                                            : perform_file_request(*job));
    job->targets = {};  // here, and not on the loop: it may be the last reference, and so a close(2)
    loop.post([weak = std::move(weak), journals = std::move(journals), journal_id = std::move(journal_id), number, id,
               performed = std::move(performed)] {
      if (const auto known = journals.lock(); known && number) known->finished(journal_id, number);
      if (const auto self = weak.lock()) self->on_performed(id, std::move(*performed));
    });
  });
}

void FileCore::run_lock(FileCallId id, Call& call, const wire::Lock& request) {
  if (Result<void> allowed = root_.identities().allowed(call.job->request.context.caller); !allowed)
    return fail(id, std::move(allowed).error());
  call.lock = locks_->lock(call.job->targets.file, request, [weak = weak_from_this(), id](Result<void> done) {
    const auto self = weak.lock();
    if (!self) return;
    if (!done) return self->fail(id, std::move(done).error());
    self->finish(id, FileOutcome{}, self->root_.change());
  });
}

void FileCore::run_test_lock(FileCallId id, Call& call, const wire::TestLock& request) {
  locks_->test(call.job->targets.file, request, [weak = weak_from_this(), id](Result<wire::TestLock::Reply> reply) {
    const auto self = weak.lock();
    if (!self) return;
    if (!reply) return self->fail(id, std::move(reply).error());
    FileOutcome outcome;
    outcome.reply = *reply;
    self->finish(id, std::move(outcome), self->root_.change());
  });
}

void FileCore::on_performed(FileCallId id, PerformedFile performed) {
  finish(id, std::move(performed.result), performed.change);
}

void FileCore::fail(FileCallId id, Error error) { finish(id, FileResult(std::move(error)), root_.change()); }

void FileCore::finish(FileCallId id, FileResult result, wire::ChangeNumber change) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call call = std::move(it->second);
  calls_.erase(it);
  const bool recorded = settle_journal(call, result, change);
  settle_bindings(call, result);
  settle_uses(call);
  bury_dropped();
  answer(call, std::move(result), change, recorded);
  drain_ready();
}

/// False when its result is only in memory yet.
bool FileCore::settle_journal(Call& call, const FileResult& result, wire::ChangeNumber change) {
  const bool unexecuted = call.turn == Turn::begun;
  if (unexecuted)
    journals_.finish_unexecuted(journal_id_, call.job->request.context.mutation, recorded_form(result, change));
  journals_.stop_waiting(call.after);
  return !unexecuted;
}

void FileCore::answer(Call& call, FileResult result, wire::ChangeNumber change, bool recorded) {
  Result<FileAnswer> answer =
      call.repeated ? answer_from(*call.repeated, change)
      : result ? Result<FileAnswer>(FileAnswer{wire::Reply{change, std::move(result->reply)}, std::move(result->body)})
               : Result<FileAnswer>(std::move(result).error());
  auto tell = [done = std::move(call.done), answer = std::move(answer)]() mutable { done(std::move(answer)); };
  if (recorded) return loop_.post(std::move(tell));
  // By way of a worker, which writes it down first. What is to be told stays here: its end may come at any time.
  const FileCallId ticket(++last_call_);
  unrecorded_.emplace(ticket, std::move(tell));
  pool_.submit([weak = weak_from_this(), &loop = loop_, store = journals_.store(), ticket] {
    store->flush();
    loop.post([weak, ticket] {
      const auto self = weak.lock();
      if (!self) return;
      auto found = self->unrecorded_.extract(ticket);
      if (found) found.mapped()();
    });
  });
}

void FileCore::settle_bindings(Call& call, FileResult& result) {
  if (!call.names.binds_one_object) bind_listed(call, result);
  if (call.binds_object) {
    if (result)
      objects_.bind(call.names.binds_object, std::move(result->objects.front()), ready_);
    else
      objects_.fail(call.names.binds_object, result.error(), ready_);
  }
  if (call.binds_handle) {
    if (result)
      handles_.bind(call.names.binds_handle, std::move(result->opened), ready_);
    else
      handles_.fail(call.names.binds_handle, result.error(), ready_);
  }
}

void FileCore::bind_listed(const Call& call, FileResult& result) {
  const auto* list = std::get_if<wire::List>(&call.job->request.body);
  if (list == nullptr || !result) return;
  std::uint64_t id = list->first_object.value;
  for (ObjectPtr& object : result->objects) {
    if (objects_.bind(wire::ObjectId(id++), std::move(object), ready_)) continue;
    result = make_error(Errc::protocol, "bind a listing's entries", "an id is in use");
    return;
  }
}

void FileCore::settle_uses(Call& call) {
  call.job->targets = {};
  for (std::size_t i = 0; i < call.uses_object.size(); ++i)
    if (call.uses_object[i]) objects_.unuse(call.names.objects[i]);
  for (std::size_t i = 0; i < call.uses_handle.size(); ++i) {
    if (!call.uses_handle[i]) continue;
    const wire::HandleId handle = call.names.handles[i];
    handles_.unuse(handle);
    const auto closer = closers_.find(handle);
    if (closer == closers_.end()) continue;
    ready_.push_back(closer->second);
    closers_.erase(closer);
  }
}

/// The last descriptor of a deleted file frees its blocks, which can take seconds: not on the loop.
void FileCore::bury_dropped() {
  std::vector<ObjectPtr> objects = objects_.take_dropped();
  std::vector<OpenFilePtr> files = handles_.take_dropped();
  if (objects.empty() && files.empty()) return;
  pool_.submit([objects = std::move(objects), files = std::move(files)] {});
}

void FileCore::cancel(FileCallId id) {
  SANDBAR_ON_LOOP(loop_);
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  const Call& call = it->second;
  if (call.lock) return locks_->cancel(call.lock);
  // The journal tells it that it is skipped, unless it is too late: its turn has come, or another session executes it.
  if (call.turn == Turn::waiting) return void(journals_.skip(call.place));
  if (!call.running && !call.repeated)
    fail(id, make_error(Errc::cancelled, "handle a request", "given up before it began"));
}

bool FileCore::give_locks_back() {
  SANDBAR_ON_LOOP(loop_);
  if (locks_->owners() == 0) return false;
  // What waits in the old one fails while it goes, and must find the new one.
  const auto old = std::exchange(locks_, std::make_shared<SessionLocks>(loop_, root_, pool_));
  return true;
}

}  // namespace sandbar::agent
