// SPDX-License-Identifier: Apache-2.0
#include "agent/journal.h"

#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/thread_check.h"

namespace sandbar::agent {

Journals::Journals(base::Loop& loop) : loop_(loop) {}

wire::MutationNumber Journals::last_begun(const std::string& journal) const {
  const auto it = journals_.find(journal);
  return wire::MutationNumber(it == journals_.end() ? 0 : it->second.begun);
}

wire::MutationNumber Journals::last_finished(const std::string& journal) const {
  const auto it = journals_.find(journal);
  return wire::MutationNumber(it == journals_.end() ? 0 : it->second.finished);
}

Journals::Journal& Journals::find_or_make(const std::string& id) {
  auto it = journals_.find(id);
  if (it == journals_.end()) {
    if (journals_.size() >= kMaxJournals) forget_oldest();
    it = journals_.try_emplace(id).first;
  }
  it->second.used = ++clock_;
  return it->second;
}

void Journals::forget_oldest() {
  auto oldest = journals_.end();
  for (auto it = journals_.begin(); it != journals_.end(); ++it) {
    const Journal& journal = it->second;
    const bool idle = journal.begun == journal.finished && journal.turns.empty() && journal.waits.empty();
    if (idle && (oldest == journals_.end() || journal.used < oldest->second.used)) oldest = it;
  }
  if (oldest != journals_.end()) journals_.erase(oldest);
}

void Journals::post(base::OneShot<void> done, Result<void> result) {
  loop_.post([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
}

JournalWaitId Journals::when_finished(const std::string& journal_id, wire::MutationNumber number,
                                      base::OneShot<void> done) {
  SANDBAR_ON_LOOP(loop_);
  if (!number) {
    post(std::move(done), {});
    return {};
  }
  Journal& journal = find_or_make(journal_id);
  if (journal.finished >= number.value) {
    post(std::move(done), {});
    return {};
  }
  const JournalWaitId id(++last_wait_);
  journal.waits.emplace(number.value, id);
  waits_.emplace(id, std::pair(journal_id, Waiter{number.value, std::move(done)}));
  return id;
}

void Journals::stop_waiting(JournalWaitId wait) {
  SANDBAR_ON_LOOP(loop_);
  const auto it = waits_.find(wait);
  if (it == waits_.end()) return;
  // Out of the tables first: the dropped completion may call us.
  const std::pair<std::string, Waiter> dropped = std::move(it->second);
  waits_.erase(it);
  Journal& journal = journals_.at(dropped.first);
  const auto [begin, end] = journal.waits.equal_range(dropped.second.number);
  for (auto at = begin; at != end; ++at) {
    if (at->second != wait) continue;
    journal.waits.erase(at);
    break;
  }
}

void Journals::enter(const std::string& journal_id, wire::MutationNumber number, base::OneShot<void> turn) {
  SANDBAR_ON_LOOP(loop_);
  SANDBAR_ASSERT(static_cast<bool>(number));
  Journal& journal = find_or_make(journal_id);
  const std::string what = "mutation " + std::to_string(number.value);
  if (number.value <= journal.begun) return post(std::move(turn), make_error(Errc::unknown, what, "already done"));
  if (journal.turns.contains(number.value))
    return post(std::move(turn), make_error(Errc::protocol, what, "its number is in use"));
  if (journal.turns.size() >= kMaxWaiting)
    return post(std::move(turn), make_error(Errc::limit, what, "too many mutations wait for an earlier one"));
  journal.turns.emplace(number.value, std::move(turn));
  begin_next(journal);
}

void Journals::begin_next(Journal& journal) {
  while (journal.begun == journal.finished) {
    const auto next = journal.turns.begin();
    if (next == journal.turns.end() || next->first != journal.begun + 1) return;
    base::OneShot<void> turn = std::move(next->second);
    journal.turns.erase(next);
    ++journal.begun;
    if (turn) return post(std::move(turn), {});
    ++journal.finished;
    wake(journal);
  }
}

void Journals::wake(Journal& journal) {
  while (!journal.waits.empty() && journal.waits.begin()->first <= journal.finished) {
    const auto it = waits_.find(journal.waits.begin()->second);
    journal.waits.erase(journal.waits.begin());
    SANDBAR_ASSERT(it != waits_.end());
    post(std::move(it->second.second.done), {});
    waits_.erase(it);
  }
}

void Journals::finish(const std::string& journal_id, wire::MutationNumber number) {
  SANDBAR_ON_LOOP(loop_);
  Journal& journal = find_or_make(journal_id);
  SANDBAR_ASSERT(journal.begun == number.value && journal.finished + 1 == number.value);
  journal.finished = number.value;
  wake(journal);
  begin_next(journal);
}

bool Journals::skip(const std::string& journal_id, wire::MutationNumber number) {
  SANDBAR_ON_LOOP(loop_);
  Journal& journal = find_or_make(journal_id);
  const auto it = journal.turns.find(number.value);
  if (it == journal.turns.end() || !it->second) return false;
  const base::OneShot<void> dropped = std::move(it->second);
  begin_next(journal);
  return true;
}

bool Journals::abandon(const std::string& journal_id, wire::MutationNumber number) {
  SANDBAR_ON_LOOP(loop_);
  Journal& journal = find_or_make(journal_id);
  const auto it = journal.turns.find(number.value);
  if (it == journal.turns.end() || !it->second) return false;
  const base::OneShot<void> dropped = std::move(it->second);
  journal.turns.erase(it);
  return true;
}

}  // namespace sandbar::agent
