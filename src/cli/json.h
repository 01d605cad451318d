// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "sandbar/error.h"

namespace sandbar::cli {

/// `text` as a JSON string with its quotes. JSON is UTF-8: where `text` is not, each byte that does not belong becomes
/// U+FFFD, so a document can always be read (a name that must survive is base64 in a field of its own).
std::string json_string(std::string_view text);

/// Writes one object, field by field, for `-o json` and ready lines: what is printed, never what is parsed (the mux
/// has its codec in wire). Names are the caller's constants.
class JsonObject {
 public:
  JsonObject& field(std::string_view name, std::string_view value) { return raw(name, json_string(value)); }
  JsonObject& field(std::string_view name, const char* value) { return field(name, std::string_view(value)); }
  JsonObject& field(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  template <std::integral N>
  JsonObject& field(std::string_view name, N value) {
    return raw(name, std::to_string(value));
  }
  JsonObject& field(std::string_view name, const JsonObject& value) { return raw(name, value.text()); }
  /// `json` is a JSON value already.
  JsonObject& raw(std::string_view name, std::string_view json);

  /// On one line, without a newline.
  [[nodiscard]] std::string text() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

/// {"error":{"code":...,"message":...}}, with "errno" where there is one: what `-o json` prints of a failure.
std::string error_json(const Error& error);

}  // namespace sandbar::cli
