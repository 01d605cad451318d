// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sandbar::base {

/// Raw bytes that are moved along, not copied: a message's payload, a piece of a file. std::string, because that
/// is what websocketpp takes and gives without a copy. Never assumed to be text.
using Bytes = std::string;
using BytesView = std::string_view;

}  // namespace sandbar::base
