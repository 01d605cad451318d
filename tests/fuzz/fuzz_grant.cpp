// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "grant/token.h"
#include "wire/grant_heads.h"

namespace {

constexpr sandbar::grant::UnixTime kNow = 1'800'000'000;

/// Fixed, so that a seed that is a good token stays one.
const sandbar::grant::PrivateKey& key() {
  // The example of RFC 8410.
  static const auto made = sandbar::grant::PrivateKey::from_pem(
      "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
      "-----END PRIVATE KEY-----\n");
  return *made;
}

const sandbar::grant::KeyRing& ring() {
  static const auto made = [] {
    sandbar::grant::KeyRing keys;
    SANDBAR_ASSERT(keys.add_pem(key().public_pem()).ok());
    return keys;
  }();
  return made;
}

}  // namespace

/// Tokens, the payload that a right signature lets through, what a grant command prints, and key files.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = sandbar::fuzz::input(data, size);
  const auto grant = sandbar::grant::verify(text, ring(), kNow);
  if (grant.ok()) {
    // Only what the key has signed is a grant; and it says the same when it is signed again.
    const auto again = sandbar::grant::verify(*sandbar::grant::mint(*grant, key()), ring(), kNow);
    SANDBAR_ASSERT(again.ok() && *again == *grant);
  } else {
    SANDBAR_ASSERT(grant.error().code == sandbar::Errc::unauthorized);
  }
  const auto payload = sandbar::wire::decode_grant_payload(text);
  if (payload.ok())
    sandbar::fuzz::check_round_trip(*payload, sandbar::wire::encode_grant_payload, sandbar::wire::decode_grant_payload);
  const auto answer = sandbar::wire::decode_grant_answer(text);
  if (answer.ok())
    sandbar::fuzz::check_round_trip(*answer, sandbar::wire::encode_grant_answer, sandbar::wire::decode_grant_answer);
  sandbar::grant::KeyRing keys;
  if (!keys.add_pem(text).ok()) SANDBAR_ASSERT(keys.size() == 0);
  return 0;
}
