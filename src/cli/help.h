// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace sandbar::cli {

/// A name and what it means: an argument, an option, a verb, a mount option.
struct HelpRow {
  std::string name;
  std::string text;
};

struct HelpSection {
  std::string title;  ///< "Options"
  std::vector<HelpRow> rows;
  std::string text;  ///< paragraphs instead of rows; lines that begin with a space are kept as they are
};

struct HelpPage {
  std::string usage;    ///< "sandbox-mount [options] TARGET DIR"
  std::string summary;  ///< one paragraph
  std::vector<HelpSection> sections;
};

/// The page as text for 80 columns, whatever the terminal is: the same in a pipe, a test and a manual's check, which
/// reads names from the lines that are indented by exactly two spaces.
std::string render(const HelpPage& page);

}  // namespace sandbar::cli
