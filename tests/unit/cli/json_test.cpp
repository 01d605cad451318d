// SPDX-License-Identifier: Apache-2.0
#include "cli/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace sandbar::cli {
namespace {

TEST(JsonString, EscapesWhatJsonDemands) {
  EXPECT_EQ(json_string(""), R"("")");
  EXPECT_EQ(json_string("plain /path"), R"("plain /path")");
  EXPECT_EQ(json_string("\"\\\n"), R"("\"\\\n")");
  EXPECT_EQ(json_string(std::string_view("\0\x1f\x7f", 3)), R"("\u0000\u001f\u007f")");
}

TEST(JsonString, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(json_string("Käse €😀"), "\"Käse €😀\"");
  EXPECT_EQ(json_string("a\xFF"
                        "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(json_string("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"") << "a sequence cut short at the end";
}

TEST(JsonObject, WritesFieldsInOrder) {
  JsonObject inner;
  inner.field("n", std::numeric_limits<std::uint64_t>::max());
  const JsonObject object =
      JsonObject().field("ready", true).field("url", "ws://h:1").field("least", INT64_MIN).field("inner", inner);
  EXPECT_EQ(object.text(),
            R"({"ready":true,"url":"ws://h:1","least":-9223372036854775808,"inner":{"n":18446744073709551615}})");
  EXPECT_EQ(JsonObject().text(), "{}");
}

TEST(ErrorJson, HasTheErrnoOnlyWhereThereIsOne) {
  EXPECT_EQ(error_json(make_error(Errc::timeout, "connect", "no answer")),
            R"({"error":{"code":"timeout","message":"connect: no answer"}})");
  EXPECT_EQ(error_json(os_error(2, "open")),
            R"({"error":{"code":"os","message":"open: No such file or directory","errno":2}})");
}

}  // namespace
}  // namespace sandbar::cli
