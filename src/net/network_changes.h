// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/loop.h"

namespace sandbar::net {

/// From the first sign of a change to the call: one change makes many messages.
constexpr base::Duration kNetworkChangeBurst = std::chrono::milliseconds(200);

/// Tells when the machine's network has changed (an address came or went, a link went up or down), so that a connection
/// can be tried anew at once. Loop's thread; destroying it ends it.
class NetworkChanges {
 public:
  virtual ~NetworkChanges() = default;
};

/// `changed` runs at most once in kNetworkChangeBurst, never inside this call, and may destroy the NetworkChanges.
/// Where the kernel does not tell (rtnetlink(7) is not available), it never runs; that is no error.
std::unique_ptr<NetworkChanges> watch_network(base::Loop& loop, base::Task changed);

}  // namespace sandbar::net
