// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "base/bytes.h"

/// Little-endian numbers in bytes, whatever the machine's own order and alignment rules (compilers make one move of
/// each loop).
namespace sandbar::wire {

template <std::unsigned_integral T>
void put(base::Bytes& bytes, T number) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFF);
}

/// The caller has checked that sizeof(T) bytes are there.
template <std::unsigned_integral T>
T get(base::BytesView bytes, std::size_t offset) {
  T number = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    number = static_cast<T>(number | static_cast<T>(static_cast<std::uint8_t>(bytes[offset + i])) << (8 * i));
  return number;
}

}  // namespace sandbar::wire
