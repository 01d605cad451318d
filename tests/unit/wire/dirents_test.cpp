// SPDX-License-Identifier: Apache-2.0
#include "wire/dirents.h"

#include <gtest/gtest.h>

#include "wire/limits.h"

namespace sandbar::wire {
namespace {

constexpr std::size_t kFixed = 28;
constexpr std::size_t kAttributes = 112;

Attributes some_attributes() {
  Attributes a{1, 2, {-3, 999'999'999}, 0100644, 5, 6, 7, 8, 9, 10, 11, {12, 13}, {-14, 15}, {16, 17}, true};
  a.device = UINT64_MAX;
  return a;
}

DirEntry plain(base::Bytes name) {
  DirEntry entry;
  entry.name = std::move(name);
  entry.cookie = 0x0102030405060708;
  entry.inode = UINT64_MAX;
  entry.type = 0100000;
  entry.object_offset = 0xFFFFFFFF;
  return entry;
}

DirEntry with_attributes(base::Bytes name) {
  DirEntry entry = plain(std::move(name));
  entry.attributes = some_attributes();
  return entry;
}

base::Bytes packed(const DirEntry& entry) {
  base::Bytes body;
  append_dir_entry(body, entry);
  return body;
}

std::string why(base::BytesView body) {
  const auto entries = decode_dir_entries(body);
  if (entries.ok()) return "";
  EXPECT_EQ(entries.error().code, Errc::protocol);
  return entries.error().detail;
}

TEST(DirEntries, RoundTrip) {
  std::vector<DirEntry> entries{plain("."),
                                plain(".."),
                                with_attributes("a"),
                                plain("\xFF\n\x01 \\"),
                                with_attributes(base::Bytes(kMaxName, 'n')),
                                DirEntry{"zeros", 0, 0, 0, {}, 0}};
  entries[2].attributes->has_xattrs = false;
  base::Bytes body;
  for (const DirEntry& entry : entries) {
    const std::size_t before = body.size();
    append_dir_entry(body, entry);
    EXPECT_EQ(body.size() - before, dir_entry_size(entry));
  }
  const auto back = decode_dir_entries(body);
  ASSERT_TRUE(back.ok()) << back.error().message();
  ASSERT_EQ(back->size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) EXPECT_TRUE((*back)[i] == entries[i]) << i;
}

TEST(DirEntries, BytesOnTheWire) {
  const base::Bytes body = packed(with_attributes("name"));
  ASSERT_EQ(body.size(), kFixed + kAttributes + 4);
  EXPECT_EQ(body.substr(0, 16), base::Bytes("\1\4\0\0\0\x80\0\0\x08\7\6\5\4\3\2\1", 16));
  EXPECT_EQ(body.substr(16, 12), base::Bytes(12, '\xFF'));                                      // inode, object offset
  EXPECT_EQ(body.substr(28, 16), base::Bytes(8, '\xFF') + base::Bytes("\2\0\0\0\0\0\0\0", 8));  // device, inode
  EXPECT_EQ(body.substr(28 + 40, 8), base::Bytes("\xFD", 1) + base::Bytes(7, '\xFF'));          // birth: -3 s
  EXPECT_EQ(body.substr(28 + 72, 4), base::Bytes("\xFF\xC9\x9A\x3B", 4));                       // 999,999,999 ns
  EXPECT_EQ(body.substr(28 + 88, 4), base::Bytes("\xA4\x81\0\0", 4));                           // mode
  EXPECT_EQ(body.substr(28 + 108), base::Bytes("\1\0\0\0name", 8));
}

TEST(DirEntries, AnEmptyBodyIsTheEnd) {
  const auto back = decode_dir_entries("");
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->empty());
}

TEST(DirEntries, CutAnywhere) {
  for (const DirEntry& entry : {plain("abc"), with_attributes("abc")}) {
    const base::Bytes body = packed(entry);
    for (std::size_t size = 1; size < body.size(); ++size) {
      EXPECT_EQ(why(base::BytesView(body).substr(0, size)), "a cut record") << size;
      EXPECT_EQ(why(body + body.substr(0, size)), "a cut record") << size;
    }
  }
}

TEST(DirEntries, Names) {
  base::Bytes empty = packed(plain("a"));
  empty[1] = 0;
  empty.pop_back();
  EXPECT_EQ(why(empty), "an empty name");
  EXPECT_EQ(why(packed(plain("a/b"))), "a name with '/' or NUL");
  EXPECT_EQ(why(packed(plain("/"))), "a name with '/' or NUL");
  EXPECT_EQ(why(packed(with_attributes(base::Bytes("a\0", 2)))), "a name with '/' or NUL");
  EXPECT_EQ(why(packed(plain(base::Bytes(kMaxName, 'x')))), "");
  EXPECT_DEATH(packed(plain(base::Bytes(kMaxName + 1, 'x'))), "assertion failed");
}

TEST(DirEntries, UnknownBits) {
  const base::Bytes body = packed(with_attributes("a"));
  auto with = [&](std::size_t at, int byte) {
    base::Bytes changed = body;
    changed.at(at) = static_cast<char>(byte);
    return why(changed);
  };
  EXPECT_EQ(with(0, 1 | 2), "unknown flags");
  EXPECT_EQ(with(0, 1 | 128), "unknown flags");
  EXPECT_EQ(with(2, 1), "unknown flags");
  EXPECT_EQ(with(3, 1), "unknown flags");
  EXPECT_EQ(with(4, 1), "a wrong type");
  EXPECT_EQ(with(6, 1), "a wrong type");
  EXPECT_EQ(with(kFixed + 108, 2), "unknown attribute bits");
  EXPECT_EQ(with(kFixed + 108, 0), "");
}

TEST(DirEntries, Nanoseconds) {
  for (Time Attributes::*time :
       {&Attributes::birth, &Attributes::accessed, &Attributes::modified, &Attributes::changed}) {
    DirEntry entry = with_attributes("a");
    ((*entry.attributes).*time).nanoseconds = 999'999'999;
    EXPECT_EQ(why(packed(entry)), "");
    ((*entry.attributes).*time).nanoseconds = 1'000'000'000;
    EXPECT_EQ(why(packed(entry)), "too many nanoseconds");
  }
}

TEST(DirEntries, LargestBody) {
  // The smallest record has 29 bytes: a name of one more fills the page up.
  base::Bytes body;
  body.reserve(kMaxBody);
  const base::Bytes smallest = packed(plain("a"));
  std::size_t count = 0;
  while (kMaxBody - body.size() >= 2 * smallest.size()) body += smallest, ++count;
  body += packed(plain(base::Bytes(kMaxBody - body.size() - kFixed, 'z')));
  ASSERT_EQ(body.size(), kMaxBody);
  const auto back = decode_dir_entries(body);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->size(), count + 1);
  EXPECT_EQ(why(body + smallest), "too long");
}

}  // namespace
}  // namespace sandbar::wire
