// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <algorithm>

#include "cli/output.h"

namespace sandbar::cli {
namespace {

constexpr std::size_t kWidth = 79;
constexpr std::size_t kWidestName = 26;  // a longer name has its text on the next line
constexpr std::size_t kMargin = 2;

std::size_t text_column(const std::vector<HelpRow>& rows) {
  std::size_t widest = 0;
  for (const auto& row : rows) {
    if (row.name.size() <= kWidestName) widest = std::max(widest, row.name.size());
  }
  return std::max<std::size_t>(widest, 6) + 2 * kMargin;
}

void append_row(std::string& out, const HelpRow& row, std::size_t column) {
  out.append(kMargin, ' ');
  out += row.name;
  if (row.name.size() + 2 * kMargin > column) {
    out += '\n';
    out.append(column, ' ');
  } else {
    out.append(column - kMargin - row.name.size(), ' ');
  }
  out += wrapped(row.text, kWidth, column) + '\n';
}

}  // namespace

std::string render(const HelpPage& page) {
  std::string out = "Usage: " + wrapped(page.usage, kWidth - 7, 7) + '\n';
  if (!page.summary.empty()) out += '\n' + wrapped(page.summary, kWidth) + '\n';
  for (const auto& section : page.sections) {
    if (section.rows.empty() && section.text.empty()) continue;
    out += '\n' + section.title + ":\n";
    const std::size_t column = text_column(section.rows);
    for (const auto& row : section.rows) append_row(out, row, column);
    if (!section.text.empty()) out += wrapped(section.text, kWidth) + '\n';
  }
  return out;
}

}  // namespace sandbar::cli
