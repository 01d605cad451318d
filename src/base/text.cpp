// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "base/assert.h"

namespace sandbar::base {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kHex = "0123456789abcdef";

std::uint8_t byte_at(std::string_view bytes, std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); }

/// The length of the well-formed UTF-8 sequence at `i`, 0 where there is none.
std::size_t utf8_sequence(std::string_view bytes, std::size_t i) {
  const std::uint8_t lead = byte_at(bytes, i);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  std::uint32_t least = 0;
  std::uint32_t code = 0;
  if ((lead & 0xE0) == 0xC0) {
    length = 2, least = 0x80, code = lead & 0x1F;
  } else if ((lead & 0xF0) == 0xE0) {
    length = 3, least = 0x800, code = lead & 0x0F;
  } else if ((lead & 0xF8) == 0xF0) {
    length = 4, least = 0x10000, code = lead & 0x07;
  } else {
    return 0;
  }
  if (bytes.size() - i < length) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    const std::uint8_t next = byte_at(bytes, i + k);
    if ((next & 0xC0) != 0x80) return 0;
    code = code << 6 | (next & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < least || code > 0x10FFFF || surrogate ? 0 : length;
}

void append_escaped(std::string& out, std::uint8_t byte) {
  out += "\\x";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = utf8_sequence(bytes, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string printable(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = utf8_sequence(bytes, i);
    const std::uint8_t lead = byte_at(bytes, i);
    // U+0080..U+009F (C1 controls) are 0xC2 0x80..0x9F.
    const bool c1 = length == 2 && lead == 0xC2 && byte_at(bytes, i + 1) < 0xA0;
    if (length == 0 || lead < 0x20 || lead == 0x7F) {
      append_escaped(out, lead);
      i += 1;
    } else if (c1) {
      append_escaped(out, lead);
      append_escaped(out, byte_at(bytes, i + 1));
      i += 2;
    } else {
      out.append(bytes, i, length);
      i += length;
    }
  }
  return out;
}

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < have ? byte_at(bytes, i + k) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= have ? kBase64[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

bool base64_decode(std::string_view text, std::string& into) {
  static const auto kValues = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    for (std::size_t i = 0; i < kBase64.size(); ++i)
      values[static_cast<std::uint8_t>(kBase64[i])] = static_cast<std::int8_t>(i);
    return values;
  }();
  into.clear();
  if (text.size() % 4 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const std::size_t padding = !last ? 0 : (text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const int value = k >= 4 - padding ? 0 : kValues[byte_at(text, i + k)];
      if (value < 0) return false;
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    // Bits that the padding cuts off must be zero: one text for each byte string.
    if (padding > 0 && (group & (padding == 1 ? 0xFFU : 0xFFFFU)) != 0) return false;
    for (std::size_t k = 0; k < 3 - padding; ++k) into += static_cast<char>(group >> (16 - 8 * k) & 0xFF);
  }
  return true;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    out += kHex[byte_at(bytes, i) >> 4];
    out += kHex[byte_at(bytes, i) & 15];
  }
  return out;
}

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = ::getrandom(out.data() + have, count - have, 0);
    if (got < 0 && errno == EINTR) continue;  // a signal may come before the first byte of a large request
    SANDBAR_ASSERT(got > 0);
    have += static_cast<std::size_t>(got);
  }
  return out;
}

}  // namespace sandbar::base
