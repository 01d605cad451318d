// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vfs/types.h"

namespace sandbar::vfs {

/// A page of a directory's entries as the agent sent it, from which the kernel's smaller reads are served. With
/// attributes it owns the object ids that the agent bound to its entries, until an entry is handed on.
struct ListPage {
  struct Item {
    wire::DirEntry entry;
    bool owned = false;  ///< the entry's object id is ours still
    NodeId held;         ///< a node that was made for the entry and pinned, but not taken by the kernel yet
  };

  std::uint64_t start = 0;  ///< cookie of the first item's place
  bool attributes = false;
  wire::ObjectId first_object{};
  std::vector<Item> items{};
  std::size_t next = 0;  ///< behind the last item that was taken: where the kernel most likely goes on

  /// The item behind `cookie`; items.size() at the page's end. None when the page does not hold that place, or holds it
  /// without the attributes that are asked for.
  [[nodiscard]] std::optional<std::size_t> position(std::uint64_t cookie, bool with_attributes) const;
  [[nodiscard]] wire::ObjectId object_of(const Item& item) const {
    return wire::ObjectId(first_object.value + item.entry.object_offset);
  }
};

/// A place in a listing to ask the agent for.
struct PageRequest {
  std::uint64_t cookie = 0;
  std::uint32_t max_bytes = 0;
  bool attributes = false;
  wire::ObjectId first_object{};
  std::uint64_t reserved = 0;  ///< object ids from first_object on
};

/// Ids to reserve for a page: no more entries than this fit (a record has at least an inode number and a cookie).
std::uint64_t ids_for_page(std::uint32_t max_bytes);

/// Errc::protocol for a body that is no page: see wire::decode_dir_entries; also for cookies that do not fit off_t or
/// mean the start, and for object ids that were not reserved or are given twice.
Result<ListPage> parse_page(const PageRequest& request, base::BytesView body);

}  // namespace sandbar::vfs
