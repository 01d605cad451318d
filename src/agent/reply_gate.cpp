// SPDX-License-Identifier: Apache-2.0
#include "agent/reply_gate.h"

#include <utility>

#include "wire/limits.h"

namespace sandbar::agent {

std::size_t reply_room(const wire::RequestBody& request) {
  if (const auto* read = std::get_if<wire::Read>(&request)) return read->size;
  if (const auto* list = std::get_if<wire::List>(&request)) return list->max_bytes;
  const bool xattr =
      std::holds_alternative<wire::GetXattr>(request) || std::holds_alternative<wire::ListXattr>(request);
  return xattr ? wire::kMaxXattrValue : 0;
}

void ReplyGate::pass(std::size_t room, base::Task begin) {
  waiting_.push_back({room, std::move(begin)});
  look();
}

void ReplyGate::answered(std::size_t room) {
  promised_ -= room;
  look();
}

void ReplyGate::look() {
  if (looking_) return;  // one that begins may be answered at once
  looking_ = true;
  while (!waiting_.empty()) {
    const std::size_t taken = promised_ + backlog_();
    // The first always may: what is larger than all the room must not wait for ever.
    if (taken > 0 && taken + waiting_.front().room > kRoom) break;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    promised_ += next.room;
    next.begin();
  }
  looking_ = false;
}

}  // namespace sandbar::agent
