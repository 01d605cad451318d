// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace sandbar::base {
namespace {

TEST(IsUtf8, FirstAndLastOfEachLength) {
  for (const char* good : {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "a\xC3\xA4z"})
    EXPECT_TRUE(is_utf8(good)) << hex(good);
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
}

TEST(IsUtf8, WhatIsNot) {
  for (const char* bad : {"\x80",
                          "\xBF",
                          "\xC0\x80",
                          "\xC1\xBF",
                          "\xE0\x9F\xBF",
                          "\xED\xA0\x80",
                          "\xED\xBF\xBF",
                          "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80",
                          "\xF8\x88\x80\x80\x80",
                          "\xFE",
                          "\xFF",
                          "\xC2",
                          "\xE2\x82",
                          "\xF0\x9F\x98",
                          "\xC2\x41",
                          "\xE2\x82\x41",
                          "a\xFFz",
                          "\xC2\xC2\x80"})
    EXPECT_FALSE(is_utf8(bad)) << hex(bad);
}

TEST(Printable, LeavesText) {
  for (const char* text : {"", "plain text", "back\\slash", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC2\xA0"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatDrivesATerminal) {
  EXPECT_EQ(printable("a\nb\r\t"), "a\\x0ab\\x0d\\x09");
  EXPECT_EQ(printable("\x1B[31m"), "\\x1b[31m");
  EXPECT_EQ(printable("\x7F"), "\\x7f");
  EXPECT_EQ(printable("\xC2\x80\xC2\x9F"), "\\xc2\\x80\\xc2\\x9f");  // C1 controls
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xFF\xC3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xE2\x82z"), "\\xe2\\x82z");
}

TEST(Base64, Rfc4648) {
  const std::vector<std::pair<std::string, std::string>> vectors{{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"},
                                                                 {std::string("\0\xFF\xFE", 3), "AP/+"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64_encode(bytes), text);
    std::string back = "left over";
    EXPECT_TRUE(base64_decode(text, back)) << text;
    EXPECT_EQ(back, bytes);
  }
}

TEST(Base64, AllBytesAtAllLengths) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    std::string back;
    ASSERT_TRUE(base64_decode(base64_encode(bytes), back));
    ASSERT_EQ(back, bytes);
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Base64, WhatIsNot) {
  std::string into;
  for (const char* bad : {"Z", "Zg", "Zg=", "Zm9", "Zg==Zg==", "====", "=g==", "Zm9v=", "Zm9v\n", "Zm 9", "Zm9-",
                          "Zm9_", "Z===", "Zh==", "Zm9=", "Zg=g", "\xFFg=="})
    EXPECT_FALSE(base64_decode(bad, into)) << bad;
}

TEST(Hex, LowerCase) { EXPECT_EQ(hex(std::string_view("\0\x1F\xFF", 3)), "001fff"); }

TEST(RandomBytes, OfTheSizeAndDifferent) {
  EXPECT_EQ(random_bytes(0), "");
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string bytes = random_bytes(16);
    EXPECT_EQ(bytes.size(), 16U);
    EXPECT_TRUE(seen.insert(bytes).second);
  }
  // More than getrandom(2) gives at once when a signal comes (256).
  EXPECT_EQ(random_bytes(100'000).size(), 100'000U);
}

}  // namespace
}  // namespace sandbar::base
