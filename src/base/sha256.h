// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sandbar::base {

/// The 32 bytes of SHA-256 (FIPS 180-4). Any thread. Aborts where OpenSSL has no SHA-256.
std::string sha256(std::string_view bytes);

}  // namespace sandbar::base
