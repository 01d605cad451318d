// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/loop.h"
#include "base/one_shot.h"
#include "net/transport.h"
#include "sandbar/target.h"

namespace sandbar::client {

struct ConnectionOptions;

/// One attempt to get a connection to a target's agent, without a word of the protocol on it. Destroying it gives up
/// and releases everything.
class Dialing {
 public:
  virtual ~Dialing() = default;
};

/// Errors as net::connect's. `done` never runs inside this call.
std::unique_ptr<Dialing> dial(base::Loop& loop, const Target& target, const ConnectionOptions& options,
                              base::Duration timeout, base::OneShot<std::unique_ptr<net::Transport>> done);

/// The error as people are to read it: with the target, and what to do where that is known. The token is in none of
/// these texts.
Error explain_dialing(const Target& target, bool has_token, Error error);

}  // namespace sandbar::client
