// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "sandbar/error.h"

namespace sandbar::cli {

/// "PROGRAM: message" and a newline. What a sandbox put into the message cannot drive a terminal: base::printable.
void print_error(std::ostream& err, std::string_view program, std::string_view message);
void print_error(std::ostream& err, std::string_view program, const Error& error);

/// `word` as a POSIX shell would have to be given it; unchanged where it needs no quotes.
std::string shell_quote(std::string_view word);
/// The words as one line for a shell: what a message offers to be copied.
std::string shell_line(const std::vector<std::string>& words);

/// Breaks at spaces so that no line is wider than `width` columns (a longer word stands alone); every line but the
/// first is indented by `indent`. A line that begins with a space is kept as it is, so that examples survive.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

}  // namespace sandbar::cli
