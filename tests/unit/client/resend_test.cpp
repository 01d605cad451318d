// SPDX-License-Identifier: Apache-2.0
// The table of "LOST SESSIONS" in sandbox-mux.7 and the one of the code are the same.
#include "client/resend.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/remote_fs.h"

namespace sandbar::client {
namespace {

const char* word(Resend resend) {
  switch (resend) {
    case Resend::again:
      return "again";
    case Resend::by_number:
      return "by number";
    case Resend::settled:
      return "settled";
    case Resend::unknown:
      break;
  }
  return "unknown";
}

std::string trimmed(const std::string& text) {
  const std::size_t end = text.find_last_not_of(' ');
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

/// The rows of the manual: request, where the journal is remembered, where it is forgotten.
std::map<std::string, std::pair<std::string, std::string>> manual() {
  std::ifstream file(SANDBAR_MANUAL);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::map<std::string, std::pair<std::string, std::string>> rows;
  const std::size_t title = text.find("\nrequest                      remembers    forgotten\n");
  if (title == std::string::npos) return rows;
  for (std::size_t at = text.find('\n', title + 1) + 1; text.compare(at, 3, ".EE") != 0;) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    EXPECT_TRUE(
        rows.emplace(trimmed(line.substr(0, 29)), std::pair(trimmed(line.substr(29, 13)), line.substr(42))).second)
        << line << " is there twice";
    at = end + 1;
  }
  return rows;
}

template <std::size_t... I>
std::vector<wire::RequestBody> one_of_each(std::index_sequence<I...>) {
  return {wire::RequestBody(std::in_place_index<I>)...};
}

/// Each request at its defaults, and those of which a field decides.
std::map<std::string, wire::RequestBody> requests() {
  std::map<std::string, wire::RequestBody> all;
  for (auto& request : one_of_each(std::make_index_sequence<std::variant_size_v<wire::RequestBody>>()))
    all.emplace(wire::request_name(request), request);
  all["open, O_TRUNC"] = wire::Open{{}, {}, 01 | 01000};
  all["write, append"] = wire::Write{{}, 0, true};
  all["set_xattr, flags"] = wire::SetXattr{{}, {}, 2};
  all["lock, unlock"] = wire::Lock{.handle = {}, .owner = {}, .type = wire::LockType::unlock};
  all["allocate, moving bytes"] = wire::Allocate{{}, 0x20, 0, 1};
  return all;
}

TEST(ResendTable, IsTheManuals) {
  const auto rows = manual();
  const auto all = requests();
  for (const auto& [name, request] : all) {
    const auto row = rows.find(name);
    ASSERT_NE(row, rows.end()) << name << " is not in the manual's table";
    EXPECT_EQ(row->second.first, word(resend_rule(request).known)) << name;
    EXPECT_EQ(row->second.second, word(resend_rule(request).forgotten)) << name;
  }
  for (const auto& [name, row] : rows) EXPECT_TRUE(all.contains(name)) << name << " is no request";
}

TEST(ResendTable, WhatGoesByNumberIsWhatHasOne) {
  for (const auto& [name, request] : requests()) {
    EXPECT_EQ(resend_rule(request).known == Resend::by_number, is_mutation(request)) << name;
    EXPECT_NE(resend_rule(request).forgotten, Resend::by_number) << name;
    EXPECT_TRUE(is_mutation(request) || !changes_names(request)) << name;
  }
}

TEST(ResendTable, OtherBitsOfAllocate) {
  for (const std::uint32_t mode : {0U, 1U, 2U | 1U, 0x10U, 0x40U})
    EXPECT_EQ(resend_rule(wire::Allocate{{}, mode, 0, 1}).forgotten, Resend::again) << mode;
  for (const std::uint32_t mode : {0x08U, 0x20U, 0x28U, 0x21U})
    EXPECT_EQ(resend_rule(wire::Allocate{{}, mode, 0, 1}).forgotten, Resend::unknown) << mode;
}

TEST(ResendTable, RequestsThatChangeNames) {
  std::set<std::string> found;
  for (const auto& [name, request] : requests())
    if (changes_names(request)) found.insert(name);
  EXPECT_EQ(found, (std::set<std::string>{"create", "make_directory", "make_link", "make_node", "make_symlink",
                                          "remove_directory", "rename", "unlink"}));
}

TEST(UsedIds, OfEachRequest) {
  const auto objects = [](const wire::RequestBody& request) {
    std::vector<std::uint64_t> ids;
    for (const auto id : used_ids(request).objects)
      if (id) ids.push_back(id.value);
    return ids;
  };
  const auto handles = [](const wire::RequestBody& request) {
    std::vector<std::uint64_t> ids;
    for (const auto id : used_ids(request).handles)
      if (id) ids.push_back(id.value);
    return ids;
  };
  using Ids = std::vector<std::uint64_t>;
  const wire::ObjectId one(1), two(2), three(3);
  const wire::HandleId four(4), five(5);
  EXPECT_EQ(objects(wire::Attach{one, "/"}), Ids{});
  EXPECT_EQ(objects(wire::Lookup{one, "n", two}), Ids{1});
  EXPECT_EQ(objects(wire::Restore{two, one, "n", 0, 0, {}}), Ids{1});
  EXPECT_EQ(objects(wire::Release{{one}}), Ids{});
  EXPECT_EQ(objects(wire::GetAttributes{one, four}), Ids{1});
  EXPECT_EQ(handles(wire::GetAttributes{one, four}), Ids{4});
  EXPECT_EQ(objects(wire::ReadLink{one, two, three, 0}), (Ids{1, 2, 3}));
  EXPECT_EQ(objects(wire::ReadLink{one, {}, three, 0}), Ids{1});
  EXPECT_EQ(objects(wire::MakeDirectory{one, "n", 0, two}), Ids{1});
  EXPECT_EQ(objects(wire::MakeLink{one, two, "n"}), (Ids{1, 2}));
  EXPECT_EQ(objects(wire::Rename{one, "a", two, "b", 0}), (Ids{1, 2}));
  EXPECT_EQ(objects(wire::Unlink{one, "a"}), Ids{1});
  EXPECT_EQ(objects(wire::Open{one, four, 0}), Ids{1});
  EXPECT_EQ(handles(wire::Open{one, four, 0}), Ids{});
  EXPECT_EQ(objects(wire::Create{one, "n", 0, 0, two, four}), Ids{1});
  EXPECT_EQ(handles(wire::Create{one, "n", 0, 0, two, four}), Ids{});
  EXPECT_EQ(handles(wire::Close{four}), Ids{4});
  EXPECT_EQ(handles(wire::List{four, 0, 0, true, two}), Ids{4});
  EXPECT_EQ(objects(wire::List{four, 0, 0, true, two}), Ids{});
  EXPECT_EQ(objects(wire::SetXattr{one, "n", 0}), Ids{1});
  EXPECT_EQ(handles(wire::Lock{.handle = four, .owner = {}}), Ids{4});
  EXPECT_EQ(handles(wire::CopyRange{four, 0, five, 0, 1}), (Ids{4, 5}));
}

}  // namespace
}  // namespace sandbar::client
