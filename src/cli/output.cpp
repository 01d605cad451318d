// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <algorithm>
#include <cctype>
#include <iostream>

#include "base/text.h"
#include "cli/io.h"

namespace sandbar::cli {
namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
}

void append_wrapped_line(std::string& out, std::string_view line, std::size_t width, std::size_t indent) {
  std::size_t column = out.empty() ? indent : 0;
  if (!out.empty()) {
    out.append(indent, ' ');
    column = indent;
  }
  bool first = true;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    if (!first && column + 1 + word.size() > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
    line.remove_prefix(std::min(end + 1, line.size()));
  }
}

}  // namespace

Io standard_io() { return Io{std::cin, std::cout, std::cerr}; }

void print_error(std::ostream& err, std::string_view program, std::string_view message) {
  err << program << ": " << base::printable(message) << '\n' << std::flush;
}

void print_error(std::ostream& err, std::string_view program, const Error& error) {
  print_error(err, program, error.message());
}

std::string shell_quote(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quote(word);
  }
  return line;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  bool first = true;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!first) out += '\n';
    if (line.starts_with(' ')) {
      out += line;
    } else if (!line.empty()) {
      append_wrapped_line(out, line, width, indent);
    }
    first = false;
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

}  // namespace sandbar::cli
