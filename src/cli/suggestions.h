// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sandbar::cli {

/// Insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b` (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that was probably meant: the one with the least edit distance, or the only one that `typed` begins; empty
/// when none is near (more than a third of the letters differ).
std::string nearest(std::string_view typed, const std::vector<std::string>& names);

}  // namespace sandbar::cli
