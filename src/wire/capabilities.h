// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include "wire/session_messages.h"

namespace sandbar::wire {

/// Whether a side has stated a capability (kCapability...).
[[nodiscard]] inline bool offers(const Hello& hello, std::string_view capability) {
  return std::find(hello.capabilities.begin(), hello.capabilities.end(), capability) != hello.capabilities.end();
}

}  // namespace sandbar::wire
