// SPDX-License-Identifier: Apache-2.0
#include "wire/instant.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace sandbar::wire {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes `count` digits from the front.
bool take_number(std::string_view& text, std::size_t count, int most, int& into) {
  if (text.size() < count) return false;
  into = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_digit(text[i])) return false;
    into = into * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return into <= most;
}

bool take(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// "Z", "+02:00": seconds to subtract.
bool take_offset(std::string_view& text, int& seconds) {
  seconds = 0;
  if (take(text, "Zz")) return true;
  const bool behind = !text.empty() && text.front() == '-';
  int hours = 0;
  int minutes = 0;
  if (!take(text, "+-") || !take_number(text, 2, 23, hours) || !take(text, ":") || !take_number(text, 2, 59, minutes))
    return false;
  seconds = (hours * 60 + minutes) * 60 * (behind ? -1 : 1);
  return true;
}

}  // namespace

bool parse_instant(std::string_view text, Instant& into) {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int offset = 0;
  // 60: a leap second, which counts as the next one.
  if (!take_number(text, 4, 9999, year) || !take(text, "-") || !take_number(text, 2, 12, month) || !take(text, "-") ||
      !take_number(text, 2, 31, day) || !take(text, "Tt ") || !take_number(text, 2, 23, hour) || !take(text, ":") ||
      !take_number(text, 2, 59, minute) || !take(text, ":") || !take_number(text, 2, 60, second))
    return false;
  if (take(text, ".")) {
    if (text.empty() || !is_digit(text.front())) return false;
    text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
  }
  if (!take_offset(text, offset) || !text.empty()) return false;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return false;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset;
  if (seconds < 0) return false;
  into.seconds = static_cast<std::uint64_t>(seconds);
  return true;
}

}  // namespace sandbar::wire
