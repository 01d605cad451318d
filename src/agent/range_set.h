// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace sandbar::agent {

/// Byte ranges [start, end) that do not touch each other: which parts of a file are locked.
class RangeSet {
 public:
  void add(std::uint64_t start, std::uint64_t end) {
    // Those that overlap or touch become part of the new one.
    auto at = ranges_.upper_bound(start);
    if (at != ranges_.begin() && std::prev(at)->second >= start) --at;
    while (at != ranges_.end() && at->first <= end) {
      start = std::min(start, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_.emplace(start, end);
  }
  void remove(std::uint64_t start, std::uint64_t end) {
    auto at = ranges_.upper_bound(start);
    if (at != ranges_.begin() && std::prev(at)->second > start) --at;
    while (at != ranges_.end() && at->first < end) {
      const auto [from, to] = *at;
      at = ranges_.erase(at);
      if (from < start) ranges_.emplace(from, start);
      if (to > end) ranges_.emplace(end, to);
    }
  }
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] std::size_t size() const { return ranges_.size(); }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& ranges() const { return ranges_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  ///< start -> end
};

}  // namespace sandbar::agent
