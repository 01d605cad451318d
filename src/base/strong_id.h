// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace sandbar::base {

/// A number that cannot be mistaken for another kind of number: `struct ObjectTag; using ObjectId =
/// StrongId<ObjectTag>;`. Zero means none.
template <class Tag, class Rep = std::uint64_t>
struct StrongId {
  using rep = Rep;
  Rep value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep number) : value(number) {}
  constexpr explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

}  // namespace sandbar::base

template <class Tag, class Rep>
struct std::hash<sandbar::base::StrongId<Tag, Rep>> {
  std::size_t operator()(sandbar::base::StrongId<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value); }
};
