// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "net/socket.h"

namespace sandbar::net {

/// From the start of one attempt to that of the next while the first has no answer (RFC 8305, 5: 250 ms).
constexpr base::Duration kNextAttempt = std::chrono::milliseconds(250);

/// Attempts to connect under way; internal to net. Destroying it closes them all. It has no time limit of its own.
class PendingDial {
 public:
  virtual ~PendingDial() = default;
};

struct Dialed {
  base::UniqueFd socket;
  SocketAddress address;
};

/// The order in which to try them: the families take turns, beginning with that of the first (RFC 8305, 4).
std::vector<SocketAddress> interleaved(const std::vector<SocketAddress>& addresses);

/// Connects to one of the addresses (never none): the next one is tried when one has failed or kNextAttempt has passed,
/// the first that is connected wins, the others are closed. `done` gets it, or Errc::os with the most telling errno;
/// once, on the loop's thread, never inside this call. The PendingDial may be destroyed in it.
std::unique_ptr<PendingDial> dial(base::Loop& loop, std::vector<SocketAddress> addresses,
                                  base::Function<void(Result<Dialed>)> done);

}  // namespace sandbar::net
