// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sandbar/error.h"

namespace sandbar::agent {

/// A session's client-chosen ids of one kind. An id can be named before it is bound (requests are pipelined), so each
/// entry knows whether a request is to bind it, who waits for that, and how many unfinished requests name it: a release
/// takes effect when the last of those is done. On the loop's thread.
template <class Id, class Value, class Waiter>
class IdTable {
 public:
  /// Errors of failed ids that are remembered, for requests that come after the failure.
  static constexpr std::size_t kMaxFailed = 4096;

  enum class State : std::uint8_t { named, pending, bound, failed };
  struct Entry {
    State state = State::named;
    bool released = false;
    std::uint32_t uses = 0;
    Value value{};
    Error error;
    std::vector<Waiter> waiters;
  };

  /// False when the id is in use. A request is to bind it now.
  bool begin_bind(Id id) {
    Entry& entry = entries_[id];
    if (entry.state != State::named) return false;
    entry.state = State::pending;
    return true;
  }
  /// False for an id that is in use and not pending. The waiters are to be looked at again.
  bool bind(Id id, Value value, std::deque<Waiter>& woken) {
    Entry& entry = entries_[id];
    if (entry.state == State::bound || entry.state == State::failed) return false;
    entry.state = State::bound;
    entry.value = std::move(value);
    wake(entry, woken);
    drop_if_done(id);
    return true;
  }
  void fail(Id id, const Error& error, std::deque<Waiter>& woken) {
    Entry& entry = entries_[id];
    entry.state = State::failed;
    entry.error = error;
    wake(entry, woken);
    drop_if_done(id);
    failed_.push_back(id);
    if (failed_.size() <= kMaxFailed) return;
    const Id oldest = failed_.front();
    failed_.pop_front();
    const auto it = entries_.find(oldest);
    if (it != entries_.end() && it->second.state == State::failed) release(oldest);
  }

  /// A request names the id. False if it was released before: the request has to fail (and the use does not count).
  bool use(Id id) {
    Entry& entry = entries_[id];
    if (entry.released) return false;
    ++entry.uses;
    return true;
  }
  void unuse(Id id) {
    const auto it = entries_.find(id);
    if (it == entries_.end()) return;
    --it->second.uses;
    drop_if_done(id);
  }
  void release(Id id) {
    const auto it = entries_.find(id);
    if (it == entries_.end()) return;
    it->second.released = true;
    drop_if_done(id);
  }

  [[nodiscard]] Entry* find(Id id) {
    const auto it = entries_.find(id);
    return it == entries_.end() ? nullptr : &it->second;
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Values of ids that have ended since the last call, to be destroyed where that may take its time.
  [[nodiscard]] std::vector<Value> take_dropped() { return std::exchange(dropped_, {}); }

 private:
  static void wake(Entry& entry, std::deque<Waiter>& woken) {
    woken.insert(woken.end(), entry.waiters.begin(), entry.waiters.end());
    entry.waiters.clear();
  }
  void drop_if_done(Id id) {
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.uses != 0 || it->second.state == State::pending) return;
    if (!it->second.released && it->second.state != State::named) return;
    if (it->second.state == State::bound) dropped_.push_back(std::move(it->second.value));
    entries_.erase(it);
  }

  std::unordered_map<Id, Entry> entries_;
  std::deque<Id> failed_;
  std::vector<Value> dropped_;
};

}  // namespace sandbar::agent
