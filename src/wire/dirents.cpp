// SPDX-License-Identifier: Apache-2.0
#include "wire/dirents.h"

#include <array>
#include <utility>

#include "base/assert.h"
#include "wire/bytes_io.h"
#include "wire/limits.h"

namespace sandbar::wire {
namespace {

// A record is a fixed part, attributes where flag 1 says so, then the name:
//
//   0 u8 flags   1 u8 name length   2 u16 zero   4 u32 type   8 u64 cookie   16 u64 inode   24 u32 object offset
constexpr std::size_t kFixed = 28;
constexpr std::uint8_t kHasAttributes = 1;

//   0 u64 device, inode, rdev, size, blocks           40 i64 seconds of birth, accessed, modified, changed
//  72 u32 nanoseconds of the same                     88 u32 mode, links, uid, gid, block size, bits (1: has xattrs)
constexpr std::size_t kAttributes = 112;
constexpr std::uint32_t kHasXattrs = 1;

constexpr std::uint32_t kTypeMask = 0170000;  // S_IFMT
constexpr std::uint32_t kNanosecondsInSecond = 1'000'000'000;

void append_attributes(base::Bytes& body, const Attributes& a) {
  for (std::uint64_t number : {a.device, a.inode, a.rdev, a.size, a.blocks}) put(body, number);
  for (const Time& time : {a.birth, a.accessed, a.modified, a.changed})
    put(body, static_cast<std::uint64_t>(time.seconds));
  for (const Time& time : {a.birth, a.accessed, a.modified, a.changed}) put(body, time.nanoseconds);
  const std::uint32_t bits = a.has_xattrs ? kHasXattrs : 0;
  for (std::uint32_t number : {a.mode, a.links, a.uid, a.gid, a.block_size, bits}) put(body, number);
}

Attributes read_attributes(base::BytesView record) {
  Attributes a;
  std::size_t at = kFixed;
  for (std::uint64_t* number : {&a.device, &a.inode, &a.rdev, &a.size, &a.blocks})
    *number = get<std::uint64_t>(record, std::exchange(at, at + 8));
  const std::array times{&a.birth, &a.accessed, &a.modified, &a.changed};
  for (Time* time : times)
    time->seconds = static_cast<std::int64_t>(get<std::uint64_t>(record, std::exchange(at, at + 8)));
  for (Time* time : times) time->nanoseconds = get<std::uint32_t>(record, std::exchange(at, at + 4));
  for (std::uint32_t* number : {&a.mode, &a.links, &a.uid, &a.gid, &a.block_size})
    *number = get<std::uint32_t>(record, std::exchange(at, at + 4));
  a.has_xattrs = get<std::uint32_t>(record, at) != 0;
  return a;
}

bool times_are_valid(const Attributes& a) {
  for (const Time* time : {&a.birth, &a.accessed, &a.modified, &a.changed})
    if (time->nanoseconds >= kNanosecondsInSecond) return false;
  return true;
}

Error refuse(const char* why) { return make_error(Errc::protocol, "read a directory's entries", why); }

/// The size of the record that `body` begins with, 0 where it is cut.
std::size_t record_size(base::BytesView body) {
  if (body.size() < kFixed) return 0;
  const bool attributes = (get<std::uint8_t>(body, 0) & kHasAttributes) != 0;
  const std::size_t size = kFixed + (attributes ? kAttributes : 0) + get<std::uint8_t>(body, 1);
  return size <= body.size() ? size : 0;
}

/// Why `record`, of the right size, is not an entry; null when it is.
const char* read_entry(base::BytesView record, DirEntry& entry) {
  const auto flags = get<std::uint8_t>(record, 0);
  const auto name_size = get<std::uint8_t>(record, 1);
  if ((flags & ~kHasAttributes) != 0 || get<std::uint16_t>(record, 2) != 0) return "unknown flags";
  if (name_size == 0) return "an empty name";
  entry.type = get<std::uint32_t>(record, 4);
  if ((entry.type & ~kTypeMask) != 0) return "a wrong type";
  entry.cookie = get<std::uint64_t>(record, 8);
  entry.inode = get<std::uint64_t>(record, 16);
  entry.object_offset = get<std::uint32_t>(record, 24);
  if ((flags & kHasAttributes) != 0) {
    if ((get<std::uint32_t>(record, kFixed + kAttributes - 4) & ~kHasXattrs) != 0) return "unknown attribute bits";
    entry.attributes = read_attributes(record);
    if (!times_are_valid(*entry.attributes)) return "too many nanoseconds";
  }
  entry.name = record.substr(record.size() - name_size);
  // Such a name would be a path, or another name, for whoever uses it.
  return entry.name.find_first_of(base::BytesView("/\0", 2)) == base::Bytes::npos ? nullptr : "a name with '/' or NUL";
}

}  // namespace

std::size_t dir_entry_size(const DirEntry& entry) {
  return kFixed + (entry.attributes ? kAttributes : 0) + entry.name.size();
}

void append_dir_entry(base::Bytes& body, const DirEntry& entry) {
  SANDBAR_ASSERT(!entry.name.empty() && entry.name.size() <= kMaxName);
  static_assert(kMaxName <= 255, "the name's length has one byte");
  put(body, entry.attributes ? kHasAttributes : std::uint8_t{0});
  put(body, static_cast<std::uint8_t>(entry.name.size()));
  put(body, std::uint16_t{0});
  put(body, entry.type);
  put(body, entry.cookie);
  put(body, entry.inode);
  put(body, entry.object_offset);
  if (entry.attributes) append_attributes(body, *entry.attributes);
  body += entry.name;
}

Result<std::vector<DirEntry>> decode_dir_entries(base::BytesView body) {
  if (body.size() > kMaxBody) return refuse("too long");
  std::size_t count = 0;
  for (base::BytesView rest = body; !rest.empty(); ++count) {
    const std::size_t size = record_size(rest);
    if (size == 0) return refuse("a cut record");
    rest.remove_prefix(size);
  }
  std::vector<DirEntry> entries;
  entries.reserve(count);  // at most one for 28 bytes
  for (base::BytesView rest = body; !rest.empty();) {
    const std::size_t size = record_size(rest);
    if (const char* why = read_entry(rest.substr(0, size), entries.emplace_back())) return refuse(why);
    rest.remove_prefix(size);
  }
  return entries;
}

}  // namespace sandbar::wire
