// SPDX-License-Identifier: Apache-2.0
#include "cli/json.h"

#include <algorithm>

#include "base/text.h"

namespace sandbar::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kLongestSequence = 4;

void append_ascii(std::string& out, char c) {
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
    out += "\\u00" + base::hex(std::string_view(&c, 1));
  } else {
    out += c;
  }
}

/// The length of the UTF-8 sequence at the head of `rest`, 0 where there is none.
std::size_t sequence_length(std::string_view rest) {
  for (std::size_t length = 1; length <= std::min(kLongestSequence, rest.size()); ++length) {
    if (base::is_utf8(rest.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) out += kReplacement;
    if (length == 1) append_ascii(out, text.front());
    if (length > 1) out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out + '"';
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += json_string(name);
  fields_ += ':';
  fields_ += json;
  return *this;
}

std::string error_json(const Error& error) {
  JsonObject inner;
  inner.field("code", errc_name(error.code)).field("message", error.message());
  if (error.os_errno != 0) inner.field("errno", error.os_errno);
  return JsonObject().field("error", inner).text();
}

}  // namespace sandbar::cli
