// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/bytes.h"
#include "sandbar/result.h"
#include "wire/limits.h"

/// What libFuzzer calls; each fuzzer of this folder defines it. In ordinary builds replay.cpp calls it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sandbar::fuzz {

inline base::BytesView input(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// What was read and written again must read as the same. Only heads that did not grow beyond the bound: a sender
/// may have written short what we write long (a control character within base64).
template <class Message>
void check_round_trip(const Message& message, base::Bytes (*encode)(const Message&),
                      Result<Message> (*decode)(base::BytesView)) {
  const base::Bytes head = encode(message);
  if (head.size() > wire::kMaxHead) return;
  const auto back = decode(head);
  SANDBAR_ASSERT(back.ok());
  SANDBAR_ASSERT(*back == message);
}

}  // namespace sandbar::fuzz
