// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto reply = sandbar::wire::decode_reply(sandbar::fuzz::input(data, size));
  if (reply.ok()) sandbar::fuzz::check_round_trip(*reply, sandbar::wire::encode_reply, sandbar::wire::decode_reply);
  return 0;
}
