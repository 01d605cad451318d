// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/text.h"
#include "field_lister.h"
#include "wire/codec.h"

/// Every field of every message, with every kind of wrong value, and at its bounds.
namespace sandbar::wire {
namespace {

using Decode = std::function<Result<void>(const std::string& head)>;

Result<void> without_value(auto result) {
  if (!result.ok()) return std::move(result).error();
  return {};
}

void expect_accepted(const Decode& decode, const std::string& head) {
  const auto result = decode(head);
  EXPECT_TRUE(result.ok()) << head.substr(0, 300) << "\n" << (result.ok() ? "" : result.error().message());
}

/// Refused, and the text names the field.
void expect_refused(const Decode& decode, const std::string& head, const std::string& field) {
  const auto result = decode(head);
  ASSERT_FALSE(result.ok()) << head.substr(0, 300);
  EXPECT_EQ(result.error().code, Errc::protocol);
  EXPECT_NE(result.error().message().find(field), std::string::npos) << result.error().message();
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }
std::string b64(const std::string& bytes) { return "{\"b64\":" + quoted(base::base64_encode(bytes)) + "}"; }

void try_wrong_types(const Decode& decode, const std::string& kind, const std::vector<ListedField>& all,
                     std::size_t i) {
  for (const char* wrong :
       {"null", "-1", "1.5", "1e3", "18446744073709551616", "{}", "[[]]", "{\"b64\":1}", "{\"b64\":\"=\"}"})
    expect_refused(decode, head_with(kind, all, i, wrong), all[i].name);
  // A missing one.
  const std::string without = head_with(kind, all, i, "");
  if (all[i].needed)
    expect_refused(decode, without, all[i].name);
  else
    expect_accepted(decode, without);
  // One that comes twice, with the same value.
  const std::string twice = all[i].json + "," + quoted(all[i].name) + ":" + all[i].json;
  expect_refused(decode, head_with(kind, all, i, twice), "twice");
}

void try_bounds(const Decode& decode, const std::string& kind, const std::vector<ListedField>& all, std::size_t i) {
  auto accepted = [&](const std::string& json) { expect_accepted(decode, head_with(kind, all, i, json)); };
  auto refused = [&](const std::string& json) { expect_refused(decode, head_with(kind, all, i, json), all[i].name); };
  const ListedField& field = all[i];
  if (field.holds == Holds::number32) {
    accepted("4294967295");
    refused("4294967296");
  }
  if (field.holds == Holds::text || field.holds == Holds::bytes) {
    accepted(quoted(std::string(field.most, 'n')));
    refused(quoted(std::string(field.most + 1, 'n')));
    refused(quoted("a\\u0000b"));
  }
  if (field.holds == Holds::text) refused(b64("name"));
  if (field.holds == Holds::bytes) {
    accepted(b64(std::string(field.most, '\xFF')));
    for (std::size_t more = 1; more < 6; ++more) refused(b64(std::string(field.most + more, '\xFF')));
    refused(b64(std::string("a\0b", 3)));
  }
}

void try_message(const Decode& decode, const std::string& kind, const std::vector<ListedField>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    try_wrong_types(decode, kind, all, i);
    try_bounds(decode, kind, all, i);
  }
  // Fields of newer versions, and any order of those that are known.
  std::vector<ListedField> more(all.rbegin(), all.rend());
  more.push_back({"of_a_newer_version", false, R"({"any":[1,null,{"x":1.5}]})", Holds::other, 0});
  expect_accepted(decode, head_with(kind, more, more.size(), ""));
}

TEST(BadField, OfEveryRequest) {
  const Decode decode = [](const std::string& head) { return without_value(decode_request(head)); };
  each_alternative<RequestBody>([&]<class Message>() {
    std::vector<ListedField> all = list_fields<Message>();
    for (const ListedField& field : list_fields<RequestContext>()) all.push_back(field);
    try_message(decode, "\"op\":" + quoted(std::string(kWireName<Message>)), all);
  });
}

TEST(BadField, OfEveryReply) {
  const Decode decode = [](const std::string& head) { return without_value(decode_reply(head)); };
  each_alternative<ReplyBody>([&]<class Message>() {
    std::vector<ListedField> all = list_fields<Message>();
    all.push_back({"change", false, "18446744073709551615", Holds::other, 0});
    try_message(decode, "\"is\":" + quoted(std::string(kWireName<Message>)), all);
  });
}

TEST(BadField, OfHelloAndGoodbye) {
  const Decode hello = [](const std::string& head) { return without_value(decode_hello(head)); };
  try_message(hello, "", list_fields<Hello>());
  const Decode goodbye = [](const std::string& head) { return without_value(decode_goodbye(head)); };
  try_message(goodbye, "", list_fields<Goodbye>());
}

TEST(BadField, OfErrorAndCredit) {
  const Decode error = [](const std::string& head) {
    Error into;
    return decode_error(head, into);
  };
  try_message(error, "",
              {{"code", true, "\"unsupported\"", Holds::text, kMaxLabel},
               {"errno", false, "17", Holds::number32, 0},
               {"message", false, "\"why\"", Holds::text, kMaxErrorText}});
  const Decode credit = [](const std::string& head) { return without_value(decode_credit(head)); };
  try_message(credit, "", {{"bytes", true, "65536", Holds::other, 0}});
}

TEST(BadField, LimitsOfZeroAndMissingOnes) {
  const Decode decode = [](const std::string& head) { return without_value(decode_hello(head)); };
  const std::vector<ListedField> all = list_fields<Limits>();
  ASSERT_EQ(all.size(), 5U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_refused(decode, "{\"limits\":" + head_with("", all, i, "0") + "}", "limit");
    expect_refused(decode, "{\"limits\":" + head_with("", all, i, "") + "}", "limits is missing");
    expect_accepted(decode, "{\"limits\":" + head_with("", all, i, "1") + "}");
  }
}

TEST(BadField, ErrnoOfOsErrors) {
  const Decode decode = [](const std::string& head) {
    Error into;
    return decode_error(head, into);
  };
  expect_refused(decode, R"({"code":"os"})", "errno");
  expect_refused(decode, R"({"code":"os","errno":0})", "errno");
  expect_accepted(decode, R"({"code":"os","errno":1})");
  expect_accepted(decode, R"({"code":"os","errno":4095})");
  expect_refused(decode, R"({"code":"os","errno":4096})", "errno");
}

struct Place {
  const char* before;
  const char* after;
};

TEST(BadField, Times) {
  const Decode reply = [](const std::string& head) { return without_value(decode_reply(head)); };
  const Decode request = [](const std::string& head) { return without_value(decode_request(head)); };
  const std::string set = R"({"op":"set_attributes","object":1,"modified":)";
  const std::string got = R"({"is":"attributes","attributes":[1,2,)";
  const std::string rest = R"(,3,4,5,6,7,8,9,10,[0,0],[0,0],[0,0],false]})";
  for (const char* good : {"[0,0]", "[-9223372036854775808,999999999]", "[9223372036854775807,0]", "[1,2,3]"}) {
    expect_accepted(request, set + good + "}");
    expect_accepted(reply, got + good + rest);
  }
  for (const char* bad : {"[]", "[1]", "[1,1000000000]", "[1,-1]", "[1,4294967296]", "[9223372036854775808,0]",
                          "[1.5,0]", "[\"1\",0]", "1", "{\"s\":1}"}) {
    expect_refused(request, set + bad + "}", "modified");
    expect_refused(reply, got + bad + rest, "attributes");
  }
}

TEST(BadField, AttributesWithTooFewElementsOrMore) {
  const Decode decode = [](const std::string& head) { return without_value(decode_reply(head)); };
  std::string head = R"({"is":"attributes","attributes":[1,2,[0,0],3,4,5,6,7,8,9,10,[0,0],[0,0],[0,0])";
  expect_refused(decode, head + "]}", "too few");
  expect_refused(decode, head + ",1]}", "attributes");
  expect_accepted(decode, head + ",true]}");
  expect_accepted(decode, head + ",true,[\"of a newer version\"]]}");
}

TEST(BadField, Caller) {
  const Decode decode = [](const std::string& head) { return without_value(decode_request(head)); };
  auto with = [](const std::string& caller) { return R"({"op":"close","handle":1,"caller":)" + caller + "}"; };
  for (const char* bad : {"[]", "[1,2,[]]", "[1,2,[-1],4]", "[1,2,3,4]", "[4294967296,2,[],4]", "[1,2,[4294967296],4]",
                          "[1,2,[],\"022\"]", "{\"uid\":1}"})
    expect_refused(decode, with(bad), "caller");
  auto groups = [&](std::size_t count) {
    std::string list = "1";
    for (std::size_t i = 1; i < count; ++i) list += ",1";
    return with("[1,2,[" + list + "],18]");
  };
  expect_accepted(decode, groups(kMaxGroups));
  expect_refused(decode, groups(kMaxGroups + 1), "groups");
}

TEST(BadField, WordsThatAreUnknown) {
  const Decode decode = [](const std::string& head) { return without_value(decode_request(head)); };
  expect_refused(decode, R"({"op":"lock","handle":1,"owner":2,"kind":"ofd","type":"read"})", "kind");
  expect_refused(decode, R"({"op":"lock","handle":1,"owner":2,"kind":"posix","type":"Read"})", "type");
  expect_accepted(decode, R"({"op":"lock","handle":1,"owner":2,"kind":"posix","type":"unlock"})");
}

TEST(BadField, KindsThatAreUnknown) {
  const Decode request = [](const std::string& head) { return without_value(decode_request(head)); };
  for (const char* name : {"", "loo", "lookups", "LOOKUP", "attributes", "zzz", "a"})
    expect_refused(request, R"({"op":")" + std::string(name) + R"(","object":1})", "op is unknown");
  expect_refused(request, R"({"op":")" + std::string(65, 'x') + R"("})", "op is too long");
  expect_refused(request, R"({"object":1})", "op is missing");
  const Decode reply = [](const std::string& head) { return without_value(decode_reply(head)); };
  expect_refused(reply, R"({"is":"lookup"})", "is is unknown");
  // The peer's text is in ours, so it must not drive a terminal.
  const auto escape = request("{\"op\":\"\\u001b[2J\"}");
  ASSERT_FALSE(escape.ok());
  EXPECT_NE(escape.error().message().find("\\x1b[2J"), std::string::npos) << escape.error().message();
}

}  // namespace
}  // namespace sandbar::wire
