// SPDX-License-Identifier: Apache-2.0
#include "cli/suggestions.h"

#include <algorithm>

namespace sandbar::cli {
namespace {

// Bounds the quadratic work: an argument can be 128 KiB long, our names are short.
constexpr std::size_t kLongest = 64;

std::string only_completion(std::string_view typed, const std::vector<std::string>& names) {
  std::string found;
  for (const auto& name : names) {
    if (!name.starts_with(typed)) continue;
    if (!found.empty()) return {};
    found = name;
  }
  return found;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest(std::string_view typed, const std::vector<std::string>& names) {
  if (typed.empty() || typed.size() > kLongest) return {};
  std::string best;
  std::size_t least = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const auto& name : names) {
    const std::size_t distance = edit_distance(typed, name);
    // One letter alone is near to any other: no suggestion from that.
    if (distance >= std::min(least, std::max(typed.size(), name.size()))) continue;
    least = distance;
    best = name;
  }
  return best.empty() && typed.size() > 1 ? only_completion(typed, names) : best;
}

}  // namespace sandbar::cli
