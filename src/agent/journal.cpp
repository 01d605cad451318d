// SPDX-License-Identifier: Apache-2.0
#include "agent/journal.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/thread_check.h"
#include "wire/codec.h"

namespace sandbar::agent {
namespace {

std::string name_of(std::uint64_t number) { return "mutation " + std::to_string(number); }

MutationResult cancelled_result(std::uint64_t number) {
  return {ResultKind::error,
          wire::encode_error(make_error(Errc::cancelled, name_of(number), "given up before it began"))};
}

template <class T>
void post(base::Loop& loop, base::OneShot<T> done, Result<T> result) {
  loop.post([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
}

}  // namespace

Journals::Journals(base::Loop& loop, std::shared_ptr<JournalStore> store)
    : loop_(loop), store_(store ? std::move(store) : std::make_shared<JournalStore>()) {}

Result<JournalFacts> Journals::claim(const std::string& id, const std::string& subject, wire::MutationNumber answered) {
  SANDBAR_ON_LOOP(loop_);
  auto claimed = store_->claim(id, subject);
  if (!claimed) return claimed;
  Journal& journal = find_or_make(id);
  const bool idle = journal.begun == journal.finished;
  const bool in_front = journal.turns.empty() || journal.turns.begin()->first > answered.value;
  if (answered.value > journal.begun && idle && in_front) {
    store_->raise(id, answered);
    journal.begun = journal.finished = answered.value;
    settle(id, journal);
    begin_next(id, journal);
  }
  journal.told = journal.begun;
  claimed->begun = wire::MutationNumber(journal.begun);
  claimed->finished = wire::MutationNumber(journal.finished);
  drop_if_idle(id);
  return claimed;
}

wire::MutationNumber Journals::last_begun(const std::string& journal) const {
  const auto it = journals_.find(journal);
  return it == journals_.end() ? store_->facts(journal).begun : wire::MutationNumber(it->second.begun);
}

wire::MutationNumber Journals::last_finished(const std::string& journal) const {
  const auto it = journals_.find(journal);
  return it == journals_.end() ? store_->facts(journal).finished : wire::MutationNumber(it->second.finished);
}

Journals::Journal& Journals::find_or_make(const std::string& id) {
  const auto [it, made] = journals_.try_emplace(id);
  if (made) it->second.begun = it->second.finished = store_->facts(id).begun.value;
  return it->second;
}

/// The store knows all of it.
void Journals::drop_if_idle(const std::string& id) {
  const auto it = journals_.find(id);
  if (it == journals_.end()) return;
  const Journal& journal = it->second;
  if (journal.begun == journal.finished && journal.waiting == 0 && journal.turns.empty() && journal.waits.empty())
    journals_.erase(it);
}

JournalWaitId Journals::when_finished(const std::string& journal_id, wire::MutationNumber number,
                                      base::OneShot<void> done) {
  SANDBAR_ON_LOOP(loop_);
  if (last_finished(journal_id).value >= number.value) {
    post<void>(loop_, std::move(done), {});
    return {};
  }
  const JournalWaitId id(++last_wait_);
  find_or_make(journal_id).waits.emplace(number.value, id);
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
  drop_if_idle(dropped.first);
}

JournalTurnId Journals::enter(const std::string& id, wire::MutationNumber number, bool may_repeat,
                              base::OneShot<MutationTurn> turn) {
  SANDBAR_ON_LOOP(loop_);
  SANDBAR_ASSERT(static_cast<bool>(number));
  Journal& journal = find_or_make(id);
  if (journal.waiting >= kMaxWaiting) {
    post<MutationTurn>(loop_, std::move(turn),
                       make_error(Errc::limit, name_of(number.value), "too many mutations wait for an earlier one"));
    return {};
  }
  if (number.value <= journal.finished) {
    const auto known = store_->result(id, number);
    const bool lost = known && known->kind == ResultKind::lost;
    const bool again = lost && may_repeat && number.value == journal.begun;
    if (!again) {
      post_result(id, number.value, std::move(turn));
      drop_if_idle(id);
      return {};
    }
    // Nothing later has begun, so that the order stays.
    journal.begun = --journal.finished;
  }
  const JournalTurnId turn_id(++last_turn_);
  if (number.value == journal.begun) {
    journal.followers.push_back({turn_id, std::move(turn)});
  } else {
    Turn& place = journal.turns[number.value];
    if (place.skipped) {
      post<MutationTurn>(loop_, std::move(turn), MutationTurn{cancelled_result(number.value)});
      return {};
    }
    place.senders.push_back({turn_id, std::move(turn)});
  }
  ++journal.waiting;
  turns_.emplace(turn_id, std::pair(id, number.value));
  begin_next(id, journal);
  return turn_id;
}

void Journals::post_result(const std::string& id, std::uint64_t number, base::OneShot<MutationTurn> turn) {
  auto result = store_->result(id, wire::MutationNumber(number));
  if (result && result->kind == ResultKind::lost)
    result =
        make_error(Errc::unknown, name_of(number), "its result is not known: the agent was killed while it was done");
  if (result)
    post<MutationTurn>(loop_, std::move(turn), MutationTurn{std::move(result).value()});
  else
    post<MutationTurn>(loop_, std::move(turn), std::move(result).error());
}

void Journals::begin_next(const std::string& id, Journal& journal) {
  while (journal.begun == journal.finished) {
    const auto next = journal.turns.begin();
    if (next == journal.turns.end() || next->first != journal.begun + 1) return;
    Turn turn = std::move(next->second);
    journal.turns.erase(next);
    ++journal.begun;
    if (!turn.skipped) return give_turn(journal, std::move(turn.senders));
    store_->finish_later(id, wire::MutationNumber(journal.begun), cancelled_result(journal.begun));
    settle(id, journal);
  }
}

/// The first executes it, the others wait for the result.
void Journals::give_turn(Journal& journal, Senders senders) {
  Sender first = std::move(senders.front());
  senders.erase(senders.begin());
  journal.followers = std::move(senders);
  turns_.erase(first.id);
  --journal.waiting;
  post<MutationTurn>(loop_, std::move(first.turn), MutationTurn{});
}

/// The last that has begun is finished.
void Journals::settle(const std::string& id, Journal& journal) {
  journal.finished = journal.begun;
  for (Sender& follower : std::exchange(journal.followers, {})) {
    turns_.erase(follower.id);
    --journal.waiting;
    post_result(id, journal.finished, std::move(follower.turn));
  }
  while (!journal.waits.empty() && journal.waits.begin()->first <= journal.finished) {
    const auto it = waits_.find(journal.waits.begin()->second);
    journal.waits.erase(journal.waits.begin());
    SANDBAR_ASSERT(it != waits_.end());
    post<void>(loop_, std::move(it->second.second.done), {});
    waits_.erase(it);
  }
}

void Journals::finished(const std::string& id, wire::MutationNumber number) {
  SANDBAR_ON_LOOP(loop_);
  Journal& journal = find_or_make(id);
  SANDBAR_ASSERT(journal.begun == number.value && journal.finished + 1 == number.value);
  settle(id, journal);
  begin_next(id, journal);
  drop_if_idle(id);
}

void Journals::finish_unexecuted(const std::string& id, wire::MutationNumber number, MutationResult result) {
  store_->finish_later(id, number, std::move(result));
  finished(id, number);
}

void Journals::give_back(const std::string& id, wire::MutationNumber number) {
  SANDBAR_ON_LOOP(loop_);
  Journal& journal = find_or_make(id);
  SANDBAR_ASSERT(journal.begun == number.value && journal.finished + 1 == number.value);
  if (!journal.followers.empty()) return give_turn(journal, std::exchange(journal.followers, {}));
  // One whose result was lost stays so.
  if (store_->facts(id).begun.value >= number.value) return finished(id, number);
  if (journal.told >= number.value) return finish_unexecuted(id, number, cancelled_result(number.value));
  --journal.begun;
  drop_if_idle(id);
}

/// Takes a sender out; nothing, when it does not wait (with `skip`: for its turn).
base::OneShot<MutationTurn> Journals::leave(JournalTurnId turn, bool skip) {
  const auto known = turns_.find(turn);
  if (known == turns_.end()) return {};
  const auto [id, number] = known->second;
  Journal& journal = journals_.at(id);
  const bool follows = number == journal.begun;
  if (follows && skip) return {};
  turns_.erase(known);
  --journal.waiting;
  const auto place = journal.turns.find(number);
  Senders& senders = follows ? journal.followers : place->second.senders;
  const auto at = std::find_if(senders.begin(), senders.end(), [&](const Sender& one) { return one.id == turn; });
  base::OneShot<MutationTurn> taken = std::move(at->turn);
  senders.erase(at);
  if (!follows && senders.empty()) {
    place->second.skipped = skip;
    if (!skip) journal.turns.erase(place);
  }
  begin_next(id, journal);
  drop_if_idle(id);
  return taken;
}

bool Journals::skip(JournalTurnId turn) {
  SANDBAR_ON_LOOP(loop_);
  return static_cast<bool>(leave(turn, true));
}

bool Journals::abandon(JournalTurnId turn) {
  SANDBAR_ON_LOOP(loop_);
  return static_cast<bool>(leave(turn, false));
}

}  // namespace sandbar::agent
