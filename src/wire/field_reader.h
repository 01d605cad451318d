// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "wire/archive.h"
#include "wire/instant.h"
#include "wire/json.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace sandbar::wire {

/// The archive that reads a JSON object into a message. The first fault stays; what comes after it is not read.
class FieldReader {
 public:
  explicit FieldReader(const json::Value& object) : object_(object), next_(object.MemberBegin()) {}

  template <class T>
  void need(std::string_view name, T&& field) {
    if (!ok()) return;
    const json::Value* value = find(name);
    fail_if(name, value == nullptr ? "is missing" : read(*value, field));
  }
  template <class T>
  void may(std::string_view name, T&& field) {
    if (!ok()) return;
    if (const json::Value* value = find(name)) fail_if(name, read(*value, field));
  }

  [[nodiscard]] bool ok() const { return why_ == nullptr; }
  /// "name is too long"; only when not ok(). Static texts: nothing of the peer's is in it.
  [[nodiscard]] std::string fault() const { return std::string(name_) + " " + why_; }
  [[nodiscard]] const char* why() const { return why_; }

 private:
  using Why = const char*;  // null: no fault

  /// Senders keep the documented order as a rule, so the wanted field is mostly the next one.
  const json::Value* find(std::string_view name) {
    for (auto member = next_; member != object_.MemberEnd(); ++member)
      if (json::text_of(member->name) == name) return found(member);
    for (auto member = object_.MemberBegin(); member != next_; ++member)
      if (json::text_of(member->name) == name) return found(member);
    return nullptr;
  }
  const json::Value* found(json::Value::ConstMemberIterator member) {
    next_ = member + 1;
    return &member->value;
  }
  void fail_if(std::string_view name, Why why) {
    name_ = name;
    why_ = why;
  }

  static Why read(const json::Value& value, std::uint64_t& number) {
    if (!value.IsUint64()) return "is not a number of 64 bits";
    number = value.GetUint64();
    return nullptr;
  }
  static Why read(const json::Value& value, std::uint32_t& number) {
    if (!value.IsUint()) return "is not a number of 32 bits";
    number = value.GetUint();
    return nullptr;
  }
  static Why read(const json::Value& value, bool& flag) {
    if (!value.IsBool()) return "is not true or false";
    flag = value.GetBool();
    return nullptr;
  }
  static Why read(const json::Value& value, Instant& instant) {
    if (value.IsUint64()) return read(value, instant.seconds);
    return value.IsString() && parse_instant(json::text_of(value), instant)
               ? nullptr
               : "is neither seconds since 1970 nor a time such as 2026-01-31T12:00:00Z";
  }
  template <class Tag>
  static Why read(const json::Value& value, base::StrongId<Tag>& id) {
    return read(value, id.value);
  }

  static Why read(const json::Value& value, Time& time) {
    if (!value.IsArray() || value.Size() < 2 || !value[0].IsInt64() || !value[1].IsUint())
      return "is not [seconds,nanoseconds]";
    time = {value[0].GetInt64(), value[1].GetUint()};
    return time.nanoseconds < 1'000'000'000 ? nullptr : "has too many nanoseconds";
  }

  template <class T>
  static Why read_element(const json::Value& array, rapidjson::SizeType& index, T&& field) {
    return index < array.Size() ? read(array[index++], field) : "has too few elements";
  }
  /// Elements of `array` in the order of `fields`; more than those are of a newer version.
  template <class... T>
  static Why read_elements(const json::Value& array, T&&... fields) {
    if (!array.IsArray()) return "is not an array";
    rapidjson::SizeType index = 0;
    Why why = nullptr;
    static_cast<void>((((why = read_element(array, index, fields)) == nullptr) && ...));
    return why;
  }
  static Why read(const json::Value& value, Attributes& a) {
    return read_elements(value, a.device, a.inode, a.birth, a.mode, a.links, a.uid, a.gid, a.rdev, a.size, a.blocks,
                         a.block_size, a.accessed, a.modified, a.changed, a.has_xattrs);
  }
  static Why read(const json::Value& value, Caller& caller) {
    if (Why why = read_elements(value, caller.uid, caller.gid, caller.groups, caller.umask)) return why;
    return caller.groups.size() <= kMaxGroups ? nullptr : "has too many groups";
  }

