// SPDX-License-Identifier: Apache-2.0
#include "mux/retransmission.h"

#include <utility>

#include "wire/limits.h"

namespace sandbar::mux {
namespace {

/// Of a kept message beyond its bytes, so that millions of the smallest frames are bounded, too.
constexpr std::size_t kOverhead = 64;

std::size_t cost(const base::Bytes& message) { return message.size() + kOverhead; }

}  // namespace

void Retransmission::keep(base::Bytes message) {
  bytes_ += cost(message);
  ++last_;
  // Only when nothing waits to be sent again is something new sent: so this one is sent, too.
  kept_.push_back(std::move(message));
  resend_ = kept_.size();
}

bool Retransmission::acknowledged(std::uint64_t number) {
  const std::uint64_t before = last_ - kept_.size();
  if (number < before || number - before > resend_) return false;
  for (std::uint64_t left = number - before; left > 0; --left) {
    bytes_ -= cost(kept_.front());
    kept_.pop_front();
    --resend_;
  }
  return true;
}

bool Retransmission::rewind(std::uint64_t number) {
  if (number < last_ - kept_.size() || number > last_) return false;
  resend_ = kept_.size();  // each was sent on some connection
  static_cast<void>(acknowledged(number));
  resend_ = 0;
  return true;
}

bool Retransmission::has_room() const { return bytes_ < wire::kMaxUnacknowledged; }

bool Retransmission::has_room_for_bulk() const {
  return bytes_ < wire::kMaxUnacknowledged - wire::kUnacknowledgedReserve;
}

}  // namespace sandbar::mux
