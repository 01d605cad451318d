// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = sandbar::wire::decode_request(sandbar::fuzz::input(data, size));
  if (request.ok())
    sandbar::fuzz::check_round_trip(*request, sandbar::wire::encode_request, sandbar::wire::decode_request);
  return 0;
}
