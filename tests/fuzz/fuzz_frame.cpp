// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = sandbar::fuzz::input(data, size);
  const auto frame = sandbar::wire::decode_frame(message);
  // There is one text for each frame.
  if (frame.ok()) SANDBAR_ASSERT(sandbar::wire::encode_frame(*frame) == message);
  return 0;
}
