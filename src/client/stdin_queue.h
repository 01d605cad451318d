// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

#include "base/bytes.h"
#include "sandbar/result.h"

namespace sandbar::client {

/// Bytes on their way from a blocking writer to the loop's thread: where the two threads meet, and where a writer
/// waits for the process to read.
class StdinQueue {
 public:
  /// Bytes that wait here before a writer blocks: enough to refill a channel while the writer wakes up.
  static constexpr std::size_t kCapacity = 512 * 1024;

  /// Writer: blocks while the queue is full. `must_wake` is set when the loop has to be told (once for all that is
  /// queued until it next empties the queue).
  Result<void> push(base::Bytes bytes, bool& must_wake);
  /// Writer: no more after this; wakes the loop likewise. Again: nothing.
  Result<void> end(bool& must_wake);

  /// Loop: up to `most` bytes in order; empty when there is nothing (and the next push wakes again).
  base::Bytes pop(std::size_t most);
  /// Loop: true once, when the end is reached.
  bool take_end();
  /// Loop: nobody reads any more. Writers get `reason`; what waits is dropped.
  void fail(Error reason);

 private:
  std::mutex mutex_;
  std::condition_variable has_room_;
  // All guarded by mutex_.
  std::deque<base::Bytes> queue_;
  std::size_t offset_ = 0;  ///< bytes of the first piece that are gone already
  std::size_t size_ = 0;
  bool awake_ = false;  ///< the loop was told and has not found the queue empty since
  bool ended_ = false;
  bool end_taken_ = false;
  std::optional<Error> broken_;
};

}  // namespace sandbar::client
