// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "base/one_shot.h"
#include "client/grant_source.h"
#include "net/transport.h"
#include "sandbar/target.h"

namespace sandbar::client {

struct ConnectionOptions;

/// A connection on which nothing of the protocol was said yet, and the token that it was let in with.
struct Dialed {
  std::unique_ptr<net::Transport> transport;
  GrantToken token;
  base::TimePoint deadline;  ///< of the time that was allowed for the connect and what follows
};

/// One attempt: get a token, connect, and once more with another token where the agent refuses the first. Destroying it
/// gives up and releases everything.
class Dialing {
 public:
  virtual ~Dialing() = default;
};

/// Errors as net::connect's and GrantSource::get's. `done` never runs inside this call. `options` and `target` are
/// copied where they are needed later.
std::unique_ptr<Dialing> dial(base::Loop& loop, const Target& target, const ConnectionOptions& options,
                              base::OneShot<Dialed> done);

/// The error as people are to read it: with the target, and what to do where that is known. The token is in none of
/// these texts.
Error explain_dialing(const Target& target, const ConnectionOptions& options, Error error);

}  // namespace sandbar::client
