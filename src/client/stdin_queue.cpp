// SPDX-License-Identifier: Apache-2.0
#include "client/stdin_queue.h"

#include <cerrno>
#include <utility>

namespace sandbar::client {

Result<void> StdinQueue::push(base::Bytes bytes, bool& must_wake) {
  must_wake = false;
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [this] { return size_ < kCapacity || broken_ || ended_; });
  if (broken_) return *broken_;
  if (ended_) return os_error(EPIPE, "write", "the input was closed");
  if (bytes.empty()) return {};
  size_ += bytes.size();
  queue_.push_back(std::move(bytes));
  must_wake = !std::exchange(awake_, true);
  return {};
}

Result<void> StdinQueue::end(bool& must_wake) {
  const std::lock_guard lock(mutex_);
  must_wake = false;
  if (broken_) return *broken_;
  if (std::exchange(ended_, true)) return {};
  must_wake = !std::exchange(awake_, true);
  has_room_.notify_all();
  return {};
}

base::Bytes StdinQueue::pop(std::size_t most) {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) {
    awake_ = false;
    return {};
  }
  base::Bytes& first = queue_.front();
  base::Bytes bytes;
  const std::size_t length = first.size();
  if (offset_ == 0 && length <= most) {
    bytes = std::move(first);
  } else {
    bytes = first.substr(offset_, most);
    offset_ += bytes.size();
  }
  if (offset_ == 0 || offset_ == length) {
    queue_.pop_front();
    offset_ = 0;
  }
  size_ -= bytes.size();
  has_room_.notify_all();
  return bytes;
}

bool StdinQueue::take_end() {
  const std::lock_guard lock(mutex_);
  return ended_ && queue_.empty() && !broken_ && !std::exchange(end_taken_, true);
}

void StdinQueue::fail(Error reason) {
  const std::lock_guard lock(mutex_);
  if (!broken_) broken_ = std::move(reason);
  queue_.clear();
  size_ = offset_ = 0;
  has_room_.notify_all();
}

}  // namespace sandbar::client
