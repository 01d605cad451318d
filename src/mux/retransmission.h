// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include "base/bytes.h"

namespace sandbar::mux {

/// What was sent on a lane and is not acknowledged: numbers frames as they are handed to a connection, keeps them until
/// the peer says that it has them, and gives them out again for the next connection. Bounded: who sends asks for room
/// before. A value of its session's; on the loop's thread.
class Retransmission {
 public:
  /// The number of the next frame; kept messages count on from 1 without a gap.
  [[nodiscard]] std::uint64_t next_number() const { return last_ + 1; }
  /// An encoded frame that carries next_number().
  void keep(base::Bytes message);
  /// The peer has all up to `number`. False for what was not sent on this connection, or is less than it said before:
  /// the peer lies.
  [[nodiscard]] bool acknowledged(std::uint64_t number);

  /// A new connection, on which the peer says that it has all up to `number`: what is kept beyond goes out again, the
  /// oldest first. False, and nothing changed, for what was never sent, or was acknowledged beyond.
  [[nodiscard]] bool rewind(std::uint64_t number);
  /// The next message to be sent again; null when all are. It stays kept.
  [[nodiscard]] const base::Bytes* resend() const { return resend_ < kept_.size() ? &kept_[resend_] : nullptr; }
  void resent() { ++resend_; }

  /// Room for a small frame, or for one of bulk, which leaves a reserve for small ones.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool has_room_for_bulk() const;
  /// Taken by what is kept, book-keeping included.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::deque<base::Bytes> kept_;  ///< numbers last_ - kept_.size() + 1 to last_
  std::size_t bytes_ = 0;
  std::uint64_t last_ = 0;
  std::size_t resend_ = 0;  ///< of kept_ that were sent on this connection
};

}  // namespace sandbar::mux