  static Why read_string(const json::Value& value, base::Bytes& text, std::size_t most) {
    if (!value.IsString()) return "is not a string";
    if (value.GetStringLength() > most) return "is too long";
    text.assign(value.GetString(), value.GetStringLength());
    return nullptr;
  }
  // No string of the protocol has a zero byte: for the kernel it would be another, shorter one.
  static Why refuse_zeros(const base::Bytes& text) {
    return text.find('\0') == base::Bytes::npos ? nullptr : "has a zero byte";
  }
  static Why read(const json::Value& value, Text<std::string> field) {
    if (Why why = read_string(value, field.value, field.most)) return why;
    return refuse_zeros(field.value);
  }
  static Why read(const json::Value& value, ByteString<base::Bytes> field) {
    Why why = value.IsObject() ? read_base64(value, field) : read_string(value, field.value, field.most);
    return why != nullptr ? why : refuse_zeros(field.value);
  }
  static Why read_base64(const json::Value& value, ByteString<base::Bytes> field) {
    const json::Value* text = FieldReader(value).find("b64");
    if (text == nullptr || !text->IsString()) return "is an object without b64";
    if (text->GetStringLength() / 4 * 3 > field.most + 2) return "is too long";  // before memory is taken for it
    if (!base::base64_decode(json::text_of(*text), field.value)) return "has b64 that is not base64";
    return field.value.size() <= field.most ? nullptr : "is too long";
  }

  template <class V, class ReadElement>
  static Why read_vector(const json::Value& value, V& into, ReadElement read_one) {
    if (!value.IsArray()) return "is not an array";
    into.reserve(value.Size());  // bounded by kMaxArray
    for (const json::Value& element : value.GetArray())
      if (Why why = read_one(element, into.emplace_back())) return why;
    return nullptr;
  }
  template <class T>
  static Why read(const json::Value& value, std::vector<T>& into) {
    return read_vector(value, into, [](const json::Value& element, T& one) { return read(element, one); });
  }
  static Why read(const json::Value& value, ByteStrings<std::vector<base::Bytes>> field) {
    return read_vector(value, field.value, [&](const json::Value& element, base::Bytes& one) {
      return read(element, ByteString{one, field.most});
    });
  }
  static Why read(const json::Value& value, Texts<std::vector<std::string>> field) {
    return read_vector(value, field.value, [&](const json::Value& element, std::string& one) {
      return read(element, Text{one, field.most});
    });
  }
  template <class T>
  static Why read(const json::Value& value, std::optional<T>& into) {
    return read(value, into.emplace());
  }

  static Why read(const json::Value& value, LockKind& kind) {
    return read_word(value, kind, std::array{"posix", "flock"});
  }
  static Why read(const json::Value& value, LockType& type) {
    return read_word(value, type, std::array{"read", "write", "unlock"});
  }
  template <class E, std::size_t N>
  static Why read_word(const json::Value& value, E& into, const std::array<const char*, N>& words) {
    if (!value.IsString()) return "is not a string";
    for (std::size_t i = 0; i < N; ++i) {
      if (json::text_of(value) != words[i]) continue;
      into = static_cast<E>(i);
      return nullptr;
    }
    return "is of an unknown kind";
  }

  /// A struct that has a field list of its own.
  template <class T>
  requires requires(FieldReader& reader, T& message) { fields(reader, message); }
  static Why read(const json::Value& value, T& message) {
    if (!value.IsObject()) return "is not an object";
    FieldReader reader(value);
    fields(reader, message);
    return reader.why();
  }

  const json::Value& object_;
  json::Value::ConstMemberIterator next_;
  std::string_view name_;
  Why why_ = nullptr;
};

}  // namespace sandbar::wire
