// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/journal_store.h"
#include "base/loop.h"
#include "base/one_shot.h"
#include "base/strong_id.h"
#include "wire/ids.h"

namespace sandbar::agent {

struct JournalWaitTag;
using JournalWaitId = base::StrongId<JournalWaitTag>;
struct JournalTurnTag;
using JournalTurnId = base::StrongId<JournalTurnTag>;

/// What enter() leads to.
struct MutationTurn {
  /// The number was done before, and this is what it was answered with: nothing is to be executed. Without it the
  /// mutation has begun, and finished() or give_back() must follow.
  std::optional<MutationResult> repeated;
};

/// The order of all clients' mutations: each journal's are executed one after the other in the order of their numbers,
/// whatever the order and the session in which they arrive, and none twice. What is remembered of them is the store's.
///
/// On the loop's thread. No completion runs inside the call that was given it.
class Journals {
 public:
  /// Of a journal: mutations that wait for their turn, or for the result of the same number.
  static constexpr std::size_t kMaxWaiting = 65536;

  /// Without a store what is known ends with this.
  explicit Journals(base::Loop& loop, std::shared_ptr<JournalStore> store = nullptr);
  Journals(const Journals&) = delete;
  Journals& operator=(const Journals&) = delete;

  /// For tasks that come back by the loop: expired once the journals are gone.
  [[nodiscard]] std::weak_ptr<Journals> weak() { return self_; }
  [[nodiscard]] const std::shared_ptr<JournalStore>& store() const { return store_; }

  /// A session of `subject` is to use the journal: Errc::unauthorized when it is another subject's. `answered`: the
  /// client will never send these numbers again, so those that are not known are not waited for. For the hello: the
  /// client's next mutation is `begun` plus one. Those that have begun count: they will finish.
  Result<JournalFacts> claim(const std::string& journal, const std::string& subject,
                             wire::MutationNumber answered = {});
  /// A session uses the journal: it is not forgotten meanwhile.
  void hold(const std::string& journal) { store_->hold(journal); }
  void let_go(const std::string& journal) { store_->let_go(journal); }
  [[nodiscard]] wire::MutationNumber last_begun(const std::string& journal) const;
  [[nodiscard]] wire::MutationNumber last_finished(const std::string& journal) const;

  /// `done` runs when that mutation, and so all before it, are finished, however they ended; at once for number 0.
  JournalWaitId when_finished(const std::string& journal, wire::MutationNumber number, base::OneShot<void> done);
  /// `done` is dropped. Unknown and past ids are ignored.
  void stop_waiting(JournalWaitId wait);

  /// `turn` runs when all lower numbers are finished: the mutation has begun then. For a number that has begun before
  /// it runs with the result, as soon as there is one; a number that waits already is done once for all who sent it.
  /// It fails with Errc::unknown, and the reason, when there is no result any more, and with Errc::limit beyond
  /// kMaxWaiting. `may_repeat`: executing it once more does no harm, so that it begins again when it is the last that
  /// had begun and its result was lost.
  JournalTurnId enter(const std::string& journal, wire::MutationNumber number, bool may_repeat,
                      base::OneShot<MutationTurn> turn);
  /// A mutation that has begun is over: its result is in the store.
  void finished(const std::string& journal, wire::MutationNumber number);
  /// The same for one that was not executed, whose number is used up with this result; JournalStore::flush() is due.
  void finish_unexecuted(const std::string& journal, wire::MutationNumber number, MutationResult result);
  /// One that has begun has not been executed and will not be by this session (it is over). The number is free again,
  /// or the turn of the next who sent it; it is used up where a client was told that it had begun.
  void give_back(const std::string& journal, wire::MutationNumber number);

  /// Its sender gives it up while it waits for its turn: its number counts as done when the turn comes. `turn` is
  /// dropped; its callback hears Errc::cancelled inside this call. False if it does not wait for its turn (any more):
  /// it will be done.
  bool skip(JournalTurnId turn);
  /// The session is gone: the number is free again as if it had not arrived. Otherwise as skip(), also for those that
  /// wait for a result.
  bool abandon(JournalTurnId turn);

 private:
  struct Waiter {
    std::uint64_t number = 0;
    base::OneShot<void> done;
  };
  struct Sender {
    JournalTurnId id;
    base::OneShot<MutationTurn> turn;
  };
  using Senders = std::vector<Sender>;
  struct Turn {
    Senders senders;       ///< of one number: the first is to execute it
    bool skipped = false;  ///< there are none
  };
  struct Journal {
    std::uint64_t begun = 0;
    std::uint64_t finished = 0;
    std::uint64_t told = 0;  ///< the `begun` that a client was told of
    std::map<std::uint64_t, Turn> turns;
    Senders followers;        ///< who wait for the result of `begun`
    std::size_t waiting = 0;  ///< senders of both
    std::multimap<std::uint64_t, JournalWaitId> waits;
  };

  Journal& find_or_make(const std::string& id);
  void drop_if_idle(const std::string& id);
  void begin_next(const std::string& id, Journal& journal);
  void give_turn(Journal& journal, Senders senders);
  void settle(const std::string& id, Journal& journal);
  base::OneShot<MutationTurn> leave(JournalTurnId turn, bool skip);
  void post_result(const std::string& journal, std::uint64_t number, base::OneShot<MutationTurn> turn);

  base::Loop& loop_;
  const std::shared_ptr<JournalStore> store_;
  const std::shared_ptr<Journals> self_{this, [](Journals*) {}};
  std::unordered_map<std::string, Journal> journals_;  ///< those of which something is under way
  std::unordered_map<JournalWaitId, std::pair<std::string, Waiter>> waits_;
  std::unordered_map<JournalTurnId, std::pair<std::string, std::uint64_t>> turns_;  ///< those that wait
  std::uint64_t last_wait_ = 0;
  std::uint64_t last_turn_ = 0;
};

}  // namespace sandbar::agent
