// SPDX-License-Identifier: Apache-2.0
#include "vfs/list_page.h"

#include <gtest/gtest.h>

#include <limits>

#include "wire/dirents.h"

namespace sandbar::vfs {
namespace {

wire::DirEntry plain(const char* name, std::uint64_t cookie) { return {name, cookie, 1, 0, std::nullopt, 0}; }
wire::DirEntry full(const char* name, std::uint64_t cookie, std::uint32_t offset) {
  return {name, cookie, 1, 0, Attributes{}, offset};
}
base::Bytes body(const std::vector<wire::DirEntry>& entries) {
  base::Bytes bytes;
  for (const auto& entry : entries) wire::append_dir_entry(bytes, entry);
  return bytes;
}
bool refused(const PageRequest& request, const std::vector<wire::DirEntry>& entries) {
  const auto page = parse_page(request, body(entries));
  return !page && page.error().code == Errc::protocol;
}

PageRequest with_attributes(std::uint64_t reserved) {
  return {.cookie = 3, .max_bytes = 1000, .attributes = true, .first_object = wire::ObjectId(50), .reserved = reserved};
}

TEST(ListPage, OwnsTheIdsOfEntriesWithAttributes) {
  const auto page = parse_page(with_attributes(4), body({plain(".", 4), full("a", 5, 3), plain("gone", 6)}));
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->items.size(), 3U);
  EXPECT_FALSE(page->items[0].owned);
  EXPECT_TRUE(page->items[1].owned);
  EXPECT_EQ(page->object_of(page->items[1]), wire::ObjectId(53));
  EXPECT_FALSE(page->items[2].owned);
}

TEST(ListPage, RefusesWhatCannotBeRight) {
  EXPECT_TRUE(refused(with_attributes(4), {full("a", 5, 4)}));                    // not reserved
  EXPECT_FALSE(refused(with_attributes(4), {full("a", 5, 3), full("b", 6, 0)}));  // in any order
  EXPECT_TRUE(refused(with_attributes(4), {full("a", 5, 3), full("b", 6, 3)}));   // twice
  EXPECT_TRUE(refused(with_attributes(4), {full(".", 5, 0)}));
  EXPECT_TRUE(refused(with_attributes(4), {full("..", 5, 0)}));
  EXPECT_TRUE(refused({.cookie = 0, .max_bytes = 10}, {full("a", 5, 0)}));  // not asked for
  EXPECT_TRUE(refused(with_attributes(4), {plain("a", 0)}));                // the start again
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(refused(with_attributes(4), {plain("a", kLargest)}));
  EXPECT_TRUE(refused(with_attributes(4), {plain("a", kLargest + 1)}));
  EXPECT_EQ(parse_page(with_attributes(4), "garbage").error().code, Errc::protocol);
}

TEST(ListPage, FindsEachPlace) {
  auto page = *parse_page(with_attributes(4), body({plain("a", 5), plain("b", 9), plain("c", 7)}));
  EXPECT_EQ(page.position(3, true), 0U);
  EXPECT_EQ(page.position(5, true), 1U);
  EXPECT_EQ(page.position(9, false), 2U);
  EXPECT_EQ(page.position(7, true), 3U);
  EXPECT_EQ(page.position(4, true), std::nullopt);
  page.next = 2;
  EXPECT_EQ(page.position(9, true), 2U);
  EXPECT_EQ(page.position(5, true), 1U);
  page.attributes = false;
  EXPECT_EQ(page.position(5, true), std::nullopt);
  EXPECT_EQ(page.position(5, false), 1U);
  EXPECT_EQ(ListPage{}.position(0, false), std::nullopt);
}

TEST(ListPage, ReservesAnIdForEachEntryThatFits) {
  const std::size_t smallest = wire::dir_entry_size(full("a", 5, 0));
  for (const std::uint32_t bytes : {1U, 1000U, 256U * 1024, 1024U * 1024})
    EXPECT_GE(ids_for_page(bytes), bytes / smallest + 1);
}

}  // namespace
}  // namespace sandbar::vfs
