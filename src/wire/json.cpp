// SPDX-License-Identifier: Apache-2.0
#include "wire/json.h"

#include <cstring>

#include "base/text.h"
#include "wire/limits.h"

namespace sandbar::wire::json {
namespace {

using Size = rapidjson::SizeType;

constexpr const char* kNotJson = "it is not JSON in UTF-8";

/// Between the parser and the document: stops the parser at a bound, before the document grows.
template <class To>
class Guard {
 public:
  explicit Guard(To& to) : to_(to) {}

  [[nodiscard]] const char* fault() const { return fault_; }

  bool Null() { return value() && to_.Null(); }
  bool Bool(bool b) { return value() && to_.Bool(b); }
  bool Int(int i) { return value() && to_.Int(i); }
  bool Uint(unsigned u) { return value() && to_.Uint(u); }
  bool Int64(std::int64_t i) { return value() && to_.Int64(i); }
  bool Uint64(std::uint64_t u) { return value() && to_.Uint64(u); }
  bool Double(double d) { return value() && to_.Double(d); }
  bool RawNumber(const char* text, Size size, bool copy) { return value() && to_.RawNumber(text, size, copy); }
  bool String(const char* text, Size size, bool copy) {
    return value() && utf8(text, size) && to_.String(text, size, copy);
  }
  bool StartArray() { return value() && enter(kMaxArray, "an array has too many elements") && to_.StartArray(); }
  bool EndArray(Size count) { return leave() && to_.EndArray(count); }
  bool StartObject() { return value() && enter(kMaxFields, "an object has too many fields") && to_.StartObject(); }
  bool EndObject(Size count) { return leave() && to_.EndObject(count); }
  bool Key(const char* text, Size size, bool copy) { return utf8(text, size) && to_.Key(text, size, copy); }

 private:
  struct Level {
    std::size_t count;
    std::size_t most;
    const char* too_many;
  };

  /// Counts a value, and in the array or object that it is in.
  bool value() {
    if (++values_ > kMaxValues) {
      fault_ = "it has too many values";
      return false;
    }
    if (depth_ == 0) return true;
    Level& level = levels_[depth_ - 1];
    if (++level.count <= level.most) return true;
    fault_ = level.too_many;
    return false;
  }
  /// RapidJSON 1.1.0 takes the escape of a lone low surrogate and makes bytes of it that are not UTF-8; all surrogates
  /// begin with 0xED.
  bool utf8(const char* text, Size size) {
    if (std::memchr(text, 0xED, size) == nullptr || base::is_utf8({text, size})) return true;
    fault_ = kNotJson;
    return false;
  }
  bool enter(std::size_t most, const char* too_many) {
    if (depth_ == kMaxJsonDepth) {
      fault_ = "it is nested too deep";
      return false;
    }
    levels_[depth_++] = {0, most, too_many};
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  To& to_;
  const char* fault_ = nullptr;
  std::size_t values_ = 0;
  unsigned depth_ = 0;
  std::array<Level, kMaxJsonDepth> levels_;
};

/// RapidJSON keeps both members of the same name: which one counts would be up to each reader. At most kMaxFields, so
/// that comparing all pairs is cheap. The recursion is bounded by kMaxJsonDepth.
bool has_duplicates(const Value& value) {
  if (value.IsArray()) {
    for (const Value& element : value.GetArray())
      if (has_duplicates(element)) return true;
    return false;
  }
  if (!value.IsObject()) return false;
  for (auto member = value.MemberBegin(); member != value.MemberEnd(); ++member) {
    for (auto other = value.MemberBegin(); other != member; ++other)
      if (text_of(other->name) == text_of(member->name)) return true;
    if (has_duplicates(member->value)) return true;
  }
  return false;
}

// Iterative: the peer's nesting must not be our recursion. Validated: what is not UTF-8 is not JSON.
constexpr unsigned kParseFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag;
constexpr std::size_t kStackStart = 1024;

}  // namespace

Document::Document() : values_(value_space_.data(), value_space_.size()), document_(&values_, kStackStart, &stack_) {}

const char* Document::parse(base::BytesView head) {
  if (head.size() > kMaxHead) return "it is too long";
  const char* fault = nullptr;
  auto generate = [&](auto& document) {
    rapidjson::MemoryStream stream(head.data(), head.size());
    rapidjson::Reader reader(&stack_);
    Guard guard(document);
    reader.Parse<kParseFlags>(stream, guard);
    // A zero byte is the end for RapidJSON, so what comes behind one was not looked at.
    if (reader.HasParseError() || stream.Tell() != head.size())
      fault = guard.fault() != nullptr ? guard.fault() : kNotJson;
    return !reader.HasParseError();
  };
  document_.Populate(generate);
  if (fault != nullptr) return fault;
  if (!document_.IsObject()) return "it is not a JSON object";
  return has_duplicates(document_) ? "a field is given twice" : nullptr;
}

}  // namespace sandbar::wire::json
