// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "wire/archive.h"
#include "wire/instant.h"
#include "wire/json.h"
#include "wire/messages.h"

namespace sandbar::wire {

/// The archive that writes a message as a JSON object, without spaces. take() ends it.
class FieldWriter {
 public:
  FieldWriter() : writer_(sink_) {
    sink_.bytes.reserve(256);
    writer_.StartObject();
  }
  FieldWriter(const FieldWriter&) = delete;
  FieldWriter& operator=(const FieldWriter&) = delete;

  template <class T>
  void need(std::string_view name, const T& field) {
    key(name);
    write(field);
  }
  template <class T>
  void may(std::string_view name, const T& field) {
    if (!is_default(field)) need(name, field);
  }
  base::Bytes take() {
    writer_.EndObject();
    return std::move(sink_.bytes);
  }

 private:
  /// What RapidJSON calls a stream.
  struct Sink {
    using Ch = char;
    void Put(char c) { bytes += c; }
    void Flush() {}
    base::Bytes bytes;
  };

  template <class T>
  static bool is_default(const T& value) {
    return value == T{};
  }
  template <class S>
  static bool is_default(const ByteString<S>& field) {
    return field.value.empty();
  }
  template <class S>
  static bool is_default(const Text<S>& field) {
    return field.value.empty();
  }
  template <class V>
  static bool is_default(const ByteStrings<V>& field) {
    return field.value.empty();
  }
  template <class V>
  static bool is_default(const Texts<V>& field) {
    return field.value.empty();
  }

  void key(std::string_view name) { writer_.Key(name.data(), static_cast<rapidjson::SizeType>(name.size())); }
  void string(std::string_view text) { writer_.String(text.data(), static_cast<rapidjson::SizeType>(text.size())); }

  void write(std::uint64_t number) { writer_.Uint64(number); }
  void write(std::uint32_t number) { writer_.Uint(number); }
  void write(bool flag) { writer_.Bool(flag); }
  void write(Instant instant) { write(instant.seconds); }
  template <class Tag>
  void write(base::StrongId<Tag> id) {
    writer_.Uint64(id.value);
  }

  template <class... T>
  void elements(const T&... fields) {
    writer_.StartArray();
    (write(fields), ...);
    writer_.EndArray();
  }
  void write(const Time& time) {
    writer_.StartArray();
    writer_.Int64(time.seconds);
    writer_.Uint(time.nanoseconds);
    writer_.EndArray();
  }
  void write(const Attributes& a) {
    elements(a.device, a.inode, a.birth, a.mode, a.links, a.uid, a.gid, a.rdev, a.size, a.blocks, a.block_size,
             a.accessed, a.modified, a.changed, a.has_xattrs);
  }
  void write(const Caller& caller) { elements(caller.uid, caller.gid, caller.groups, caller.umask); }

  template <class S>
  void write(const Text<S>& field) {
    string(field.value);
  }
  template <class S>
  void write(const ByteString<S>& field) {
    if (base::is_utf8(field.value)) return string(field.value);
    writer_.StartObject();
    key("b64");
    string(base::base64_encode(field.value));
    writer_.EndObject();
  }
  template <class T>
  void write(const std::vector<T>& values) {
    writer_.StartArray();
    for (const T& value : values) write(value);
    writer_.EndArray();
  }
  template <class V>
  void write(const ByteStrings<V>& field) {
    writer_.StartArray();
    for (const base::Bytes& one : field.value) write(ByteString{one, field.most});
    writer_.EndArray();
  }
  template <class V>
  void write(const Texts<V>& field) {
    writer_.StartArray();
    for (const std::string& one : field.value) string(one);
    writer_.EndArray();
  }
  template <class T>
  void write(const std::optional<T>& value) {
    write(*value);  // is_default() has left out an empty one
  }

  void write(LockKind kind) { string(kind == LockKind::flock ? "flock" : "posix"); }
  void write(LockType type) { string(type == LockType::read ? "read" : type == LockType::write ? "write" : "unlock"); }

  /// A struct that has a field list of its own.
  template <class T>
  requires requires(FieldWriter& writer, const T& message) { fields(writer, message); }
  void write(const T& message) {
    writer_.StartObject();
    fields(*this, message);
    writer_.EndObject();
  }

  Sink sink_;
  rapidjson::Writer<Sink> writer_;
};

}  // namespace sandbar::wire
