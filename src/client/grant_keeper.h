// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/one_shot.h"
#include "client/grant_source.h"
#include "client/remote_fs.h"

namespace sandbar::client {

/// Keeps the grants of a session that stands: attaches those of further kinds, and replaces each before it expires, by
/// `authorize` requests. A renewal that fails is logged, and tried again while the session lasts. On the loop's thread;
/// destroying it gives up.
class GrantKeeper {
 public:
  /// `first` is the token that the session was opened with, of kinds.front(). `remote` outlives this.
  GrantKeeper(base::Loop& loop, RemoteFs& remote, std::shared_ptr<GrantSource> source, std::vector<GrantKind> kinds,
              GrantToken first);
  ~GrantKeeper();
  GrantKeeper(const GrantKeeper&) = delete;
  GrantKeeper& operator=(const GrantKeeper&) = delete;

  /// Once. `ready` runs, never inside this call, when all kinds are attached, or with why one is not.
  void start(base::OneShot<void> ready);

 private:
  struct Held {
    GrantKind kind = GrantKind::files;
    GrantToken token;  ///< the last that the agent took
    base::TimerId timer;
    base::Duration retry{0};  ///< after a renewal that failed
    std::unique_ptr<PendingGrant> pending;
  };

  void attach_next(std::size_t index);
  void finish(Result<void> outcome);
  /// Gets and attaches a grant for held_[index]; `done` runs later.
  void renew(std::size_t index, GrantWant::Reason reason, std::string stale, base::OneShot<void> done);
  void authorize(std::size_t index, GrantWant::Reason reason, GrantToken token, base::OneShot<void> done);
  void schedule(std::size_t index, base::Duration after);
  void wait_for_end(std::size_t index);
  void due(std::size_t index);
  [[nodiscard]] bool can_authorize() const;

  base::Loop& loop_;
  RemoteFs& remote_;
  const std::shared_ptr<GrantSource> source_;
  std::vector<Held> held_;
  base::OneShot<void> ready_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace sandbar::client
