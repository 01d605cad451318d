// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "vfs/types.h"

namespace sandbar::vfs {

/// Gives out the numbers under which the agent knows objects, and tells it, in batches, which ones are no longer named.
/// On the loop's thread.
class RemoteObjects {
 public:
  /// Ids in one Release: a tenth of a packet's worth of JSON; a storm of forgets is then few requests, none large.
  static constexpr std::size_t kBatch = 64;

  /// `next`: the first id to give out.
  RemoteObjects(base::Loop& loop, client::RemoteFs& remote, base::Duration timeout, wire::ObjectId next);

  wire::ObjectId next() { return reserve(1); }
  /// The first of `count` consecutive ids.
  wire::ObjectId reserve(std::uint64_t count);
  /// Each id once, after the last request that names it was answered. Sent with what else is released until the loop
  /// comes to it, or when kBatch are together.
  void release(wire::ObjectId object);

 private:
  void send();

  base::Loop& loop_;
  client::RemoteFs& remote_;
  const base::Duration timeout_;
  std::uint64_t next_;
  std::vector<wire::ObjectId> released_;
  bool posted_ = false;
  std::shared_ptr<const int> alive_ = std::make_shared<const int>(0);  // for the posted send()
};

}  // namespace sandbar::vfs
