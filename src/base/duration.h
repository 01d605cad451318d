// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace sandbar::base {

/// A time as people write it: a whole number with "ms", "s", "m", "h" or "d" behind it; without one, seconds. None for
/// anything else, and beyond 100 years.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

}  // namespace sandbar::base
