// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>

#include "base/function.h"
#include "wire/messages.h"

namespace sandbar::agent {

/// Bytes of body that the answer to `request` may have.
std::size_t reply_room(const wire::RequestBody& request);

/// Lets a session's requests begin, in their order, while the bodies that they may answer with and those that already
/// wait to be sent fit in kRoom: a client that asks for much and reads nothing fills a bounded memory and then waits.
/// On the loop's thread.
class ReplyGate {
 public:
  static constexpr std::size_t kRoom = 32 * 1024 * 1024;

  /// `backlog` tells how many bytes of replies wait in the session.
  explicit ReplyGate(base::Function<std::size_t()> backlog) : backlog_(std::move(backlog)) {}

  /// Runs `begin`, which takes `room`, now or when there is room for it and all before it have begun.
  void pass(std::size_t room, base::Task begin);
  /// One that began is answered; its room is the session's backlog now, or free.
  void answered(std::size_t room);
  /// The backlog has shrunk.
  void look();

 private:
  struct Waiting {
    std::size_t room;
    base::Task begin;
  };
  base::Function<std::size_t()> backlog_;
  std::deque<Waiting> waiting_;
  std::size_t promised_ = 0;  ///< of those that began and are not answered
  bool looking_ = false;
};

}  // namespace sandbar::agent
