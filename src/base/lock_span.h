// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sandbar::base {

/// Behind the last byte that a file can have: where a lock ends that reaches "to the end".
constexpr std::uint64_t kLockEnd = std::uint64_t{1} << 63U;

/// The bytes [start, end) of a lock, which fcntl(2) and the messages give as a start and a length.
struct LockSpan {
  /// `length` 0: to the end.
  static constexpr LockSpan of(std::uint64_t start, std::uint64_t length) {
    return {start, length == 0 || length > kLockEnd || start > kLockEnd - length ? kLockEnd : start + length};
  }
  [[nodiscard]] constexpr std::uint64_t length() const { return end == kLockEnd ? 0 : end - start; }

  std::uint64_t start = 0;
  std::uint64_t end = kLockEnd;
};

}  // namespace sandbar::base
