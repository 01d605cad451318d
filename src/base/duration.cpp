// SPDX-License-Identifier: Apache-2.0
#include "base/duration.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace sandbar::base {

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  using std::chrono::milliseconds;
  constexpr std::pair<std::string_view, milliseconds> kUnits[] = {
      {"", std::chrono::seconds(1)},  {"ms", milliseconds(1)},      {"s", std::chrono::seconds(1)},
      {"m", std::chrono::minutes(1)}, {"h", std::chrono::hours(1)}, {"d", std::chrono::hours(24)}};
  constexpr milliseconds kLongest = std::chrono::hours(24) * 36525;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, length] : kUnits) {
    if (unit != name) continue;
    if (number > static_cast<std::uint64_t>(kLongest / length)) return std::nullopt;
    return static_cast<milliseconds::rep>(number) * length;
  }
  return std::nullopt;
}

}  // namespace sandbar::base
