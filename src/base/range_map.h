// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

namespace sandbar::base {

/// A value for each of some ranges [start, end) of numbers, as the kernel keeps the locks of one owner: a new range
/// replaces what it covers, splits what it cuts, and melts into neighbours of the same value.
template <class Value>
class RangeMap {
 public:
  struct Range {
    std::uint64_t start = 0;
    std::uint64_t end = 0;  ///< behind the last one; larger than `start`
    Value value{};
    bool operator==(const Range&) const = default;
  };
  /// A part of a range that was asked about; none: it has no value.
  struct Part {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::optional<Value> value;
    bool operator==(const Part&) const = default;
  };

  /// Nothing for an empty range.
  void set(std::uint64_t start, std::uint64_t end, Value value) {
    if (start >= end) return;
    clear(start, end);
    auto next = ranges_.lower_bound(start);
    if (next != ranges_.end() && next->first == end && next->second.value == value) {
      end = next->second.end;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      auto& before = std::prev(next)->second;
      if (before.end == start && before.value == value) {
        before.end = end;
        return;
      }
    }
    ranges_.emplace_hint(next, start, Held{end, value});
  }
  void clear(std::uint64_t start, std::uint64_t end) {
    if (start >= end) return;
    for (auto at = first_behind(start); at != ranges_.end() && at->first < end;) {
      const auto [from, held] = *at;
      at = ranges_.erase(at);
      if (from < start) ranges_.emplace_hint(at, from, Held{start, held.value});
      if (held.end > end) ranges_.emplace_hint(at, end, held);
    }
  }
  void clear() { ranges_.clear(); }

  /// [start, end) in parts, with its gaps, from the lowest on.
  [[nodiscard]] std::vector<Part> parts(std::uint64_t start, std::uint64_t end) const {
    std::vector<Part> parts;
    for (auto at = first_behind(start); start < end && at != ranges_.end() && at->first < end; ++at) {
      if (at->first > start) parts.push_back({start, at->first, std::nullopt});
      const std::uint64_t from = std::max(start, at->first);
      start = std::min(end, at->second.end);
      parts.push_back({from, start, at->second.value});
    }
    if (start < end) parts.push_back({start, end, std::nullopt});
    return parts;
  }
  /// The first range that touches [start, end) and has a value for which `wanted(value)`.
  template <class Predicate>
  [[nodiscard]] std::optional<Range> find(std::uint64_t start, std::uint64_t end, Predicate wanted) const {
    for (auto at = first_behind(start); start < end && at != ranges_.end() && at->first < end; ++at)
      if (wanted(at->second.value)) return Range{at->first, at->second.end, at->second.value};
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Range> all() const {
    std::vector<Range> all;
    for (const auto& [start, held] : ranges_) all.push_back({start, held.end, held.value});
    return all;
  }
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] std::size_t size() const { return ranges_.size(); }

 private:
  struct Held {
    std::uint64_t end = 0;
    Value value{};
  };
  using Map = std::map<std::uint64_t, Held>;

  /// The first range that ends behind `start`.
  [[nodiscard]] typename Map::const_iterator first_behind(std::uint64_t start) const {
    auto at = ranges_.upper_bound(start);
    if (at != ranges_.begin() && std::prev(at)->second.end > start) --at;
    return at;
  }

  Map ranges_;  ///< by start
};

}  // namespace sandbar::base
