// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "grant/grant.h"
#include "grant/keys.h"
#include "sandbar/result.h"

/// A grant as text:
///
///   sbg1.KEYID.PAYLOAD.SIGNATURE
///
/// KEYID has 16 hexadecimal digits; PAYLOAD is the JSON of wire::GrantPayload and SIGNATURE the Ed25519 signature of
/// all that stands before the last dot, both in base64url without padding. The key's id stands outside of the payload
/// so that nothing of it is parsed before its signature is known to be right.
namespace sandbar::grant {

constexpr std::string_view kTokenPrefix = "sbg1.";

/// True for what claims to be a grant, right or wrong.
[[nodiscard]] inline bool looks_like_grant(std::string_view token) { return token.starts_with(kTokenPrefix); }

/// Signs `grant` (its key_id is set). Errc::invalid as check(); Errc::limit where the token would be beyond
/// wire::kMaxToken.
Result<std::string> mint(Grant grant, const PrivateKey& key);

/// Errc::unauthorized for anything but a grant that a key of `keys` signed and that is good at `now`, give or take
/// kClockLeeway. Looks at sizes first, then at the key, the signature, the time, and last at what it says. The token is
/// in no error.
Result<Grant> verify(std::string_view token, const KeyRing& keys, UnixTime now);

}  // namespace sandbar::grant
