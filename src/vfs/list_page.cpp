// SPDX-License-Identifier: Apache-2.0
#include "vfs/list_page.h"

#include <algorithm>
#include <limits>

#include "wire/dirents.h"

namespace sandbar::vfs {
namespace {

Error bad_page(const char* why) { return make_error(Errc::protocol, "read a listing", why); }

bool is_dots(base::BytesView name) { return name == "." || name == ".."; }

}  // namespace

std::optional<std::size_t> ListPage::position(std::uint64_t cookie, bool with_attributes) const {
  if (items.empty() || (with_attributes && !attributes)) return std::nullopt;
  if (next > 0 && items[next - 1].entry.cookie == cookie) return next;
  if (cookie == start) return 0;
  // The kernel steps back a little whenever its caller's buffer was full before its own.
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i].entry.cookie == cookie) return i + 1;
  return std::nullopt;
}

std::uint64_t ids_for_page(std::uint32_t max_bytes) { return max_bytes / 16 + 1; }

Result<ListPage> parse_page(const PageRequest& request, base::BytesView body) {
  auto entries = wire::decode_dir_entries(body);
  if (!entries) return std::move(entries).error();
  ListPage page{.start = request.cookie, .attributes = request.attributes, .first_object = request.first_object};
  page.items.reserve(entries->size());
  std::vector<std::uint32_t> offsets;
  for (wire::DirEntry& entry : *entries) {
    if (entry.cookie == 0 || entry.cookie > std::numeric_limits<std::int64_t>::max())
      return bad_page("an entry's cookie is out of range");
    const bool owned = entry.attributes.has_value();
    if (owned && (!request.attributes || is_dots(entry.name))) return bad_page("attributes that were not asked for");
    if (owned && entry.object_offset >= request.reserved) return bad_page("an object id that was not offered");
    if (owned) offsets.push_back(entry.object_offset);
    page.items.push_back({std::move(entry), owned, {}});
  }
  std::sort(offsets.begin(), offsets.end());
  if (std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end()) return bad_page("an object id given twice");
  return page;
}

}  // namespace sandbar::vfs
