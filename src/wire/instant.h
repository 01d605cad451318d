// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace sandbar::wire {

/// A second of the wall clock, as grants have it. In JSON it is written as a number, and read as a number or as what
/// REST services write: RFC 3339.
struct Instant {
  std::uint64_t seconds = 0;  ///< since 1970, UTC
  auto operator<=>(const Instant&) const = default;
};

/// "2026-01-31T12:00:00Z", also with a fraction (cut off) and an offset ("+02:00"). False for anything else, and for
/// what lies before 1970.
bool parse_instant(std::string_view text, Instant& into);

}  // namespace sandbar::wire
