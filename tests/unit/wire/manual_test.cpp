// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "field_lister.h"
#include "wire/limits.h"

/// sandbox-mux.7 is the protocol's specification: it must have every request, reply, field and limit of the code.
namespace sandbar::wire {
namespace {

std::string read_manual() {
  std::ifstream file(SANDBAR_MANUAL);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (std::size_t at = 0; (at = text.find("\\\n")) != std::string::npos;) text.erase(at, 2);
  return text;
}

/// The part of `text` from `start` to `end`; empty where there is none.
std::string part(const std::string& text, const std::string& start, const std::string& end) {
  const std::size_t from = text.find(start);
  if (from == std::string::npos) return "";
  return text.substr(from, text.find(end, from + start.size()) - from);
}

/// How the manual writes the field, as far as it can be told from its list.
std::string written(const ListedField& field) {
  const char* type = field.holds == Holds::number32 ? "u32"
                     : field.holds == Holds::text   ? "text"
                     : field.holds == Holds::bytes  ? "bytes"
                                                    : "";
  return field.name + (field.needed ? ": " : "?: ") + type;
}

void expect_fields(const std::string& where, const std::string& text, const std::vector<ListedField>& fields) {
  ASSERT_FALSE(text.empty()) << where << " is missing";
  std::size_t at = 0;
  for (const ListedField& field : fields) {
    at = text.find(written(field), at);
    ASSERT_NE(at, std::string::npos) << where << " lacks, or has in another order: " << written(field);
  }
}

TEST(Manual, HasEveryRequest) {
  const std::string manual = read_manual();
  each_alternative<RequestBody>([&]<class Message>() {
    const std::string name(kWireName<Message>);
    std::string text = part(manual, ".BR " + name + " ", "\n.TP");
    text = text.substr(0, text.find(']', text.rfind("  [")) + 1);  // the heading: up to the reply's kind
    expect_fields(name, text, list_fields<Message>());
    const std::string kind(kWireName<typename Message::Reply>);
    const std::string shown = text.substr(text.rfind("  [") + 3);
    EXPECT_EQ(shown.substr(0, kind.size()), kind) << name;
  });
}

TEST(Manual, HasEveryReply) {
  const std::string kinds = part(read_manual(), "Kinds of replies", ".EE") + "\nend ";
  each_alternative<ReplyBody>([&]<class Message>() {
    const std::string name(kWireName<Message>);
    std::string text = kinds.substr(kinds.find("\n" + name) + 1);
    std::size_t end = text.find('\n');
    while (text.compare(end, 2, "\n ") == 0) end = text.find('\n', end + 1);  // what goes on is indented
    expect_fields(name, text.substr(0, end), list_fields<Message>());
  });
}

TEST(Manual, HasTheSessionsHeads) {
  const std::string manual = read_manual();
  const std::string hello = part(manual, ".SS Hello", ".EE");
  expect_fields("hello", hello, list_fields<Hello>());
  for (const ListedField& field : list_fields<Limits>())
    EXPECT_NE(hello.find("  " + field.name), std::string::npos) << field.name;
  expect_fields("goodbye", part(manual, ".SS Goodbye", ".EE"), list_fields<Goodbye>());
  expect_fields("request", part(manual, ".SS Request", ".EE"), list_fields<RequestContext>());
  for (const char* capability : {kCapabilityFilesPosix, kCapabilityProcess, kCapabilityAuthorize, kCapabilityResume})
    EXPECT_NE(manual.find(capability), std::string::npos) << capability;
}

std::string with_commas(std::size_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

TEST(Manual, HasEveryLimit) {
  const std::string limits = part(read_manual(), ".SH LIMITS", ".EE");
  const std::pair<const char*, std::size_t> all[] = {
      {"a frame's head ", kMaxHead},
      {"a frame's body ", kMaxFragment},
      {"a WebSocket message ", kMaxMessage},
      {"a request's or response's body ", kMaxBody},
      {"unanswered requests ", kMaxRequests},
      {"bodies of unanswered requests ", kRequestWindow},
      {"channels ", kMaxChannels},
      {"a direction of a channel ", kChannelWindow},
      {"levels of a head ", kMaxJsonDepth},
      {"elements of an array ", kMaxArray},
      {"fields of an object ", kMaxFields},
      {"values of a head ", kMaxValues},
      {"a name, of a file or extended attribute ", kMaxName},
      {"a name, of a file or extended attribute ", kMaxXattrName},
      {"a path ", kMaxPath},
      {"an extended attribute's value ", kMaxXattrValue},
      {"supplementary groups ", kMaxGroups},
      {"a process' id ", kMaxProcessId},
      {"unacknowledged frames ", kMaxUnacknowledged},
      {"reserve of these for small messages ", kUnacknowledgedReserve},
      {"texts of a hello, codes ", kMaxLabel},
      {"a token in a request ", kMaxToken},
      {"an error's message ", kMaxErrorText},
  };
  for (const auto& [what, value] : all) {
    const std::string line = part(limits, std::string("\n") + what, "\n");
    std::istringstream words(line.substr(std::min(line.size(), std::string(what).size())));
    std::string shown;
    words >> shown;
    EXPECT_EQ(shown, with_commas(value)) << what;
  }
}

}  // namespace
}  // namespace sandbar::wire
