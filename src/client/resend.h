// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/messages.h"

/// What becomes of a request that was not answered when its session was lost: the table of sandbox-mux.7, "LOST
/// SESSIONS". Pure functions; any thread.
namespace sandbar::client {

enum class Resend : std::uint8_t {
  again,      ///< sent again
  by_number,  ///< sent again under its number: the agent executes it, or answers from its record
  settled,    ///< nothing is left to do for it in a new session: it has succeeded
  unknown,    ///< fails with Errc::unknown if it was ever sent
};

struct ResendRule {
  Resend known;      ///< where the agent remembers the client's journal
  Resend forgotten;  ///< where it does not
  bool operator==(const ResendRule&) const = default;
};

ResendRule resend_rule(const wire::RequestBody& request);

/// True for requests that make, move or remove names: where they are on record as begun, their outcome is asked for
/// before anything is found again by its place.
bool changes_names(const wire::RequestBody& request);

/// The ids of a request that others have bound; 0 where it names none.
struct UsedIds {
  std::array<wire::ObjectId, 3> objects;
  std::array<wire::HandleId, 2> handles;
};
UsedIds used_ids(const wire::RequestBody& request);

}  // namespace sandbar::client
