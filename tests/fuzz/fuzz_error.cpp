// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sandbar::Error error;
  if (!sandbar::wire::decode_error(sandbar::fuzz::input(data, size), error).ok()) return 0;
  static_cast<void>(error.message());
  // Its text is escaped and cut when it is written; what is left of it stays.
  sandbar::Error second;
  SANDBAR_ASSERT(sandbar::wire::decode_error(sandbar::wire::encode_error(error), second).ok());
  sandbar::Error third;
  SANDBAR_ASSERT(sandbar::wire::decode_error(sandbar::wire::encode_error(second), third).ok());
  SANDBAR_ASSERT(second.code == error.code && second.os_errno == error.os_errno);
  SANDBAR_ASSERT(third.detail == second.detail);
  return 0;
}
