// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/help.h"

namespace sandbar::cli {
namespace {

TEST(PrintError, KeepsASandboxsBytesFromTheTerminal) {
  std::ostringstream err;
  print_error(err, "prog", "bad name \x1b[2J\nnext");
  EXPECT_EQ(err.str(), "prog: bad name \\x1b[2J\\x0anext\n");
}

TEST(ShellQuote, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_quote("ws://h:1/a-b_c,d=e"), "ws://h:1/a-b_c,d=e");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote("$x;"), "'$x;'");
  EXPECT_EQ(shell_line({"a", "b c"}), "a 'b c'");
}

TEST(Wrapped, BreaksAtTheWidthAndNotBefore) {
  EXPECT_EQ(wrapped("aaa bbb", 7), "aaa bbb");
  EXPECT_EQ(wrapped("aaa bbb", 6), "aaa\nbbb");
  EXPECT_EQ(wrapped("aaa bbb ccc", 9, 2), "aaa bbb\n  ccc") << "the first line starts at the indent's column";
  EXPECT_EQ(wrapped("a muchtoolongword b", 5), "a\nmuchtoolongword\nb");
}

TEST(Wrapped, KeepsParagraphsAndExamples) {
  EXPECT_EQ(wrapped("one\n\ntwo", 20), "one\n\ntwo");
  EXPECT_EQ(wrapped("text\n  example that is longer than the width", 10),
            "text\n  example that is longer than the width");
  EXPECT_EQ(wrapped("", 10), "");
}

TEST(Render, AlignsRowsAndSetsLongNamesApart) {
  HelpPage page{"prog [options]", "What it does.", {}};
  page.sections.push_back({"Options", {{"-a", "first"}, {"--" + std::string(40, 'x'), "second"}}, ""});
  page.sections.push_back({"Empty", {}, ""});
  page.sections.push_back({"Exit status", {}, "0 or 1"});
  EXPECT_EQ(render(page), "Usage: prog [options]\n\nWhat it does.\n\nOptions:\n  -a      first\n  --" +
                              std::string(40, 'x') + "\n          second\n\nExit status:\n0 or 1\n");
}

}  // namespace
}  // namespace sandbar::cli
