// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "wire/dirents.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = sandbar::fuzz::input(data, size);
  const auto entries = sandbar::wire::decode_dir_entries(body);
  if (!entries.ok()) return 0;
  // There is one text for each listing.
  sandbar::base::Bytes again;
  std::size_t total = 0;
  for (const auto& entry : *entries) {
    sandbar::wire::append_dir_entry(again, entry);
    total += sandbar::wire::dir_entry_size(entry);
  }
  SANDBAR_ASSERT(again == body && total == body.size());
  return 0;
}
