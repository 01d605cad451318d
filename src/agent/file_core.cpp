// SPDX-License-Identifier: Apache-2.0
#include "agent/file_core.h"

#include <cerrno>
#include <utility>

#include "base/thread_check.h"

namespace sandbar::agent {

FileCore::FileCore(base::Loop& loop, Root& root, WorkerPool& pool, Journals& journals, std::string journal_id)
    : loop_(loop),
      root_(root),
      pool_(pool),
      journals_(journals),
      journal_id_(std::move(journal_id)),
      locks_(std::make_shared<SessionLocks>(loop, root, pool)) {}

FileCore::~FileCore() {
  SANDBAR_ON_LOOP(loop_);
  for (auto& [id, call] : calls_) {
    const wire::MutationNumber number = call.job->request.context.mutation;
    if (call.turn == Turn::waiting) journals_.abandon(journal_id_, number);
    // A running one's number is settled when its worker is done; one that still waited for an id ends here.
    if (call.turn == Turn::begun && !call.running) journals_.finish(journal_id_, number);
    journals_.stop_waiting(call.after);
  }
  // As in bury_dropped().
  pool_.submit([objects = std::move(objects_), handles = std::move(handles_)] {});
}

FileCallId FileCore::submit(wire::Request request, base::Bytes body, base::OneShot<FileAnswer> done) {
  SANDBAR_ON_LOOP(loop_);
  const FileCallId id(++last_call_);
  Call& call = calls_[id];
  call.names = names_of(request.body);
  call.job = std::make_shared<FileJob>(FileJob{root_, std::move(request), std::move(body), {}});
  call.done = std::move(done);
  reserve(call);
  pass_gate(id, call);
  return id;
}

/// Marks the ids that the request names and binds, at the time of its arrival.
void FileCore::reserve(Call& call) {
  RequestNames& names = call.names;
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
  const bool impossible = (ordered && journal_id_.empty()) || (context.mutation && context.after >= context.mutation);
  if (impossible && !call.failure)
    call.failure = make_error(Errc::protocol, "order a request", "its journal, number and `after` do not fit");
  if (context.mutation && !journal_id_.empty()) {
    call.turn = Turn::waiting;
    journals_.enter(journal_id_, context.mutation, std::move(passed));
  } else if (context.after && !impossible) {
    call.after = journals_.when_finished(journal_id_, context.after, std::move(passed));
  } else if (call.failure) {
    loop_.post([passed = std::move(passed)]() mutable { passed({}); });
  } else {
    look_at(id);
  }
}

void FileCore::on_gate(FileCallId id, Result<void> passed) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call& call = it->second;
  call.after = {};
  if (call.turn == Turn::waiting) call.turn = passed ? Turn::begun : Turn::none;
  if (!passed) return fail(id, std::move(passed).error());
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
    if (it->second.failure)
      fail(id, std::move(*it->second.failure));
    else if (names_ready(id, it->second) && close_ready(id, it->second))
      start(id, it->second);
  }
  draining_ = false;
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
  pool_.submit([weak = weak_from_this(), &loop = loop_, journals = journals_.weak(), journal_id = journal_id_, number,
                id, job = call.job]() mutable {
    auto performed = std::make_shared<PerformedFile>(perform_file_request(*job));
    job->targets = {};  // here, and not on the loop: it may be the last reference, and so a close(2)
    loop.post([weak = std::move(weak), journals = std::move(journals), journal_id = std::move(journal_id), number, id,
               performed = std::move(performed)] {
      if (const auto known = journals.lock(); known && number) known->finish(journal_id, number);
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
  settle_journal(id, call);
  settle_bindings(call, result);
  settle_uses(call);
  bury_dropped();
  Result<FileAnswer> answer =
      result ? Result<FileAnswer>(FileAnswer{wire::Reply{change, std::move(result->reply)}, std::move(result->body)})
             : Result<FileAnswer>(std::move(result).error());
  loop_.post([done = std::move(call.done), answer = std::move(answer)]() mutable { done(std::move(answer)); });
  drain_ready();
}

/// The call is out of the table already: what the journal drops finds nothing.
void FileCore::settle_journal(FileCallId, Call& call) {
  const wire::MutationNumber number = call.job->request.context.mutation;
  if (call.turn == Turn::waiting) journals_.skip(journal_id_, number);
  if (call.turn == Turn::begun) journals_.finish(journal_id_, number);
  journals_.stop_waiting(call.after);
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
  if (it->second.lock) return locks_->cancel(it->second.lock);
  if (!it->second.running) fail(id, make_error(Errc::cancelled, "handle a request", "given up before it began"));
}

bool FileCore::give_locks_back() {
  SANDBAR_ON_LOOP(loop_);
  if (locks_->owners() == 0) return false;
  // What waits in the old one fails while it goes, and must find the new one.
  const auto old = std::exchange(locks_, std::make_shared<SessionLocks>(loop_, root_, pool_));
  return true;
}

}  // namespace sandbar::agent
