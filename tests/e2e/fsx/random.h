// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fsx {

/// Random numbers that are the same everywhere for the same seed (the standard library's distributions are not).
/// The step and the mixer are splitmix64's (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
    return mixed ^ (mixed >> 31);
  }
  /// 0 to `bound` - 1; `bound` is at least 1.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

  std::string bytes(std::size_t size) {
    std::string out(size, '\0');
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < size; ++i, word >>= 8) {
      if (i % 8 == 0) word = next();
      out[i] = static_cast<char>(word);
    }
    return out;
  }

 private:
  std::uint64_t state_;
};

}  // namespace fsx
