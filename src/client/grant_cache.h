// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "client/grant_worker.h"
#include "sandbar/result.h"
#include "wire/grant_heads.h"

namespace sandbar::client {

/// Grants that the processes of one user share: a folder of files, one for each key, mode 0600, each replaced as a
/// whole. In $XDG_RUNTIME_DIR/sandbar/grants, else in /tmp/sandbar-UID/grants; neither is used where it is a link, or
/// anybody else's, or others have rights on it. Any thread; members block on the disk.
class GrantCache {
 public:
  /// The folder of this user. Errc::invalid, naming the folder, where it cannot be trusted.
  static Result<GrantCache> open();
  /// Below `runtime_folder` (ignored where it is empty or not this user's alone), else in `fallback`.
  static Result<GrantCache> open_in(const std::string& runtime_folder, const std::string& fallback);

  /// A name for files, of all that decides which grant it is.
  static std::string key_of(const std::string& command, GrantKind kind, std::uint16_t port, const std::string& target);

  /// None for a file that is missing, broken, or not this user's alone.
  [[nodiscard]] std::optional<wire::GrantAnswer> read(const std::string& key) const;
  [[nodiscard]] Result<void> write(const std::string& key, const wire::GrantAnswer& answer) const;

  /// The right to fetch the grant of a key: one at a time over all threads and processes. A process that dies gives it
  /// back.
  class Lock {
   public:
    /// To be called while it is held: tells those who wait now that the fetch failed, so that they need not try too.
    void failed(const std::string& why) const;
    /// What failed() told since `this` began to wait.
    [[nodiscard]] std::optional<std::string> failed_meanwhile() const;

   private:
    friend class GrantCache;
    base::UniqueFd file_;
    std::uint64_t waiting_since_ = 0;
  };
  /// Errc::timeout, Errc::cancelled.
  Result<Lock> lock(const std::string& key, const Cancellation& cancellation, std::chrono::milliseconds most) const;

 private:
  explicit GrantCache(base::UniqueFd folder) : folder_(std::move(folder)) {}
  base::UniqueFd folder_;
};

}  // namespace sandbar::client
