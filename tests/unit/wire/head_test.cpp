// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "wire/codec.h"
#include "wire/json.h"
#include "wire/limits.h"

/// Heads as a whole: what is not JSON, the bounds of depth, counts and size, errors' texts.
namespace sandbar::wire {
namespace {

/// Why `head` is refused, "" when it is not.
std::string fault_of(const std::string& head) {
  json::Document document;
  const char* why = document.parse(head);
  return why == nullptr ? "" : why;
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Head, WhatIsNoObject) {
  for (const char* head : {"",
                           " ",
                           "{",
                           "}",
                           "{}x",
                           "{}{}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "{\"a\" 1}",
                           "{\"a\":01}",
                           "{\"a\":.5}",
                           "{\"a\":+1}",
                           "{\"a\":NaN}",
                           "{\"a\":Infinity}",
                           "{\"a\":1e999}",
                           "{\"a\":tru}",
                           "{\"a\":\"\x01\"}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"b}",
                           "{/**/}",
                           "\xEF\xBB\xBF{}",
                           "[1,2",
                           "\"a"})
    EXPECT_EQ(fault_of(head), "it is not JSON in UTF-8") << head;
  for (const char* head : {"[]", "1", "null", "\"a\"", "true"})
    EXPECT_EQ(fault_of(head), "it is not a JSON object") << head;
  for (const char* head : {"{}", " {} ", "\n{\"a\" : 1}\t", "{\"\":0}"}) EXPECT_EQ(fault_of(head), "") << head;
}

TEST(Head, ZeroBytes) {
  EXPECT_NE(fault_of(std::string("{}\0", 3)), "");
  EXPECT_NE(fault_of(std::string("{}\0{", 4)), "");
  EXPECT_NE(fault_of(std::string("\0{}", 3)), "");
  EXPECT_NE(fault_of(std::string("{\"a\":\"\0\"}", 9)), "");
  EXPECT_NE(fault_of(std::string("{\"a\":1\0}", 8)), "");
}

TEST(Head, WhatIsNotUtf8) {
  for (const char* text : {"\xFF", "\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                           "\xF8\x88\x80\x80\x80", "\\ud800", "\\ud800\\u0041", "\\udc00"}) {
    const std::string in_value = "{\"a\":\"" + std::string(text) + "\"}";
    const std::string in_key = "{\"" + std::string(text) + "\":1}";
    EXPECT_EQ(fault_of(in_value), "it is not JSON in UTF-8") << base::printable(in_value);
    EXPECT_EQ(fault_of(in_key), "it is not JSON in UTF-8") << base::printable(in_key);
  }
  EXPECT_EQ(fault_of("{\"a\":\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\\ud83d\\ude00\"}"), "");
}

TEST(Head, Depth) {
  // The object itself is the first level.
  auto nested = [](std::size_t levels) {
    return "{\"a\":" + repeated("[", levels - 1) + repeated("]", levels - 1) + "}";
  };
  EXPECT_EQ(fault_of(nested(kMaxJsonDepth)), "");
  EXPECT_EQ(fault_of(nested(kMaxJsonDepth + 1)), "it is nested too deep");
  auto objects = [](std::size_t levels) { return repeated("{\"a\":", levels) + "1" + repeated("}", levels); };
  EXPECT_EQ(fault_of(objects(kMaxJsonDepth)), "");
  EXPECT_EQ(fault_of(objects(kMaxJsonDepth + 1)), "it is nested too deep");
  EXPECT_EQ(fault_of("{\"a\":" + repeated("[", kMaxHead - 10)), "it is nested too deep");
  EXPECT_EQ(fault_of(repeated("{\"a\":", 50'000)), "it is nested too deep");
  // Levels are counted where they are, not how many there were.
  EXPECT_EQ(fault_of("{\"a\":[" + repeated("[],", 1000) + "[]]}"), "");
}

std::string array_of(std::size_t count, const std::string& element = "0") {
  return count == 0 ? "[]" : "[" + repeated(element + ",", count - 1) + element + "]";
}
std::string object_of(std::size_t count, const std::string& value = "0") {
  std::string out = "{";
  for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":" + value;
  return out + "}";
}

TEST(Head, ElementsOfAnArray) {
  EXPECT_EQ(fault_of("{\"a\":" + array_of(kMaxArray) + "}"), "");
  EXPECT_EQ(fault_of("{\"a\":" + array_of(kMaxArray + 1) + "}"), "an array has too many elements");
  EXPECT_EQ(fault_of("{\"a\":" + array_of(kMaxArray + 1, "[]") + "}"), "an array has too many elements");
  EXPECT_EQ(fault_of("{\"a\":" + array_of(kMaxArray + 1, "\"\"") + "}"), "an array has too many elements");
}

TEST(Head, FieldsOfAnObject) {
  EXPECT_EQ(fault_of(object_of(kMaxFields)), "");
  EXPECT_EQ(fault_of(object_of(kMaxFields + 1)), "an object has too many fields");
  EXPECT_EQ(fault_of("{\"a\":" + object_of(kMaxFields + 1, "[]") + "}"), "an object has too many fields");
}

TEST(Head, ValuesAltogether) {
  // The object and its arrays are values too.
  const std::string arrays = array_of(kMaxArray) + ",\"b\":" + array_of(kMaxArray) + ",\"c\":" + array_of(kMaxArray);
  const std::size_t left = kMaxValues - 1 - 3 * (kMaxArray + 1) - 1;
  EXPECT_EQ(fault_of("{\"a\":" + arrays + ",\"d\":" + array_of(left) + "}"), "");
  EXPECT_EQ(fault_of("{\"a\":" + arrays + ",\"d\":" + array_of(left + 1) + "}"), "it has too many values");
}

TEST(Head, Duplicates) {
  for (const char* head : {"{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":2,\"a\":null}", "{\"a\":{\"x\":1,\"x\":2}}",
                           "{\"a\":[[{\"x\":1,\"\\u0078\":2}]]}", "{\"\":1,\"\":2}"})
    EXPECT_EQ(fault_of(head), "a field is given twice") << head;
  EXPECT_EQ(fault_of("{\"a\":{\"a\":[{\"a\":1},{\"a\":1}]},\"A\":1,\"a\\u0000\":1}"), "");
}

TEST(Head, Size) {
  auto of_size = [](std::size_t size) { return "{\"a\":\"" + std::string(size - 8, 'x') + "\"}"; };
  ASSERT_EQ(of_size(100).size(), 100U);
  EXPECT_EQ(fault_of(of_size(kMaxHead)), "");
  EXPECT_EQ(fault_of(of_size(kMaxHead + 1)), "it is too long");
}

TEST(Head, MemoryIsASmallMultipleOfTheInput) {
  // Each fills a head with what takes the most memory for a byte of text.
  const std::string heads[] = {
      "{\"a\":" + array_of(kMaxArray) + ",\"b\":" + array_of(kMaxArray) + ",\"c\":" + array_of(kMaxArray) + "}",
      "{\"a\":" + array_of(kMaxArray - 1, "[0,0,0]") + "}",
      "{\"a\":" + array_of(kMaxArray - 1, "{\"\":0}") + "}",
      "{\"a\":" + array_of(kMaxArray, "\"\"") + ",\"b\":" + array_of(kMaxArray, "\"\"") + "}",
      "{\"a\":" + array_of(500, object_of(kMaxFields)) + "}",
      "{\"a\":" + array_of(kMaxArray, "[]") + ",\"b\":" + array_of(kMaxArray, "{}") + "}",
      "{\"a\":" + repeated("[" + repeated("0,", kMaxArray - 1), 6),
      "{\"a\":\"" + std::string(kMaxHead - 8, 'x') + "\"}",
      "{\"a\":[" + repeated("\"" + std::string(30, 'x') + "\",", 7000) + "0]}",
      "{\"a\":\"" + repeated("\\n", kMaxHead / 2 - 4) + "\"}",
      repeated("{\"a\":", 40'000),
      "{\"a\":" + std::string(kMaxHead - 6, '1') + "}",
  };
  for (const std::string& head : heads) {
    json::Document document;
    static_cast<void>(document.parse(head));
    // 12 times, and the smallest pieces that are taken (64 KiB chunks) for small ones.
    EXPECT_LE(document.capacity(), 12 * head.size() + 256 * 1024) << head.substr(0, 60) << " " << head.size();
  }
}

TEST(Head, LargestRequestsFit) {
  Request release{{}, Release{std::vector<ObjectId>(kMaxArray, ObjectId(UINT64_MAX))}};
  const base::Bytes head = encode_request(release);
  EXPECT_LE(head.size(), kMaxHead);
  const auto back = decode_request(head);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_TRUE(*back == release);

  // The longest paths in base64, with a caller of many groups.
  Caller caller{UINT32_MAX, UINT32_MAX, std::vector<std::uint32_t>(kMaxGroups, UINT32_MAX), 0777};
  const base::Bytes path(kMaxPath, '\xFF');
  Request symlink{{caller, MutationNumber(UINT64_MAX), MutationNumber(UINT64_MAX)},
                  MakeSymlink{ObjectId(1), base::Bytes(kMaxName, '\xFF'), path, ObjectId(2)}};
  const auto again = decode_request(encode_request(symlink));
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_TRUE(*again == symlink);

  Spawn spawn;
  spawn.id = std::string(kMaxProcessId, 'i');
  spawn.argv.assign(kMaxArray, "a");
  spawn.env.assign(kMaxArray, "A=1");
  const auto spawned = decode_request(encode_request({{}, spawn}));
  ASSERT_TRUE(spawned.ok()) << spawned.error().message();
  EXPECT_TRUE(std::get<Spawn>(spawned->body) == spawn);
  spawn.argv.emplace_back("one more");
  EXPECT_FALSE(decode_request(encode_request({{}, spawn})).ok());
}

TEST(Head, OneStringMayTakeNearlyAll) {
  Spawn spawn;
  spawn.id = "x";
  spawn.argv = {"sh", "-c", std::string(kMaxHead - 200, 'y')};
  const auto back = decode_request(encode_request({{}, spawn}));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_TRUE(std::get<Spawn>(back->body) == spawn);
  spawn.argv.push_back(std::string(200, 'y'));
  const auto beyond = decode_request(encode_request({{}, spawn}));
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, Errc::protocol);
}

Error through_wire(const Error& error) {
  Error back;
  const base::Bytes head = encode_error(error);
  const auto read = decode_error(head, back);
  EXPECT_TRUE(read.ok()) << head << (read.ok() ? "" : read.error().message());
  return back;
}

TEST(ErrorHead, EveryCodeAndItsText) {
  for (const Errc code : {Errc::invalid, Errc::timeout, Errc::cancelled, Errc::disconnected, Errc::unauthorized,
                          Errc::protocol, Errc::unsupported, Errc::limit, Errc::unknown, Errc::internal}) {
    const Error error = make_error(code, "do it", "it cannot be");
    const Error back = through_wire(error);
    EXPECT_EQ(back.code, code);
    EXPECT_EQ(back.os_errno, 0);
    EXPECT_EQ(back.message(), error.message());
  }
  EXPECT_EQ(through_wire(make_error(Errc::limit, "", "")).message(), "limit");
}

TEST(ErrorHead, ErrnoIsToldOnce) {
  const Error back = through_wire(os_error(2, "open", "a.txt"));
  EXPECT_EQ(back.code, Errc::os);
  EXPECT_EQ(back.os_errno, 2);
  EXPECT_EQ(back.message(), "open: a.txt: No such file or directory");
  EXPECT_EQ(through_wire(os_error(13, "open")).message(), "open: Permission denied");
}

TEST(ErrorHead, OneWithoutAProperErrnoIsEio) {
  EXPECT_EQ(through_wire(os_error(0, "x")).os_errno, 5);
  EXPECT_EQ(through_wire(os_error(-2, "x")).os_errno, 5);
  EXPECT_EQ(through_wire(os_error(4096, "x")).os_errno, 5);
  EXPECT_EQ(through_wire(os_error(4095, "x")).os_errno, 4095);
}

TEST(ErrorHead, CodesOfNewerVersionsAreInternal) {
  Error back;
  ASSERT_TRUE(decode_error(R"({"code":"of_tomorrow","errno":7,"message":"m"})", back).ok());
  EXPECT_EQ(back.code, Errc::internal);
  EXPECT_EQ(back.os_errno, 0);
  EXPECT_EQ(back.message(), "m");
}

TEST(ErrorHead, LongTextsAreCutBetweenCharacters) {
  EXPECT_EQ(through_wire(make_error(Errc::limit, "", std::string(kMaxErrorText, 'x'))).detail.size(), kMaxErrorText);
  EXPECT_EQ(through_wire(make_error(Errc::limit, "", std::string(kMaxErrorText + 1, 'x'))).detail.size(),
            kMaxErrorText);
  const std::string euros = repeated("\xE2\x82\xAC", kMaxErrorText);
  const std::string back = through_wire(make_error(Errc::limit, "", euros)).detail;
  EXPECT_EQ(back.size(), kMaxErrorText / 3 * 3);
  EXPECT_TRUE(base::is_utf8(back));
  EXPECT_EQ(through_wire(make_error(Errc::limit, "", std::string(100'000, '\xFF'))).detail.size(), kMaxErrorText);
}

TEST(ErrorHead, WhatIsNotTextIsEscaped) {
  EXPECT_EQ(through_wire(make_error(Errc::limit, "open", std::string("a\xFF\x1B\0b", 5))).detail,
            "open: a\\xff\\x1b\\x00b");
  const auto goodbye = decode_goodbye(encode_goodbye({"protocol", "\xFF" + std::string(kMaxErrorText, 'x')}));
  ASSERT_TRUE(goodbye.ok());
  EXPECT_EQ(goodbye->message.size(), kMaxErrorText);
  EXPECT_EQ(goodbye->message.substr(0, 5), "\\xffx");
}

}  // namespace
}  // namespace sandbar::wire
