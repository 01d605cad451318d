// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "id_map_file.h"
#include "vfs/id_map.h"

namespace {

class Names final : public sandbar::tools::LocalNames {
 public:
  [[nodiscard]] std::optional<std::uint32_t> uid(const std::string& name) const override {
    return name.size() % 2 == 0 ? std::optional<std::uint32_t>(name.size()) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint32_t> gid(const std::string& name) const override { return uid(name); }
};

/// Both ways, at the ends of each range.
void check(const std::vector<sandbar::vfs::IdRange>& ranges) {
  const sandbar::vfs::IdNumbers numbers(ranges);
  for (const auto& range : ranges) {
    SANDBAR_ASSERT(range.count > 0);
    for (const std::uint32_t offset : {std::uint32_t{0}, range.count - 1}) {
      SANDBAR_ASSERT(numbers.remote(range.local + offset) == range.remote + offset);
      SANDBAR_ASSERT(numbers.local(range.remote + offset) == range.local + offset);
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto map = sandbar::tools::parse_id_map(sandbar::fuzz::input(data, size), "file", Names());
  if (!map.ok()) return 0;
  check(map->uids);
  check(map->gids);
  return 0;
}
