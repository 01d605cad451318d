// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sandbar::base {

/// True for well-formed UTF-8 (no overlong forms, no surrogates; RFC 3629).
bool is_utf8(std::string_view bytes);
/// For a terminal: control characters, DEL, C1 controls and bytes that are not UTF-8 become \xNN; newline too.
std::string printable(std::string_view bytes);
std::string base64_encode(std::string_view bytes);
/// RFC 4648 with padding; false on anything else.
bool base64_decode(std::string_view text, std::string& into);
std::string hex(std::string_view bytes);
/// `count` random bytes from getrandom(2); aborts where the kernel has none.
std::string random_bytes(std::size_t count);

}  // namespace sandbar::base
