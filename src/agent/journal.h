// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/loop.h"
#include "base/one_shot.h"
#include "base/strong_id.h"
#include "wire/ids.h"

namespace sandbar::agent {

struct JournalWaitTag;
using JournalWaitId = base::StrongId<JournalWaitTag>;

/// The journals of all clients: each one's mutations are executed one after the other in the order of their numbers,
/// whatever the order and the session in which they arrive. In memory: what an agent of this version knows ends with
/// it.
///
/// On the loop's thread. No completion runs inside the call that was given it.
class Journals {
 public:
  /// A journal's mutations that wait for a number that has not arrived, and journals that are remembered (those
  /// least recently used are forgotten when nothing of them is under way).
  static constexpr std::size_t kMaxWaiting = 65536;
  static constexpr std::size_t kMaxJournals = 4096;

  explicit Journals(base::Loop& loop);
  Journals(const Journals&) = delete;
  Journals& operator=(const Journals&) = delete;

  /// For tasks that come back by the loop: expired once the journals are gone.
  [[nodiscard]] std::weak_ptr<Journals> weak() { return self_; }

  /// For the hello: the client's next mutation is this number plus one. Those that have begun count: they will finish.
  [[nodiscard]] wire::MutationNumber last_begun(const std::string& journal) const;
  [[nodiscard]] wire::MutationNumber last_finished(const std::string& journal) const;

  /// `done` runs when that mutation, and so all before it, are finished, however they ended; at once for number 0.
  JournalWaitId when_finished(const std::string& journal, wire::MutationNumber number, base::OneShot<void> done);
  /// `done` is dropped. Unknown and past ids are ignored.
  void stop_waiting(JournalWaitId wait);

  /// `turn` runs when all lower numbers are finished: the mutation has begun then, and finish() must follow. It fails
  /// with Errc::unknown "already done" for a number that has begun before, with Errc::protocol for one that waits
  /// already, and with Errc::limit beyond kMaxWaiting.
  void enter(const std::string& journal, wire::MutationNumber number, base::OneShot<void> turn);
  void finish(const std::string& journal, wire::MutationNumber number);
  /// For a mutation that waits for its turn: it will not be executed. Its number counts as done when its turn comes
  /// (a cancelled request), or is free again as if it had not arrived (the session is gone). `turn` is dropped; its
  /// callback hears Errc::cancelled inside this call. False if it does not wait (any more).
  bool skip(const std::string& journal, wire::MutationNumber number);
  bool abandon(const std::string& journal, wire::MutationNumber number);

 private:
  struct Waiter {
    std::uint64_t number = 0;
    base::OneShot<void> done;
  };
  struct Journal {
    std::uint64_t begun = 0;
    std::uint64_t finished = 0;
    std::map<std::uint64_t, base::OneShot<void>> turns;  ///< an empty one is skipped
    std::multimap<std::uint64_t, JournalWaitId> waits;
    std::uint64_t used = 0;
  };

  Journal& find_or_make(const std::string& id);
  void forget_oldest();
  void begin_next(Journal& journal);
  void wake(Journal& journal);
  void post(base::OneShot<void> done, Result<void> result);

  base::Loop& loop_;
  const std::shared_ptr<Journals> self_{this, [](Journals*) {}};
  std::unordered_map<std::string, Journal> journals_;
  std::unordered_map<JournalWaitId, std::pair<std::string, Waiter>> waits_;
  std::uint64_t last_wait_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace sandbar::agent
