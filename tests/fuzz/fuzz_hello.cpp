// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "wire/codec.h"

/// The session's own heads: hello, goodbye, credit.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto head = sandbar::fuzz::input(data, size);
  const auto hello = sandbar::wire::decode_hello(head);
  if (hello.ok()) sandbar::fuzz::check_round_trip(*hello, sandbar::wire::encode_hello, sandbar::wire::decode_hello);
  const auto goodbye = sandbar::wire::decode_goodbye(head);
  // Its text is escaped and cut when it is written, so that only the second round is an identity.
  if (goodbye.ok()) SANDBAR_ASSERT(sandbar::wire::decode_goodbye(sandbar::wire::encode_goodbye(*goodbye)).ok());
  const auto credit = sandbar::wire::decode_credit(head);
  if (credit.ok()) {
    const auto back = sandbar::wire::decode_credit(sandbar::wire::encode_credit(*credit));
    SANDBAR_ASSERT(back.ok() && *back == *credit);
  }
  return 0;
}
